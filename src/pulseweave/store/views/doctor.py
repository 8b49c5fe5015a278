"""Reads for the doctor: a whole instance as its rows and its journal, in pages of instances."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, select

from pulseweave.core.pulse.task import SETTLED
from pulseweave.store import schema as t
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx

_i = t.instances.c
_PAGE = (
    select(t.instances).where(_i.id > bindparam("after")).order_by(_i.id).limit(bindparam("limit"))
)
_JOURNAL = (
    select(t.journal)
    .where(in_keys(t.journal.c.instance_id, "ids"))
    .order_by(t.journal.c.instance_id, t.journal.c.revision)
)
_ACTIVATIONS = select(t.activations).where(in_keys(t.activations.c.instance_id, "ids"))
_CONCLUSIONS = select(t.conclusions).where(in_keys(t.conclusions.c.instance_id, "ids"))
_WAITS = select(t.waits).where(in_keys(t.waits.c.instance_id, "ids"))
_SCOPES = select(t.scopes).where(in_keys(t.scopes.c.instance_id, "ids"))
_QUERIES = select(t.poll_rounds).where(in_keys(t.poll_rounds.c.instance_id, "ids"))
_TASKS = select(
    t.tasks.c.id,
    t.tasks.c.namespace,
    t.tasks.c.instance_id,
    t.tasks.c.activation_id,
    t.tasks.c.queue,
    t.tasks.c.state,
    t.tasks.c.holds,
).where(in_keys(t.tasks.c.instance_id, "ids"))
_GATES = select(t.gates).where(in_keys(t.gates.c.instance_id, "ids"))
_WAITING = (
    select(t.inbox.c.instance_id)
    .where(in_keys(t.inbox.c.instance_id, "ids"), t.inbox.c.state.in_(["PENDING", "QUARANTINED"]))
    .distinct()
)
_UNREAD = (
    select(t.result_events.c.instance_id)
    .select_from(
        t.result_events.join(t.cursors, t.cursors.c.partition_id == t.result_events.c.partition_id)
    )
    .where(
        t.cursors.c.consumer == "weave",
        t.result_events.c.seq > t.cursors.c.seq,
        in_keys(t.result_events.c.instance_id, "ids"),
    )
    .distinct()
)
SETTLED_STATES = frozenset(state.value for state in SETTLED)


def instances_page(tx: Tx, after: str, limit: int) -> Sequence[Any]:
    return tx.rows(_PAGE, {"after": after, "limit": limit})


def _by_instance(rows: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.instance_id, []).append(row)
    return found


def journals(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_JOURNAL, {"ids": ids}))


def activation_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_ACTIVATIONS, {"ids": ids}))


def conclusion_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_CONCLUSIONS, {"ids": ids}))


def wait_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_WAITS, {"ids": ids}))


def scope_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_SCOPES, {"ids": ids}))


def query_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_QUERIES, {"ids": ids}))


def task_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_TASKS, {"ids": ids}))


def gate_rows(tx: Tx, ids: list[str]) -> dict[str, list[Any]]:
    return _by_instance(tx.rows(_GATES, {"ids": ids}))


def with_waiting_events(tx: Tx, ids: list[str]) -> set[str]:
    """Instances that an event will move: waiting in the inbox, or not read from the stream yet."""
    found = {row.instance_id for row in tx.rows(_WAITING, {"ids": ids})}
    return found | {row.instance_id for row in tx.rows(_UNREAD, {"ids": ids})}
