"""The waker: instances whose continuation is due go on, or meet their deadline (WEA-13, WEA-14)."""

from pulseweave.core.weave.wake import wake
from pulseweave.kernel import limits
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as facts
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run
from pulseweave.txn.weave.pump import ENGINE, lock_works
from pulseweave.txn.weave.settle import Decided, Make, Work, settle


def wake_due(database: Database, *, ids: IdSource) -> int:
    """Wake a bounded batch of due instances; answers how many there were."""

    def work(tx: Tx) -> int:
        due = facts.due_instances(tx, tx.clock_now(), limits.WAKE_INSTANCES_MAX)
        if not due:
            return 0
        identities = facts.identities(tx, due)
        quotas = lock_works(tx, identities)
        rows = locks.lock_instances(tx, sorted(identities), skip_locked=True)
        now = tx.now()
        instances = {
            row.id: instance_from_row(row)
            for row in rows
            if row.wake_at is not None and row.wake_at <= now
        }
        works = [
            Work(instance_id=instance_id, decide=_wake, actor=ENGINE, cause="WAKE")
            for instance_id in sorted(instances)
        ]
        settle(tx, works, instances, quotas=quotas, new_id=ids.next)
        return len(works)

    return run(database, work, probe=lambda tx: bool(facts.due_instances(tx, tx.clock_now(), 1)))


def _wake(make: Make) -> Decided:
    draft = make()
    wake(draft)
    return Decided(draft)
