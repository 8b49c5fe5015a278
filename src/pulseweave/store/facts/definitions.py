"""Reads of registered definitions and of a namespace's partitions."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select

from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.tx import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinition:
    """A registered definition. ``document`` is canonical JSON text."""

    id: str
    namespace: str
    name: str
    version: int
    digest: str
    document: str
    queues: tuple[str, ...]
    created_at: int
    created_by: str


_d = t.definitions.c
_ONE = select(t.definitions).where(
    _d.namespace == bindparam("namespace"),
    _d.name == bindparam("name"),
    _d.version == bindparam("version"),
)
_NEWEST = (
    select(t.definitions)
    .where(_d.namespace == bindparam("namespace"), _d.name == bindparam("name"))
    .order_by(_d.version.desc())
    .limit(1)
)
_PARTITIONS = (
    select(t.result_partitions.c.id)
    .where(t.result_partitions.c.namespace == bindparam("namespace"))
    .order_by(t.result_partitions.c.id)
)


def from_row(row: Any) -> StoredDefinition:
    return StoredDefinition(
        id=row.id,
        namespace=row.namespace,
        name=row.name,
        version=row.version,
        digest=row.digest,
        document=row.document,
        queues=tuple(canonical.parse(row.queues)),
        created_at=row.created_at,
        created_by=row.created_by,
    )


def find(tx: Tx, namespace: str, name: str, version: int) -> StoredDefinition | None:
    rows = tx.rows(_ONE, {"namespace": namespace, "name": name, "version": version})
    return from_row(rows[0]) if rows else None


def newest(tx: Tx, namespace: str, name: str) -> StoredDefinition | None:
    rows = tx.rows(_NEWEST, {"namespace": namespace, "name": name})
    return from_row(rows[0]) if rows else None


def resolve(tx: Tx, namespace: str, name: str, version: int | None) -> str | None:
    """Id of the version asked for, or of the newest one."""
    found = newest(tx, namespace, name) if version is None else find(tx, namespace, name, version)
    return found.id if found is not None else None


def partitions_of(tx: Tx, namespace: str) -> list[int]:
    return [row.id for row in tx.rows(_PARTITIONS, {"namespace": namespace})]
