"""The pump: a batch of one partition's result events reaches its instances, in one transaction
(WEA-5).

The cursor row belongs to one pump at a time (SKIP LOCKED): engine processes share partitions
without meeting. Every event gets exactly one inbox record, in the commit that moves the cursor past
it. A decision that fails sets its own record aside; a database that fails is tried again by the
caller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulseweave.core.weave.inbox import Delivery, StreamEvent, consume_all
from pulseweave.kernel import limits
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.weave import advance_cursor
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.stream import events_after, task_facts
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.quota import Quotas, lock_quotas
from pulseweave.txn.weave.settle import Decided, Make, Work, settle

ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Pumped:
    """``read``: events behind the old cursor that were taken; ``busy``: another pump owns the
    partition.
    """

    read: int = 0
    busy: bool = False


def pump(database: Database, partition_id: int, *, ids: IdSource) -> Pumped:
    """Consume the next batch of a partition, if there is one and nobody else does."""

    def work(tx: Tx) -> Pumped:
        cursor = locks.lock_cursor(tx, partition_id, "weave")
        if cursor is None:
            return Pumped(busy=True)
        events, last = events_after(tx, partition_id, cursor, limits.PUMP_EVENTS_MAX)
        if last == cursor:
            return Pumped()
        if events:
            _consume(tx, events, ids)
        advance_cursor(tx, partition_id, "weave", before=cursor, after=last)
        return Pumped(read=last - cursor)

    return run(database, work, probe=lambda tx: facts.has_new_events(tx, partition_id))


def lock_works(tx: Tx, identities: Mapping[str, facts.Identity]) -> Quotas:
    """Take quotas and instances in rank order for decisions that may make tasks."""
    definitions = definitions_of(tx, {identity.definition_id for identity in identities.values()})
    queues = {
        (identity.namespace, queue)
        for identity in identities.values()
        for queue in definitions[identity.definition_id].queues
    }
    applications = {(i.namespace, i.application) for i in identities.values()}
    return lock_quotas(tx, applications, queues)


def _consume(tx: Tx, events: Sequence[StreamEvent], ids: IdSource) -> None:
    by_instance: dict[str, list[StreamEvent]] = {}
    for event in events:
        by_instance.setdefault(event.instance_id, []).append(event)
    identities = facts.identities(tx, by_instance)
    quotas = lock_works(tx, identities)
    rows = locks.lock_instances(tx, sorted(by_instance))
    instances = {row.id: instance_from_row(row) for row in rows}
    blocked = facts.blocked_instances(tx, sorted(by_instance))
    tasks = task_facts(tx, events)
    named = facts.activations_by_id(tx, (event.activation_id for event in events))
    historical = {leaf_id: leaf for leaf_id, leaf in named.items() if not leaf.current}

    def work_for(instance_id: str) -> Work:
        delivery = Delivery(
            events=tuple(by_instance[instance_id]),
            tasks=tasks,
            historical=historical,
            blocked=instance_id in blocked,
        )

        def decide(make: Make) -> Decided:
            draft, records = consume_all(make, delivery)
            return Decided(draft, list(zip(delivery.events, records, strict=False)))

        return Work(instance_id=instance_id, decide=decide, actor=ENGINE, cause="RESULTS")

    works = [work_for(instance_id) for instance_id in sorted(instances)]
    settle(tx, works, instances, quotas=quotas, new_id=ids.next)
