"""Decide for some instances and write it all: the one shell around every decision of Weave.

The pump, the waker and the control commands differ in what they decide, not in how it becomes rows.
The caller holds the instances (rank INSTANCE). Here facts are loaded in set reads, each draft is
decided, payloads that decisions turn out to need are loaded and the decisions made again, quotas
defer an advance that doesn't fit (PUL-12), gates and tasks are locked for plans that touch them
and, because waiting for tasks takes time, the decisions are made once more with the later clock
(PUL-15).
Then everything is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.inbox import StreamEvent
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.plan import InboxRecord, InstancePlan
from pulseweave.kernel.check import invariant
from pulseweave.kernel.errors import Rejected
from pulseweave.store.changes.weave import apply_plans, lock_for_plans
from pulseweave.store.errors import Moved
from pulseweave.store.tx import Tx
from pulseweave.txn.weave.loading import Loaded
from pulseweave.txn.weave.quota import Quotas

Make = Callable[[], Draft]


@dataclass(frozen=True, slots=True)
class Decided:
    """A moved draft with the inbox records that go with it, or a refusal."""

    draft: Draft
    records: Sequence[tuple[StreamEvent, InboxRecord]] = ()
    refusal: Rejected | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One decision to make. ``decide`` is pure and may be asked several times; the last answer
    counts.
    """

    instance_id: str
    decide: Callable[[Make], Decided]
    actor: str
    cause: str
    control: bool = False


@dataclass(slots=True)
class Settled:
    """What came of the decisions, by instance."""

    plans: dict[str, InstancePlan] = field(default_factory=dict)
    records: list[tuple[StreamEvent, InboxRecord]] = field(default_factory=list)
    refusals: dict[str, Rejected] = field(default_factory=dict)


def settle(
    tx: Tx,
    works: Sequence[Work],
    instances: Mapping[str, Instance],
    *,
    quotas: Quotas,
    new_id: Callable[[], str],
    before_events: Callable[[InstancePlan], None] | None = None,
) -> Settled:
    """Decide and write. Result events are appended by the writer, last of all (PUL-11).

    ``before_events`` writes what goes with each accepted plan: receipts and audits (REC-7).
    """
    batch = Loaded(tx, instances, new_id)
    settled = _decide_all(batch, works, quotas, tx.now())
    touching = [plan for plan in settled.plans.values() if plan.touches_tasks]
    locked = lock_for_plans(tx, touching)
    if locked.waited:
        again = [work for work in works if work.instance_id in locked.instance_ids]
        others = [work for work in works if work.instance_id not in locked.instance_ids]
        now = tx.now()
        settled = _decide_all(batch, [*again, *others], quotas, now)
        late = [p for p in settled.plans.values() if p.touches_tasks]
        if not {plan.after.id for plan in late} <= locked.instance_ids:
            raise Moved("a deadline passed while locks were awaited")
    if before_events is not None:
        for plan in settled.plans.values():
            before_events(plan)
    apply_plans(tx, list(settled.plans.values()), settled.records, locked)
    return settled


def _decide_all(batch: Loaded, works: Sequence[Work], quotas: Quotas, now: int) -> Settled:
    settled = Settled()
    room = quotas.room()
    todo = list(works)
    decided: dict[str, Decided] = {}
    while todo:
        missing: dict[str, set[str]] = {}
        for work in todo:
            answer = work.decide(_maker(batch, work, now, deferred=False))
            decided[work.instance_id] = answer
            if answer.draft.missing:
                missing[work.instance_id] = set(answer.draft.missing)
        if missing:
            batch.load(missing)
        todo = [work for work in todo if work.instance_id in missing]
    for work in works:
        answer = decided[work.instance_id]
        if answer.refusal is not None:
            settled.refusals[work.instance_id] = answer.refusal
            continue
        if not room.take([created.task for created in answer.draft.tasks]):
            answer = work.decide(_maker(batch, work, now, deferred=True))
            invariant(not answer.draft.tasks, "a deferred advance makes no tasks")
        settled.plans[work.instance_id] = answer.draft.finish(
            actor=work.actor, cause=work.cause, control=work.control
        )
        settled.records += answer.records
    return settled


def _maker(batch: Loaded, work: Work, now: int, *, deferred: bool) -> Make:
    return lambda: batch.make(work.instance_id, now, deferred=deferred)
