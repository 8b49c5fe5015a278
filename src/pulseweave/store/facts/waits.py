"""Reads of waits, signals, scopes and poll rounds. Whoever decides from them holds the instance."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import bindparam, func, select

from pulseweave.core.weave.round import Query
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import WaitState
from pulseweave.core.weave.wait import KeptSignal, Wait
from pulseweave.kernel import limits
from pulseweave.store import schema as t
from pulseweave.store.rows_waits import (
    kept_from_row,
    query_from_row,
    scope_from_row,
    wait_from_row,
)
from pulseweave.store.setwise import SetRead, in_keys
from pulseweave.store.tx import Tx
from pulseweave.store.types import one_of

_w, _g, _q = t.waits.c, t.signals.c, t.poll_rounds.c
_ARMED = select(t.waits).where(in_keys(_w.instance_id, "ids"), one_of(_w.state, (WaitState.ARMED,)))
_ALL_WAITS = (
    select(t.waits).where(_w.instance_id == bindparam("instance_id")).order_by(_w.armed_at, _w.id)
)


def armed_waits(tx: Tx, instance_ids: Iterable[str]) -> dict[str, dict[str, Wait]]:
    """instance id → wait id → the wait, of those that are armed."""
    ids = sorted(set(instance_ids))
    found: dict[str, dict[str, Wait]] = {instance_id: {} for instance_id in ids}
    for row in tx.rows(_ARMED, {"ids": ids}) if ids else ():
        found[row.instance_id][row.id] = wait_from_row(row)
    return found


def all_waits(tx: Tx, instance_id: str) -> tuple[Wait, ...]:
    rows = tx.rows(_ALL_WAITS, {"instance_id": instance_id})
    return tuple(wait_from_row(row) for row in rows)


_SCOPES_WITHIN = SetRead(t.scopes, keys=("instance_id", "within"), index="uq_scopes_key")
_ALL_SCOPES = select(t.scopes).where(in_keys(t.scopes.c.instance_id, "ids"))


def open_scopes(tx: Tx, instance_ids: Iterable[str]) -> dict[str, dict[str, ScopeState]]:
    """instance id → scope key → the scope: those outside of maps, those in open items of them, and
    so on.
    """
    found: dict[str, dict[str, ScopeState]] = {instance_id: {} for instance_id in instance_ids}
    places = [{"instance_id": instance_id, "within": ""} for instance_id in sorted(found)]
    while places:
        scopes = [scope_from_row(row) for row in tx.rows_of(_SCOPES_WITHIN, places)]
        for scope in scopes:
            found[scope.instance_id][scope.scope_key] = scope
        places = [
            {"instance_id": scope.instance_id, "within": item}
            for scope in scopes
            for item in scope.open_items
        ]
    return found


def all_scopes(tx: Tx, instance_ids: Sequence[str]) -> dict[str, dict[str, ScopeState]]:
    """Every scope, those in items that are done too."""
    found: dict[str, dict[str, ScopeState]] = {instance_id: {} for instance_id in instance_ids}
    for row in tx.rows(_ALL_SCOPES, {"ids": sorted(instance_ids)}):
        found[row.instance_id][row.scope_key] = scope_from_row(row)
    return found


_QUERIES = select(t.poll_rounds).where(in_keys(_q.task_id, "ids"))
_ALL_QUERIES = (
    select(t.poll_rounds)
    .where(_q.instance_id == bindparam("instance_id"))
    .order_by(_q.step_key, _q.round, _q.opened_at, _q.task_id)
)


def queries_by_task(tx: Tx, task_ids: Iterable[str]) -> dict[str, Query]:
    rows = tx.rows(_QUERIES, {"ids": sorted(set(task_ids))})
    return {row.task_id: query_from_row(row) for row in rows}


def all_queries(tx: Tx, instance_id: str) -> tuple[Query, ...]:
    rows = tx.rows(_ALL_QUERIES, {"instance_id": instance_id})
    return tuple(query_from_row(row) for row in rows)


_KEPT = (
    select(_g.id, _g.instance_id, _g.name, _g.correlation, _g.payload_digest, _g.accepted_at)
    .where(
        in_keys(_g.instance_id, "ids"),
        in_keys(_g.name, "names"),
        _g.wait_id.is_(None),
    )
    .order_by(_g.accepted_at, _g.id)
)
_KEPT_COUNT = select(func.count()).where(
    _g.instance_id == bindparam("instance_id"), _g.wait_id.is_(None)
)
_BODIES = select(_g.id, _g.payload).where(in_keys(_g.id, "ids"))
_BY_KEY = select(t.signals).where(
    _g.instance_id == bindparam("instance_id"), _g.signal_key == bindparam("signal_key")
)


def kept_signals(
    tx: Tx, wanted: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, tuple[KeptSignal, ...]]]:
    """instance id → name → the signals of that name that no wait has taken, oldest first."""
    found: dict[str, dict[str, list[KeptSignal]]] = {
        instance_id: {name: [] for name in names} for instance_id, names in wanted.items()
    }
    names = sorted({name for named in found.values() for name in named})
    if not names:
        return {}
    for row in tx.rows(_KEPT, {"ids": sorted(found), "names": names}):
        kept = found[row.instance_id].get(row.name)
        if kept is not None:
            kept.append(kept_from_row(row))
    return {
        instance_id: {name: tuple(kept) for name, kept in named.items()}
        for instance_id, named in found.items()
    }


def has_room_for_signal(tx: Tx, instance_id: str) -> bool:
    rows = tx.rows(_KEPT_COUNT, {"instance_id": instance_id})
    return int(rows[0][0]) < limits.SIGNALS_KEPT_MAX


def signal_payloads(tx: Tx, signal_ids: Iterable[str]) -> dict[str, str]:
    """signal id → its payload, canonical text."""
    ids = sorted(set(signal_ids))
    return {row.id: row.payload for row in tx.rows(_BODIES, {"ids": ids})} if ids else {}


def signal_by_key(tx: Tx, instance_id: str, signal_key: str) -> object | None:
    """The row of the signal with this key, if it was accepted."""
    rows = tx.rows(_BY_KEY, {"instance_id": instance_id, "signal_key": signal_key})
    return rows[0] if rows else None
