"""The nodes that decide, compare, compute and repeat.

Only arithmetic and functions of scalars go to the library (``library.py``); the rest is done here
on the payload's own values.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cel

from pulseweave.core.weave.definition.expressions.failure import Failure, FailureCode, Meter
from pulseweave.core.weave.definition.expressions.library import compute
from pulseweave.core.weave.definition.expressions.nodes import Names, Node, wrong_type
from pulseweave.core.weave.definition.expressions.values import (
    INT64_MIN,
    int64,
    kind_of,
    order,
    same,
)


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
            raise wrong_type(f"- is not defined for {kind_of(operand)}")
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
        if isinstance(container, dict) and isinstance(item, str | int):
            return isinstance(item, str) and item in container
        kinds = f"{kind_of(item)} and {kind_of(container)}"
        raise wrong_type(f"in is not defined for {kinds}: it looks for an item, or for a key")

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
            raise wrong_type(f"size is not defined for {kind_of(operand)}")
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
            raise wrong_type(f"{self.macro} walks a list or a map, not {kind_of(source)}")
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
