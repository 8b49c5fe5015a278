"""The sweeper's step: what time alone does to tasks, a bounded batch at a time.

Lapsed leases, passed deadlines and latest starts, ended delays (PUL-2, PUL-3, PUL-5, PUL-7). What
is due is seen without a lock and judged again on the locked row.
"""

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.outcome import Chance
from pulseweave.core.pulse.policy import DEFAULT_BACKOFF
from pulseweave.core.pulse.sweep import sweep
from pulseweave.core.pulse.task import Running
from pulseweave.kernel import limits
from pulseweave.kernel.entropy import Entropy
from pulseweave.store import locks
from pulseweave.store.changes.events import append_events
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.engine import Database
from pulseweave.store.facts import tasks as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run


def sweep_tasks(database: Database, *, entropy: Entropy) -> int:
    """Expire, take back lapsed leases, end delays; answers how many tasks were due."""

    def work(tx: Tx) -> int:
        due = facts.due_task_ids(tx, tx.clock_now(), limits.SWEEP_ROWS_MAX)
        if not due:
            return 0
        tasks = locks.lock_tasks(tx, due, skip_locked=True)
        lapsed = [task.id for task in tasks.values() if isinstance(task.phase, Running)]
        backoffs = facts.backoffs(tx, lapsed) if lapsed else {}
        now = tx.now()
        changes: list[TaskChange] = []
        for task in tasks.values():
            backoff = backoffs.get(task.id, DEFAULT_BACKOFF)
            change = sweep(task, now=now, chance=Chance(backoff=backoff, uniform=entropy.uniform()))
            if change is not None:
                changes.append(change)
        write_task_changes(tx, changes)
        append_events(tx, [change.event for change in changes if change.event is not None])
        return len(changes)

    return run(database, work, probe=lambda tx: bool(facts.due_task_ids(tx, tx.clock_now(), 1)))
