"""Removing an ended instance: all its rows together, and a tombstone in their place (WEA-18).

The audits stay, with their own retention; so do the receipts, so that an old key never does
anything new. A stream is cut from its beginning only (PUL-11).
"""

from collections.abc import Sequence

from sqlalchemy import Table, bindparam, delete, update

from pulseweave.core.weave.instance import Instance
from pulseweave.store import schema as t
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx

_OF_TASKS: tuple[Table, ...] = (t.attempts, t.late_reports, t.task_specs)
_OF_INSTANCES: tuple[Table, ...] = (
    t.activations,
    t.scopes,
    t.poll_rounds,
    t.waits,
    t.signals,
    t.conclusions,
    t.inbox,
    t.journal,
    t.instance_payloads,
    t.gates,
)
_BY_TASK = [delete(table).where(in_keys(table.c.task_id, "ids")) for table in _OF_TASKS]
_TASKS = delete(t.tasks).where(in_keys(t.tasks.c.id, "ids"))
_BY_INSTANCE = [delete(table).where(in_keys(table.c.instance_id, "ids")) for table in _OF_INSTANCES]
_INSTANCES = delete(t.instances).where(in_keys(t.instances.c.id, "ids"))


def entomb(tx: Tx, instances: Sequence[Instance], task_ids: Sequence[str], *, now: int) -> None:
    """The caller holds the instances, their gates and their tasks."""
    ids = sorted(instance.id for instance in instances)
    if task_ids:
        for statement in (*_BY_TASK, _TASKS):
            tx.execute(statement, {"ids": sorted(task_ids)})
    for statement in _BY_INSTANCE:
        tx.execute(statement, {"ids": ids})
    tx.expect(_INSTANCES, {"ids": ids}, rows=len(ids), what="instances")
    tx.insert_many(
        t.tombstones,
        [
            {
                "instance_id": instance.id,
                "namespace": instance.namespace,
                "definition_name": instance.definition_name,
                "definition_version": instance.definition_version,
                "instance_key": instance.instance_key,
                "state": instance.state.value,
                "ended_at": instance.ended_at,
                "pruned_at": now,
            }
            for instance in instances
        ],
    )


_e, _p = t.result_events.c, t.result_partitions.c
_PREFIX = delete(t.result_events).where(
    _e.partition_id == bindparam("of_partition"), _e.seq <= bindparam("upto")
)
_CUT = (
    update(t.result_partitions)
    .where(_p.id == bindparam("of_partition"), _p.pruned_seq < bindparam("upto"))
    .values(pruned_seq=bindparam("upto"))
)


def cut_stream(tx: Tx, partition_id: int, upto: int) -> int:
    """Remove the beginning of a stream; the caller holds the partition. Answers the events."""
    params = {"of_partition": partition_id, "upto": upto}
    tx.expect(_CUT, params, rows=1, what="result_partitions")
    return tx.execute(_PREFIX, params)
