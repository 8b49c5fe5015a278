"""The pump: a batch of result events reaches its instances, in one transaction (WEA-5).

A cursor row belongs to one pump at a time (SKIP LOCKED): engine processes share the partitions
without meeting. A pump takes as many partitions as fill its batch, each with the same share, so
that at low load all are done at once and under load others find work too. Every event gets exactly
one inbox record, in the commit that moves the cursor past it. A decision that fails sets its own
record aside; a database that fails is tried again by the caller.
"""

from collections.abc import Mapping, Sequence

from pulseweave.core.weave.inbox import Delivery, StreamEvent, consume_all
from pulseweave.kernel import limits
from pulseweave.kernel.entropy import Entropy
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.weave import advance_cursors
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.stream import busy_partitions, events_after, task_facts
from pulseweave.store.facts.waits import queries_by_task
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.quota import Quotas, lock_quotas
from pulseweave.txn.weave.settle import Decided, Make, Work, settle

ENGINE, RESULTS = "engine", "RESULTS"
_CONSUMER = "weave"


def pump(database: Database, *, ids: IdSource, entropy: Entropy) -> int:
    """Consume the next batch, if there is one that nobody else has; answers the events read."""

    def work(tx: Tx) -> int:
        wanted = _fill(busy_partitions(tx, _CONSUMER), entropy.uniform())
        cursors = locks.lock_cursors(tx, wanted, _CONSUMER) if wanted else {}
        if not cursors:
            return 0
        share = max(1, limits.PUMP_EVENTS_MAX // len(cursors))
        events, last = events_after(tx, list(cursors), _CONSUMER, share=share)
        if events:
            _consume(tx, events, ids)
        advance_cursors(tx, _CONSUMER, before=cursors, after=last)
        return sum(seq - cursors[partition_id] for partition_id, seq in last.items())

    return run(database, work, probe=lambda tx: bool(busy_partitions(tx, _CONSUMER)))


def _fill(lags: Mapping[int, int], uniform: float) -> list[int]:
    """As many partitions as fill a batch; from a random one, so that none is always last."""
    ordered = sorted(lags)
    first = int(uniform * len(ordered))
    chosen: list[int] = []
    for partition_id in ordered[first:] + ordered[:first]:
        if sum(lags[known] for known in chosen) >= limits.PUMP_EVENTS_MAX:
            break
        chosen.append(partition_id)
    return chosen


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
    historical = facts.historical_activations(tx, (event.activation_id for event in events))
    known = definitions_of(tx, {identity.definition_id for identity in identities.values()})
    polls = any(definition.waits for definition in known.values())
    queries = queries_by_task(tx, (event.task_id for event in events)) if polls else {}

    def work_for(instance_id: str) -> Work:
        delivery = Delivery(
            events=tuple(by_instance[instance_id]),
            tasks=tasks,
            historical=historical,
            queries=queries,
            blocked=instance_id in blocked,
        )

        def decide(make: Make) -> Decided:
            draft, records = consume_all(make, delivery, actor=ENGINE, cause=RESULTS)
            return Decided(draft, list(zip(delivery.events, records, strict=False)))

        return Work(instance_id=instance_id, decide=decide, actor=ENGINE, cause=RESULTS)

    works = [work_for(instance_id) for instance_id in sorted(instances)]
    settle(tx, works, instances, quotas=quotas, new_id=ids.next)
