"""Lists and histories of instances for people and programs. Reads only, scoped by namespace."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, literal, null, select, union_all

from pulseweave.core.weave.instance import Instance
from pulseweave.store import schema as t
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx
from pulseweave.store.views.pages import LARGE, Page, cut, decode_cursor

__all__ = ["InstanceFilter", "Page", "audit", "find", "history", "in_review", "page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFilter:
    """Everything that is not None must hold. ``key`` is literal, never a pattern (B143)."""

    state: str | None = None
    definition: str | None = None
    key: str | None = None
    in_review: bool = False
    paused: bool | None = None


_i = t.instances.c


def _filtered(wanted: InstanceFilter) -> Select[Any]:
    statement = select(t.instances).where(_i.namespace == bindparam("namespace"))
    if wanted.state is not None:
        statement = statement.where(_i.state == bindparam("state"))
    if wanted.definition is not None:
        statement = statement.where(_i.definition_name == bindparam("definition"))
    if wanted.key is not None:
        statement = statement.where(_i.instance_key == bindparam("key"))
    if wanted.in_review:
        statement = statement.where(_i.review_at.is_not(None))
    if wanted.paused is not None:
        statement = statement.where(_i.paused == bindparam("paused"))
    return statement


def page(
    tx: Tx, namespace: str, wanted: InstanceFilter, *, cursor: str | None, limit: int
) -> Page[Instance]:
    """Newest first."""
    statement = _filtered(wanted)
    params: dict[str, Any] = {
        "namespace": namespace,
        "state": wanted.state,
        "definition": wanted.definition,
        "key": wanted.key,
        "paused": None if wanted.paused is None else int(wanted.paused),
        "limit": limit + 1,
    }
    if cursor:
        statement = statement.where(_i.id < bindparam("below"))
        (params["below"],) = decode_cursor(cursor, "id")
    statement = statement.order_by(_i.id.desc()).limit(bindparam("limit"))
    known = statement.compile().params.keys()
    rows = tx.rows(statement, {name: params[name] for name in known})
    return cut([instance_from_row(row) for row in rows], limit, lambda i: (i.id,))


_ONE = select(t.instances).where(_i.namespace == bindparam("namespace"), _i.id == bindparam("id"))


def find(tx: Tx, namespace: str, instance_id: str) -> Instance | None:
    rows = tx.rows(_ONE, {"namespace": namespace, "id": instance_id})
    return instance_from_row(rows[0]) if rows else None


_PAYLOADS = select(t.instance_payloads.c.name, t.instance_payloads.c.body).where(
    t.instance_payloads.c.instance_id == bindparam("id")
)


def payload_texts(tx: Tx, instance_id: str) -> dict[str, str]:
    """``input`` and, when it has ended well, ``output``."""
    return {row.name: row.body for row in tx.rows(_PAYLOADS, {"id": instance_id})}


_IN_REVIEW = (
    select(t.instances)
    .where(
        _i.namespace == bindparam("namespace"),
        _i.review_at.is_not(None),
        (_i.review_at > bindparam("after_at"))
        | ((_i.review_at == bindparam("after_at")) & (_i.id > bindparam("after_id"))),
    )
    .order_by(_i.review_at, _i.id)
    .limit(bindparam("limit"))
)


def in_review(tx: Tx, namespace: str, *, cursor: str | None, limit: int) -> Page[Instance]:
    """Instances that need a person, the longest waiting first."""
    after_at, after_id = decode_cursor(cursor, LARGE, "id") if cursor else (-1, "")
    params = {
        "namespace": namespace,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit + 1,
    }
    found = [instance_from_row(row) for row in tx.rows(_IN_REVIEW, params)]
    return cut(found, limit, lambda i: (i.review_at or 0, i.id))


_j = t.journal.c
_HISTORY = (
    select(t.journal)
    .where(_j.instance_id == bindparam("id"), _j.revision > bindparam("after"))
    .order_by(_j.revision)
    .limit(bindparam("limit"))
)


def history(
    tx: Tx, namespace: str, instance_id: str, *, cursor: str | None, limit: int
) -> Page[Any] | None:
    """The journal, oldest first; None when there is no such instance."""
    if find(tx, namespace, instance_id) is None:
        return None
    (after,) = decode_cursor(cursor, LARGE) if cursor else (0,)
    rows = tx.rows(_HISTORY, {"id": instance_id, "after": after, "limit": limit + 1})
    return cut(list(rows), limit, lambda row: (row.revision,))


_w = t.workflow_audit.c
_e = t.execution_audit.c
_WORKFLOW = select(
    _w.id,
    literal("workflow").label("layer"),
    _w.operation,
    _w.outcome,
    _w.code,
    _w.actor,
    _w.at,
    _w.instance_id,
    null().label("task_id"),
    _w.idempotency_key,
    _w.command_digest,
    _w.reason,
    _w.evidence_ref,
    _w.prior,
    _w.next,
    _w.execution_audit_id,
).where(_w.namespace == bindparam("namespace"), _w.id < bindparam("below"))
_EXECUTION = select(
    _e.id,
    literal("execution").label("layer"),
    _e.operation,
    literal("ACCEPTED").label("outcome"),
    null().label("code"),
    _e.actor,
    _e.at,
    null().label("instance_id"),
    _e.task_id,
    null().label("idempotency_key"),
    _e.command_digest,
    _e.reason,
    _e.evidence_ref,
    _e.prior,
    null().label("next"),
    null().label("execution_audit_id"),
).where(_e.namespace == bindparam("namespace"), _e.id < bindparam("below"))
_TASKS_OF = select(t.tasks.c.id).where(t.tasks.c.instance_id == bindparam("instance_id"))


def audit(
    tx: Tx,
    namespace: str,
    *,
    instance_id: str | None,
    task_id: str | None,
    cursor: str | None,
    limit: int,
) -> Page[Any] | None:
    """Both audits in one list, newest first, of a namespace, an instance or a task.

    None when there is no such instance.
    """
    if instance_id is not None and find(tx, namespace, instance_id) is None:
        return None
    workflow, execution = _WORKFLOW, _EXECUTION
    params: dict[str, Any] = {"namespace": namespace, "limit": limit + 1, "below": "~"}
    if cursor:
        (params["below"],) = decode_cursor(cursor, "id")
    if instance_id is not None:
        workflow = workflow.where(_w.instance_id == bindparam("instance_id"))
        execution = execution.where(_e.task_id.in_(_TASKS_OF))
        params["instance_id"] = instance_id
    if task_id is not None:
        execution = execution.where(_e.task_id == bindparam("task_id"))
        params["task_id"] = task_id
    parts = [execution] if task_id is not None else [workflow, execution]
    both = union_all(*parts).subquery()
    statement = select(both).order_by(both.c.id.desc()).limit(bindparam("limit"))
    rows = tx.rows(statement, params)
    return cut(list(rows), limit, lambda row: (row.id,))
