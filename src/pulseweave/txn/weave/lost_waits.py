"""Lost waits: an active leaf that waits, with nothing armed for it, goes into review (WEA-19).

Nothing is ever armed again by the engine itself: a person looks first.
"""

from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.states import LeafKind, LeafState, ReviewCause, WaitKind
from pulseweave.kernel import limits
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.lost_waits import instances_with_lost_waits
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run
from pulseweave.txn.weave.pump import ENGINE, lock_works
from pulseweave.txn.weave.settle import Decided, Make, Work, settle


def review_lost_waits(database: Database, *, ids: IdSource) -> int:
    """Put a bounded number of such leaves in review; answers how many instances had one."""

    def work(tx: Tx) -> int:
        suspected = instances_with_lost_waits(tx, limits.WAKE_INSTANCES_MAX)
        if not suspected:
            return 0
        identities = facts.identities(tx, suspected)
        quotas = lock_works(tx, identities)
        rows = locks.lock_instances(tx, sorted(identities), skip_locked=True)
        instances = {row.id: instance_from_row(row) for row in rows}
        works = [
            Work(instance_id=instance_id, decide=_review, actor=ENGINE, cause="WAIT_LOST")
            for instance_id in sorted(instances)
        ]
        settle(tx, works, instances, quotas=quotas, new_id=ids.next)
        return len(works)

    return run(database, work, probe=lambda tx: bool(instances_with_lost_waits(tx, 1)))


def _review(make: Make) -> Decided:
    draft = make()
    for leaf in list(draft.leaves.values()):
        if leaf.state is LeafState.ACTIVE and _lost(draft, leaf.step_key):
            draft.review(draft.leaves[leaf.step_key], ReviewCause.WAIT_LOST)
    return Decided(draft)


def _lost(draft: Draft, step_key: str) -> bool:
    leaf = draft.leaves[step_key]
    kinds = {wait.kind for wait in draft.armed_of(leaf)}
    match leaf.kind:
        case LeafKind.SIGNAL:
            return WaitKind.SIGNAL not in kinds
        case LeafKind.TIMER:
            return WaitKind.TIMER not in kinds
        case LeafKind.POLL:
            return leaf.between_rounds and WaitKind.ROUND not in kinds
        case LeafKind.TASK:
            return False
