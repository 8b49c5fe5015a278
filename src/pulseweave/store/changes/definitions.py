"""Writes of definitions: inserted once, never changed (WEA-1)."""

from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.facts.definitions import StoredDefinition
from pulseweave.store.tx import Tx


def insert_definition(tx: Tx, definition: StoredDefinition) -> None:
    row = {
        "id": definition.id,
        "namespace": definition.namespace,
        "name": definition.name,
        "version": definition.version,
        "digest": definition.digest,
        "document": definition.document,
        "queues": canonical.encode(list(definition.queues)),
        "created_at": definition.created_at,
        "created_by": definition.created_by,
    }
    tx.insert_many(t.definitions, [row])
