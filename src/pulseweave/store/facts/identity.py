"""Reads of credentials, namespaces, applications and queues. Every read is scoped by namespace."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, literal_column, select

from pulseweave.core.identity import Permission, Principal
from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.tx import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token's record; the token itself is known to its bearer alone."""

    principal: Principal
    name: str
    created_at: int
    revoked_at: int | None


_c = t.credentials.c
_BY_HASH = select(t.credentials).where(_c.token_hash == bindparam("token_hash"))
_BY_ID = select(t.credentials).where(_c.id == bindparam("id"))
_LISTED = select(t.credentials).where(_c.namespace == bindparam("namespace")).order_by(_c.id.desc())
_QUEUES = select(t.credential_queues.c.queue).where(
    t.credential_queues.c.credential_id == bindparam("id")
)


def _credential(tx: Tx, row: Any) -> Credential:
    queues = frozenset(found.queue for found in tx.rows(_QUEUES, {"id": row.id}))
    principal = Principal(
        credential_id=row.id,
        namespace=row.namespace,
        application=row.application,
        actor=row.name,
        permissions=frozenset(Permission(name) for name in canonical.parse(row.permissions)),
        all_queues=bool(row.all_queues),
        queues=queues,
        expires_at=row.expires_at,
    )
    return Credential(
        principal=principal, name=row.name, created_at=row.created_at, revoked_at=row.revoked_at
    )


def credential_by_hash(tx: Tx, token_hash: str) -> Credential | None:
    rows = tx.rows(_BY_HASH, {"token_hash": token_hash})
    return _credential(tx, rows[0]) if rows else None


def credential_by_id(tx: Tx, credential_id: str) -> Credential | None:
    rows = tx.rows(_BY_ID, {"id": credential_id})
    return _credential(tx, rows[0]) if rows else None


def credentials_of(tx: Tx, namespace: str) -> list[Credential]:
    return [_credential(tx, row) for row in tx.rows(_LISTED, {"namespace": namespace})]


_NAMESPACES = select(t.namespaces).order_by(t.namespaces.c.name)
_NAMESPACE_NUMBER = select(func.coalesce(func.max(t.namespaces.c.number), 0) + 1)
_APPLICATIONS = (
    select(t.applications)
    .where(t.applications.c.namespace == bindparam("namespace"))
    .order_by(t.applications.c.name)
)
_QUEUE_ROWS = (
    select(t.queues).where(t.queues.c.namespace == bindparam("namespace")).order_by(t.queues.c.name)
)
#: A literal: PostgreSQL takes two parameters for two different groupings.
_HELD = t.tasks.c.holds != literal_column("0")
_OPEN_TASKS = (
    select(
        t.tasks.c.queue,
        t.tasks.c.state,
        _HELD.label("held"),
        func.count().label("n"),
        func.min(t.tasks.c.id).label("oldest"),
    )
    .where(
        t.tasks.c.namespace == bindparam("namespace"),
        t.tasks.c.state.in_(["QUEUED", "LEASED", "RUNNING", "NEEDS_REVIEW"]),
    )
    .group_by(t.tasks.c.queue, t.tasks.c.state, _HELD)
)


def namespaces(tx: Tx) -> list[Any]:
    return list(tx.rows(_NAMESPACES, {}))


def next_namespace_number(tx: Tx) -> int:
    return int(tx.rows(_NAMESPACE_NUMBER, {})[0][0])


def applications(tx: Tx, namespace: str) -> list[Any]:
    return list(tx.rows(_APPLICATIONS, {"namespace": namespace}))


def queue_rows(tx: Tx, namespace: str) -> list[Any]:
    return list(tx.rows(_QUEUE_ROWS, {"namespace": namespace}))


def open_task_counts(tx: Tx, namespace: str) -> list[Any]:
    """(queue, state, held, n, oldest id) over the unsettled tasks of a namespace."""
    return list(tx.rows(_OPEN_TASKS, {"namespace": namespace}))
