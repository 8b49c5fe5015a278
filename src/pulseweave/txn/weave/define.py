"""Register a definition: immutable by (namespace, name, version), addressed by its
digest (WEA-1).
"""

from dataclasses import dataclass

from pulseweave.core.weave.definition.model import Definition
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.definitions import insert_definition
from pulseweave.store.engine import Database
from pulseweave.store.facts import definitions as facts
from pulseweave.store.facts.definitions import StoredDefinition
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run


@dataclass(frozen=True, slots=True)
class Registered:
    definition: StoredDefinition
    created: bool


def register(
    database: Database, definition: Definition, *, namespace: str, actor: str, ids: IdSource
) -> Registered:
    """Store a compiled definition. Same content again: the first one; other content:
    DEFINITION_CONFLICT.
    """
    return run(
        database, lambda tx: _register(tx, definition, namespace=namespace, actor=actor, ids=ids)
    )


def _register(
    tx: Tx, definition: Definition, *, namespace: str, actor: str, ids: IdSource
) -> Registered:
    key = f"definition\0{definition.name}\0{definition.version}"
    locks.lock_start_stripes(tx, namespace, [key])
    stored = facts.find(tx, namespace, definition.name, definition.version)
    if stored is not None:
        if stored.digest == definition.digest:
            return Registered(stored, created=False)
        raise reject(
            "DEFINITION_CONFLICT",
            f"{definition.name} version {definition.version} is registered with other content; "
            "a definition never changes, so give the new content a new version",
            rule="WEA-1",
            registered_digest=stored.digest,
        )
    new = StoredDefinition(
        id=ids.next(),
        namespace=namespace,
        name=definition.name,
        version=definition.version,
        digest=definition.digest,
        document=definition.document_text,
        queues=tuple(definition.queues),
        created_at=tx.now(),
        created_by=actor,
    )
    insert_definition(tx, new)
    return Registered(new, created=True)
