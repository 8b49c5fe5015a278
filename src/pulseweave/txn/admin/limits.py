"""Quotas of applications and limits of queues. A queue comes into being when it is first named."""

from collections.abc import Iterable, Mapping
from typing import Any

from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.audit import insert_audits
from pulseweave.store.changes.identity import (
    insert_application,
    insert_queues,
    set_application,
    set_queue,
)
from pulseweave.store.engine import Database
from pulseweave.store.facts import identity as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.admin.audit import admin_audit
from pulseweave.txn.unit import run


def ensure_queues(tx: Tx, namespace: str, names: Iterable[str]) -> None:
    """Make the queues that are not there yet; the caller holds the start stripe ``queues``."""
    known = {row.name for row in facts.queue_rows(tx, namespace)}
    insert_queues(tx, namespace, set(names) - known, tx.now())


def configure_queue(
    database: Database,
    namespace: str,
    name: str,
    settings: Mapping[str, Any],
    *,
    actor: str,
    ids: IdSource,
) -> None:
    """Set a queue's limits; makes the queue if need be."""

    def work(tx: Tx) -> None:
        locks.lock_start_stripes(tx, namespace, ["queues"])
        ensure_queues(tx, namespace, [name])
        locks.lock_queues(tx, namespace, [name])
        set_queue(tx, namespace, name, settings)
        audit = admin_audit(
            tx, namespace, "SET_QUEUE", {"queue": name, **settings}, actor=actor, ids=ids
        )
        insert_audits(tx, execution=None, workflow=audit)

    run(database, work)


def configure_application(
    database: Database,
    namespace: str,
    name: str,
    settings: Mapping[str, Any],
    *,
    actor: str,
    ids: IdSource,
) -> None:
    """Set an application's quotas; makes the application if need be."""

    def work(tx: Tx) -> None:
        locks.lock_application(tx, namespace, name)
        locks.lock_start_stripes(tx, namespace, ["applications"])
        if set_application(tx, namespace, name, settings) == 0:
            insert_application(tx, namespace, name, settings, now=tx.now())
        body = {"application": name, **settings}
        audit = admin_audit(tx, namespace, "SET_APPLICATION", body, actor=actor, ids=ids)
        insert_audits(tx, execution=None, workflow=audit)

    run(database, work)
