"""Instances that can be pruned, and what is left of those that were (WEA-18)."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, func, select

from pulseweave.core.weave.states import WAITING
from pulseweave.store import schema as t
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx
from pulseweave.store.types import one_of

_i, _b, _x, _e = t.instances.c, t.tombstones.c, t.inbox.c, t.result_events.c
_ENDED = (
    select(_i.id)
    .where(_i.ended_at.is_not(None), _i.ended_at < bindparam("before"))
    .order_by(_i.ended_at)
    .limit(bindparam("limit"))
)
_WAITING = (
    select(_x.instance_id)
    .where(in_keys(_x.instance_id, "ids"), one_of(_x.state, WAITING))
    .distinct()
)
_UNREAD = (
    select(_e.instance_id)
    .select_from(t.result_events.join(t.cursors, t.cursors.c.partition_id == _e.partition_id))
    .where(
        t.cursors.c.consumer == "weave",
        _e.seq > t.cursors.c.seq,
        in_keys(_e.instance_id, "ids"),
    )
    .distinct()
)


def ended_before(tx: Tx, before: int, limit: int) -> list[str]:
    """Instances that ended before an instant, the longest ago first."""
    return [row.id for row in tx.rows(_ENDED, {"before": before, "limit": limit})]


def still_told_of(tx: Tx, instance_ids: Sequence[str]) -> set[str]:
    """Instances of which the stream or the inbox holds something that is not processed."""
    ids = sorted(instance_ids)
    found = {row.instance_id for row in tx.rows(_WAITING, {"ids": ids})}
    return found | {row.instance_id for row in tx.rows(_UNREAD, {"ids": ids})}


_BY_ID = select(t.tombstones).where(
    _b.namespace == bindparam("namespace"), _b.instance_id == bindparam("instance_id")
)
_BY_KEY = select(_b.definition_name, _b.instance_key, _b.instance_id).where(
    _b.namespace == bindparam("namespace"),
    in_keys(_b.definition_name, "names"),
    in_keys(_b.instance_key, "keys"),
)


def tombstone(tx: Tx, namespace: str, instance_id: str) -> Any | None:
    rows = tx.rows(_BY_ID, {"namespace": namespace, "instance_id": instance_id})
    return rows[0] if rows else None


def tombstones_by_key(
    tx: Tx, namespace: str, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """(definition name, instance key) → the id of the instance that was pruned."""
    if not wanted:
        return {}
    params = {
        "namespace": namespace,
        "names": sorted({name for name, _ in wanted}),
        "keys": sorted({key for _, key in wanted}),
    }
    return {
        (row.definition_name, row.instance_key): row.instance_id for row in tx.rows(_BY_KEY, params)
    }


_p = t.result_partitions.c
_PARTITIONS = (
    select(_p.id, _p.pruned_seq, func.min(t.cursors.c.seq).label("consumed"))
    .select_from(t.result_partitions.join(t.cursors, t.cursors.c.partition_id == _p.id))
    .where(_p.pruned_seq < t.cursors.c.seq)
    .group_by(_p.id, _p.pruned_seq)
    .order_by(_p.id)
)
_AT = select(_e.at).where(_e.partition_id == bindparam("partition_id"), _e.seq == bindparam("seq"))


def prunable_prefix(tx: Tx, before: int, step: int) -> dict[int, int]:
    """Partition → up to where its stream may be cut: consumed events older than an instant, no more
    than ``step`` of them.
    """
    found: dict[int, int] = {}
    for row in tx.rows(_PARTITIONS, {}):
        for seq in (min(row.pruned_seq + step, row.consumed), row.pruned_seq + 1):
            at = tx.rows(_AT, {"partition_id": row.id, "seq": seq})
            if at and at[0].at < before:
                found[row.id] = seq
                break
    return found
