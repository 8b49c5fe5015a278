"""Compiled definitions of one database, by id. A definition never changes: nothing goes stale.

Bounded: the least recently used go first (limits.COMPILED_DEFINITIONS_MAX).
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.core.weave.definition.model import Definition
from pulseweave.kernel import canonical, limits
from pulseweave.store.facts.instances import definition_documents
from pulseweave.store.tx import Tx


class _Catalogue:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._by_id: OrderedDict[str, Definition] = OrderedDict()
        self._lock = Lock()

    def known(self, definition_ids: Iterable[str]) -> dict[str, Definition]:
        with self._lock:
            found = {key: self._by_id[key] for key in definition_ids if key in self._by_id}
            for key in found:
                self._by_id.move_to_end(key)
            return found

    def keep(self, definition_id: str, definition: Definition) -> None:
        with self._lock:
            self._by_id[definition_id] = definition
            self._by_id.move_to_end(definition_id)
            while len(self._by_id) > self._capacity:
                self._by_id.popitem(last=False)


def definitions_of(tx: Tx, definition_ids: Iterable[str]) -> dict[str, Definition]:
    """definition id → compiled definition, read and compiled where it is not known yet."""
    catalogue: _Catalogue = tx.caches.setdefault(
        "definitions", _Catalogue(limits.COMPILED_DEFINITIONS_MAX)
    )
    wanted = set(definition_ids)
    found = catalogue.known(wanted)
    unknown = wanted - found.keys()
    if unknown:
        for definition_id, (_, document) in definition_documents(tx, unknown).items():
            found[definition_id] = compile_definition(canonical.parse(document))
            catalogue.keep(definition_id, found[definition_id])
    return found
