"""The tree of an expression: what a node is, and those that name, select and arrange values.

Values are the payload's own. What may never happen: a node changes a value that it was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from pulseweave.core.weave.definition.expressions.failure import Failure, FailureCode, Meter
from pulseweave.core.weave.definition.expressions.values import kind_of

Names = Mapping[str, object]

_SHOWN_CHARS = 60


def wrong_type(message: str) -> Failure:
    """The failure of a node that was given a value of a type that it can't take."""
    return Failure(FailureCode.WRONG_TYPE, message)


@dataclass(frozen=True, slots=True)
class Node(ABC):
    """One node. ``value`` raises Failure, or Exhausted when the meter's budget is used up."""

    @abstractmethod
    def value(self, names: Names, meter: Meter) -> object: ...

    @abstractmethod
    def children(self) -> tuple["Node", ...]: ...

    def truth(self, names: Names, meter: Meter) -> bool:
        """The value where only a bool will do."""
        value = self.value(names, meter)
        if isinstance(value, bool):
            return value
        raise wrong_type(f"a condition is a bool, not {kind_of(value)}")


@dataclass(frozen=True, slots=True)
class Constant(Node):
    constant: object

    def value(self, names: Names, meter: Meter) -> object:  # noqa: ARG002
        meter.spend(1)
        return self.constant

    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        return names[self.name]

    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Select(Node):
    """``operand.field``."""

    operand: Node
    field: str

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        return _member(self.operand.value(names, meter), self.field)

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Index(Node):
    """``operand[key]``: a list by int, a map by string."""

    operand: Node
    key: Node

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        operand, key = self.operand.value(names, meter), self.key.value(names, meter)
        if isinstance(operand, list):
            if not isinstance(key, int) or isinstance(key, bool):
                raise wrong_type(f"a list is indexed by int, not by {kind_of(key)}")
            if not 0 <= key < len(operand):
                message = f"the index is out of range for a list of {len(operand)}"
                raise Failure(FailureCode.INDEX_OUT_OF_RANGE, message)
            item: object = operand[key]
            return item
        if isinstance(key, str):
            return _member(operand, key)
        raise wrong_type(f"{kind_of(operand)} is not indexed by {kind_of(key)}")

    def children(self) -> tuple[Node, ...]:
        return (self.operand, self.key)


def _member(operand: object, key: str) -> object:
    if not isinstance(operand, dict):
        raise wrong_type(f"{kind_of(operand)} has no member {_shown(key)}; only a map has members")
    if key not in operand:
        raise Failure(FailureCode.NO_SUCH_KEY, f"there is no key {_shown(key)}")
    value: object = operand[key]
    return value


def _shown(key: str) -> str:
    """A key as messages show it: short, and without characters that no log can take."""
    return ascii(key if len(key) <= _SHOWN_CHARS else key[:_SHOWN_CHARS] + "…")


@dataclass(frozen=True, slots=True)
class Has(Node):
    """``has(operand.field)``."""

    operand: Node
    field: str

    def value(self, names: Names, meter: Meter) -> bool:
        meter.spend(1)
        operand = self.operand.value(names, meter)
        if not isinstance(operand, dict):
            raise wrong_type(f"has: {kind_of(operand)} has no members")
        return self.field in operand

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    items: tuple[Node, ...]

    def value(self, names: Names, meter: Meter) -> list[object]:
        meter.spend(1)
        return [item.value(names, meter) for item in self.items]

    def children(self) -> tuple[Node, ...]:
        return self.items


@dataclass(frozen=True, slots=True)
class MapOf(Node):
    entries: tuple[tuple[Node, Node], ...]

    def value(self, names: Names, meter: Meter) -> dict[str, object]:
        meter.spend(1)
        made: dict[str, object] = {}
        for key_node, value_node in self.entries:
            key = key_node.value(names, meter)
            if not isinstance(key, str):
                raise wrong_type(f"the key of a map is a string, not {kind_of(key)}")
            if key in made:
                raise Failure(FailureCode.DUPLICATE_KEY, f"the key {_shown(key)} occurs twice")
            made[key] = value_node.value(names, meter)
        return made

    def children(self) -> tuple[Node, ...]:
        return tuple(node for entry in self.entries for node in entry)
