"""The promoter's step: the first waiter of a free concurrency key goes back into the claim index (PUL-10).

Hinted when a key is released, else found within a second. Handing a key over inside the report that frees it
would lock a task behind a task, so it is done here, stripes first.
"""

from pulseweave.core.pulse.hold import promote
from pulseweave.kernel import limits
from pulseweave.store import locks
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.engine import Database
from pulseweave.store.facts import tasks as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run


def promote_keys(database: Database) -> int:
    """Clear hold KEY for the first waiter of each free key; answers how many."""

    def work(tx: Tx) -> int:
        keys = facts.free_waited_keys(tx, limits.PROMOTE_KEYS_MAX)
        if not keys:
            return 0
        locks.lock_key_stripes(tx, keys)
        held = facts.key_holders(tx, keys)
        waiters = facts.first_waiters(tx, [key for key in keys if key not in held])
        tasks = locks.lock_tasks(tx, waiters.values(), skip_locked=True)
        changes = [change for task in tasks.values() if (change := promote(task)) is not None]
        write_task_changes(tx, changes)
        return len(changes)

    return run(database, work, probe=lambda tx: bool(facts.free_waited_keys(tx, 1)))
