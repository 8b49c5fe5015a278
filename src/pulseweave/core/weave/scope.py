"""Scopes: what a choice chose, and how far a map is (WEA-2).

A choice or map is evaluated once, when it is entered; its row keeps what came out. A map's row
counts: ``entered`` items so far, of which ``open`` ones are not done; it is done when all ``count``
are entered and none is open. So an instance with thousands of items is evaluated from the rows of
its open items alone.
"""

from dataclasses import dataclass

from pulseweave.core.weave.place import item_of
from pulseweave.core.weave.states import ScopeKind
from pulseweave.kernel.check import invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """Facts of one scope. ``scope_key`` is its path, ``within`` the item in which it stands.

    ``taken``: the chosen branch of a choice, by its place among the branches.
    """

    id: str
    namespace: str
    instance_id: str
    scope_key: str
    node_key: str
    within: str
    kind: ScopeKind
    entered_at: int
    taken: int | None = None
    count: int = 0
    entered: int = 0
    open: tuple[int, ...] = ()
    revision: int = 1

    @property
    def done(self) -> bool:
        """Whether every item of a map is done; a choice's branch tells for itself."""
        return self.kind is ScopeKind.CHOICE or (self.entered == self.count and not self.open)

    @property
    def open_items(self) -> list[str]:
        return [item_of(self.scope_key, index) for index in self.open]

    def check(self) -> "ScopeState":
        facts = {"instance_id": self.instance_id, "scope_key": self.scope_key}
        invariant(
            (self.taken is not None) == (self.kind is ScopeKind.CHOICE),
            "a choice has taken a branch",
            **facts,
        )
        invariant(0 <= self.entered <= self.count, "items are entered in order", **facts)
        invariant(
            all(0 <= index < self.entered for index in self.open),
            "only entered items are open",
            **facts,
        )
        return self
