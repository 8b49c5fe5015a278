"""The pruner: instances that ended long enough ago leave a tombstone, streams lose their beginning
(WEA-18, PUL-11).

What the stream or the inbox still tells of stays until it is processed; a quarantined record keeps
its instance for ever. Nothing that is open is ever touched.
"""

from dataclasses import dataclass

from pulseweave.kernel import limits
from pulseweave.store import locks
from pulseweave.store.changes.pruning import cut_stream, entomb
from pulseweave.store.engine import Database
from pulseweave.store.facts import tombstones as facts
from pulseweave.store.facts.tasks import task_ids_of
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run


@dataclass(frozen=True, slots=True)
class Pruned:
    instances: int = 0
    events: int = 0

    @property
    def more(self) -> bool:
        return self.instances > 0 or self.events > 0


def prune(database: Database, *, retention_ms: int) -> Pruned:
    """One bounded step: some instances, and some of each stream's beginning."""

    def before(tx: Tx) -> int:
        return tx.clock_now() - retention_ms * 1000

    def instances(tx: Tx) -> int:
        return _instances(tx, before(tx))

    def events(tx: Tx) -> int:
        return _events(tx, before(tx))

    return Pruned(
        instances=run(
            database, instances, probe=lambda tx: bool(facts.ended_before(tx, before(tx), 1))
        ),
        events=run(
            database,
            events,
            probe=lambda tx: bool(facts.prunable_prefix(tx, before(tx), limits.PRUNE_EVENTS_MAX)),
        ),
    )


def _instances(tx: Tx, before: int) -> int:
    ended = facts.ended_before(tx, before, limits.PRUNE_INSTANCES_MAX)
    if not ended:
        return 0
    rows = locks.lock_instances(tx, ended, skip_locked=True)
    held = {row.id: instance_from_row(row) for row in rows}
    told_of = facts.still_told_of(tx, list(held)) if held else set()
    doomed = [held[key] for key in sorted(held) if key not in told_of and held[key].ended]
    if not doomed:
        return 0
    ids = [instance.id for instance in doomed]
    locks.lock_gates(tx, ids)
    tasks = locks.lock_tasks(tx, task_ids_of(tx, ids))
    entomb(tx, doomed, list(tasks), now=tx.now())
    return len(doomed)


def _events(tx: Tx, before: int) -> int:
    prefixes = facts.prunable_prefix(tx, before, limits.PRUNE_EVENTS_MAX)
    if not prefixes:
        return 0
    locks.lock_partitions(tx, prefixes)
    return sum(cut_stream(tx, partition_id, upto) for partition_id, upto in prefixes.items())
