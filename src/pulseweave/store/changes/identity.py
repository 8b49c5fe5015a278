"""Writes of namespaces, applications, queues and credentials."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import bindparam, update

from pulseweave.kernel import canonical, limits
from pulseweave.store import schema as t
from pulseweave.store.tx import Tx


def insert_namespace(tx: Tx, name: str, *, number: int, now: int) -> None:
    """A namespace with its result partitions and their cursors."""
    partitions = [number * 256 + n for n in range(limits.PARTITIONS_PER_NAMESPACE)]
    tx.insert_many(
        t.namespaces,
        [{"name": name, "number": number, "partitions": len(partitions), "created_at": now}],
    )
    tx.insert_many(
        t.result_partitions,
        [{"id": p, "namespace": name, "head_seq": 0, "pruned_seq": 0} for p in partitions],
    )
    tx.insert_many(
        t.cursors, [{"partition_id": p, "consumer": "weave", "seq": 0} for p in partitions]
    )


def insert_application(
    tx: Tx, namespace: str, name: str, settings: Mapping[str, Any], *, now: int
) -> None:
    row = {"namespace": namespace, "name": name, "revision": 1, "created_at": now, **settings}
    tx.insert_many(t.applications, [row])


_SET_APPLICATION = (
    update(t.applications)
    .where(
        t.applications.c.namespace == bindparam("of_namespace"),
        t.applications.c.name == bindparam("of_name"),
    )
    .values(
        max_open_tasks=bindparam("max_open_tasks"),
        max_open_instances=bindparam("max_open_instances"),
        revision=t.applications.c.revision + 1,
    )
)
_SET_QUEUE = (
    update(t.queues)
    .where(
        t.queues.c.namespace == bindparam("of_namespace"), t.queues.c.name == bindparam("of_name")
    )
    .values(
        paused=bindparam("paused"),
        max_running=bindparam("max_running"),
        max_open=bindparam("max_open"),
        reviews_hold_slots=bindparam("reviews_hold_slots"),
        revision=t.queues.c.revision + 1,
    )
)


def set_application(tx: Tx, namespace: str, name: str, settings: Mapping[str, Any]) -> int:
    """Rows changed: 0 when there is no such application."""
    return tx.execute(_SET_APPLICATION, {"of_namespace": namespace, "of_name": name, **settings})


def insert_queues(tx: Tx, namespace: str, names: Iterable[str], now: int) -> None:
    rows = [
        {
            "namespace": namespace,
            "name": name,
            "paused": 0,
            "max_running": None,
            "max_open": None,
            "reviews_hold_slots": 0,
            "revision": 1,
            "created_at": now,
        }
        for name in sorted(names)
    ]
    tx.insert_many(t.queues, rows)


def set_queue(tx: Tx, namespace: str, name: str, settings: Mapping[str, Any]) -> int:
    return tx.execute(_SET_QUEUE, {"of_namespace": namespace, "of_name": name, **settings})


def insert_credential(
    tx: Tx, row: Mapping[str, Any], permissions: Iterable[str], queues: Iterable[str]
) -> None:
    """``row``: every column but the permissions; only the token's hash is stored."""
    tx.insert_many(t.credentials, [{**row, "permissions": canonical.encode(sorted(permissions))}])
    tx.insert_many(
        t.credential_queues,
        [{"credential_id": row["id"], "queue": queue} for queue in sorted(queues)],
    )


_REVOKE = (
    update(t.credentials)
    .where(
        t.credentials.c.id == bindparam("of_id"),
        t.credentials.c.namespace == bindparam("of_namespace"),
        t.credentials.c.revoked_at.is_(None),
    )
    .values(revoked_at=bindparam("revoked_at"))
)


def revoke_credential(tx: Tx, namespace: str, credential_id: str, now: int) -> int:
    params = {"of_id": credential_id, "of_namespace": namespace, "revoked_at": now}
    return tx.execute(_REVOKE, params)
