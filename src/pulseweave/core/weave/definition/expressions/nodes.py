"""The tree of an expression, each node with its way to a value.

Values are the payload's own: a node selects, compares or arranges them, and leaves only scalars to
the library. What may never happen: a node changes a value that it was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import cel

from pulseweave.core.weave.definition.expressions.failure import Failure, FailureCode, Meter
from pulseweave.core.weave.definition.expressions.library import compute
from pulseweave.core.weave.definition.expressions.values import (
    INT64_MIN,
    int64,
    kind_of,
    order,
    same,
)

Names = Mapping[str, object]

_SHOWN_CHARS = 60


def _wrong(message: str) -> Failure:
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
        raise _wrong(f"a condition is a bool, not {kind_of(value)}")


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
                raise _wrong(f"a list is indexed by int, not by {kind_of(key)}")
            if not 0 <= key < len(operand):
                message = f"the index is out of range for a list of {len(operand)}"
                raise Failure(FailureCode.INDEX_OUT_OF_RANGE, message)
            item: object = operand[key]
            return item
        if isinstance(key, str):
            return _member(operand, key)
        raise _wrong(f"{kind_of(operand)} is not indexed by {kind_of(key)}")

    def children(self) -> tuple[Node, ...]:
        return (self.operand, self.key)


def _member(operand: object, key: str) -> object:
    if not isinstance(operand, dict):
        raise _wrong(f"{kind_of(operand)} has no member {_shown(key)}; only a map has members")
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
            raise _wrong(f"has: {kind_of(operand)} has no members")
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
                raise _wrong(f"the key of a map is a string, not {kind_of(key)}")
            if key in made:
                raise Failure(FailureCode.DUPLICATE_KEY, f"the key {_shown(key)} occurs twice")
            made[key] = value_node.value(names, meter)
        return made

    def children(self) -> tuple[Node, ...]:
        return tuple(node for entry in self.entries for node in entry)


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """``condition ? yes : no``; only the chosen branch is evaluated."""

    condition: Node
    yes: Node
    no: Node

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        chosen = self.yes if self.condition.truth(names, meter) else self.no
        return chosen.value(names, meter)

    def children(self) -> tuple[Node, ...]:
        return (self.condition, self.yes, self.no)


@dataclass(frozen=True, slots=True)
class Junction(Node):
    """``&&`` (decided by False) and ``||`` (decided by True).

    As CEL has it, a side that decides does so whatever is wrong with the other one.
    """

    left: Node
    right: Node
    decisive: bool

    def value(self, names: Names, meter: Meter) -> bool:
        meter.spend(1)
        try:
            left = self.left.truth(names, meter)
        except Failure as failure:
            if self._decided_by_right(names, meter):
                return self.decisive
            raise failure from None
        return left if left is self.decisive else self.right.truth(names, meter)

    def _decided_by_right(self, names: Names, meter: Meter) -> bool:
        try:
            return self.right.truth(names, meter) is self.decisive
        except Failure:
            return False

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node

    def value(self, names: Names, meter: Meter) -> bool:
        meter.spend(1)
        return not self.operand.truth(names, meter)

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Minus(Node):
    """``-operand``. The library's own wraps the smallest integer around in silence."""

    operand: Node

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        operand = self.operand.value(names, meter)
        if isinstance(operand, bool) or not isinstance(operand, int | float):
            raise _wrong(f"- is not defined for {kind_of(operand)}")
        if isinstance(operand, int) and int64("-", operand) == INT64_MIN:
            raise Failure(FailureCode.OVERFLOW, "-: the result is out of range")
        return -operand

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Equality(Node):
    left: Node
    right: Node
    wanted: bool

    def value(self, names: Names, meter: Meter) -> bool:
        meter.spend(1)
        left, right = self.left.value(names, meter), self.right.value(names, meter)
        return same(left, right, meter) is self.wanted

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Order(Node):
    symbol: str
    left: Node
    right: Node

    def value(self, names: Names, meter: Meter) -> bool:
        meter.spend(1)
        return order(self.symbol, self.left.value(names, meter), self.right.value(names, meter))

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Within(Node):
    """``item in container``: an item of a list, or a key of a map."""

    item: Node
    container: Node

    def value(self, names: Names, meter: Meter) -> bool:
        meter.spend(1)
        item, container = self.item.value(names, meter), self.container.value(names, meter)
        if isinstance(container, list):
            return any(same(item, other, meter) for other in container)
        if isinstance(container, dict):
            return isinstance(item, str) and item in container
        raise _wrong(f"in looks into a list or a map, not into {kind_of(container)}")

    def children(self) -> tuple[Node, ...]:
        return (self.item, self.container)


@dataclass(frozen=True, slots=True)
class Size(Node):
    """``size(operand)``: characters (code points), items or keys."""

    operand: Node

    def value(self, names: Names, meter: Meter) -> int:
        meter.spend(1)
        operand = self.operand.value(names, meter)
        if not isinstance(operand, str | list | dict):
            raise _wrong(f"size is not defined for {kind_of(operand)}")
        return len(operand)

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Computed(Node):
    """An operator or a function that the library computes; lists are joined here."""

    name: str
    program: cel.Program
    arguments: tuple[Node, ...]

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        arguments = tuple(argument.value(names, meter) for argument in self.arguments)
        if self.name == "+" and all(isinstance(argument, list) for argument in arguments):
            joined = [item for part in arguments if isinstance(part, list) for item in part]
            meter.spend(len(joined))
            return joined
        return compute(self.program, self.name, arguments, meter)

    def children(self) -> tuple[Node, ...]:
        return self.arguments


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """``source.macro(variable, [condition,] body)`` over a list's items or a map's sorted keys."""

    macro: str
    source: Node
    variable: str
    body: Node
    condition: Node | None = None

    def value(self, names: Names, meter: Meter) -> object:
        meter.spend(1)
        source = self.source.value(names, meter)
        if isinstance(source, dict):
            items: list[object] = sorted(source)
        elif isinstance(source, list):
            items = source
        else:
            raise _wrong(f"{self.macro} walks a list or a map, not {kind_of(source)}")
        meter.spend(len(items))
        turns = self._turns(names, items)
        match self.macro:
            case "all":
                return _quantified(self.body, turns, meter, decisive=False)
            case "exists":
                return _quantified(self.body, turns, meter, decisive=True)
            case "exists_one":
                return sum([self.body.truth(turn, meter) for turn in turns]) == 1
            case "filter":
                return [turn[self.variable] for turn in turns if self.body.truth(turn, meter)]
            case _:
                return [
                    self.body.value(turn, meter)
                    for turn in turns
                    if self.condition is None or self.condition.truth(turn, meter)
                ]

    def _turns(self, names: Names, items: list[object]) -> Iterator[Names]:
        inner = dict(names)
        for item in items:
            inner[self.variable] = item
            yield inner

    def children(self) -> tuple[Node, ...]:
        condition = () if self.condition is None else (self.condition,)
        return (self.source, *condition, self.body)


def _quantified(body: Node, turns: Iterator[Names], meter: Meter, *, decisive: bool) -> bool:
    """``all`` and ``exists``: a turn that decides does so whatever is wrong with the others."""
    failed: Failure | None = None
    for turn in turns:
        try:
            if body.truth(turn, meter) is decisive:
                return decisive
        except Failure as failure:
            failed = failed or failure
    if failed is not None:
        raise failed
    return not decisive
