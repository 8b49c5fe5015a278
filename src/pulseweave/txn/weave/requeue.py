"""Inbox requeue: quarantined records are verified and applied anew after their cause was mended
(REC-16).

Nothing is ever skipped: what still can't be judged is set aside again, and the records behind it go
on waiting in their order.
"""

from dataclasses import dataclass, replace

from pulseweave.core.identity import Principal
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.inbox import Delivery, consume_all
from pulseweave.core.weave.states import InboxState
from pulseweave.kernel.ids import IdSource
from pulseweave.store.changes.audit import insert_audits
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.inbox import waiting_events
from pulseweave.store.facts.stream import task_facts
from pulseweave.store.facts.waits import queries_by_task
from pulseweave.store.tx import Tx
from pulseweave.txn.admin.audit import admin_audit
from pulseweave.txn.unit import run
from pulseweave.txn.weave.held import hold_instance, identity_of
from pulseweave.txn.weave.pump import lock_works
from pulseweave.txn.weave.settle import Decided, Make, Work, settle

_CAUSE = "INBOX_REQUEUE"


@dataclass(frozen=True, slots=True)
class Requeued:
    """How many records were taken again, and how many of them were processed this time."""

    taken: int
    processed: int


def execute(
    database: Database, *, principal: Principal, instance_id: str, ids: IdSource
) -> Requeued:
    return run(database, lambda tx: _requeue(tx, principal, instance_id, ids))


def _requeue(tx: Tx, principal: Principal, instance_id: str, ids: IdSource) -> Requeued:
    identity = identity_of(tx, principal.namespace, instance_id)
    quotas = lock_works(tx, {instance_id: identity})
    instance = hold_instance(tx, principal.namespace, instance_id)
    events = waiting_events(tx, instance_id)
    if not events:
        return Requeued(0, 0)
    delivery = Delivery(
        events=tuple(events),
        tasks=task_facts(tx, events),
        historical=facts.historical_activations(tx, (event.activation_id for event in events)),
        queries=queries_by_task(tx, (event.task_id for event in events)),
    )

    def decide(make: Make) -> Decided:
        def fresh() -> Draft:
            draft = make()
            draft.instance = replace(draft.instance, quarantined=False)
            return draft

        draft, records = consume_all(fresh, delivery, actor=principal.actor, cause=_CAUSE)
        taken = (replace(record, again=True) for record in records)
        return Decided(draft, list(zip(delivery.events, taken, strict=False)))

    work = Work(instance_id=instance_id, decide=decide, actor=principal.actor, cause=_CAUSE)
    audit = admin_audit(
        tx,
        principal.namespace,
        _CAUSE,
        {"instance_id": instance_id},
        actor=principal.actor,
        ids=ids,
    )
    settled = settle(
        tx,
        [work],
        {instance_id: instance},
        quotas=quotas,
        new_id=ids.next,
        before_events=lambda _: insert_audits(tx, execution=None, workflow=audit),
    )
    done = sum(record.state is InboxState.PROCESSED for _, record in settled.records)
    return Requeued(len(events), done)
