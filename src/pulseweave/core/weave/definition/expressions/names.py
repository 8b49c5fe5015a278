"""What an expression reads: ``input``, ``steps.<key>.output``, the names that its place gives (the
item of a map around it, the result that a poll classifies) and its own variables.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from pulseweave.core.weave.definition.expressions.nodes import (
    Constant,
    Has,
    Index,
    Name,
    Node,
    Select,
)
from pulseweave.core.weave.definition.expressions.operations import Comprehension
from pulseweave.core.weave.definition.expressions.tokens import BadExpression

INPUT, STEPS, OUTPUT = "input", "steps", "output"

_STEPS_FORM = 'a step is read like steps.charge.output or steps["charge-card"].output'


@dataclass(frozen=True, slots=True)
class Reading:
    """``steps``: keys of the steps whose output is read; ``names``: names of the place, and
    ``input``.
    """

    steps: frozenset[str]
    names: frozenset[str]


def what_is_read(root: Node, given: frozenset[str] = frozenset()) -> Reading:
    """What an expression reads whose place gives it these names. Raises BadExpression for any
    other name.
    """
    reader = _Reader(given)
    steps = frozenset(reader.read(root, frozenset()))
    return Reading(steps, frozenset(reader.names))


class _Reader:
    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self.names: set[str] = set()

    def read(self, node: Node, bound: frozenset[str]) -> Iterator[str]:
        match node:
            case Name(name=name):
                self._name(name, bound)
            case Comprehension(source=source, variable=variable, body=body, condition=condition):
                if variable in (INPUT, STEPS):
                    raise BadExpression(f"a variable is not called {variable}: that name is taken")
                yield from self.read(source, bound)
                for inner in (condition, body):
                    if inner is not None:
                        yield from self.read(inner, bound | {variable})
            case Select() | Index() | Has():
                yield from self._path(node, bound)
            case _:
                for child in node.children():
                    yield from self.read(child, bound)

    def _name(self, name: str, bound: frozenset[str]) -> None:
        if name == STEPS:
            raise BadExpression(f"steps is no value of its own; {_STEPS_FORM}")
        if name in bound:
            return
        if name != INPUT and name not in self._given:
            raise _unknown(name, bound | self._given)
        self.names.add(name)

    def _path(self, node: Select | Index | Has, bound: frozenset[str]) -> Iterator[str]:
        base, links = _path(node)
        if base == Name(STEPS):
            keys = [_literal_key(link) for link in links[:2]]
            if len(keys) < 2 or keys[0] is None or keys[1] != OUTPUT:
                raise BadExpression(_STEPS_FORM)
            yield keys[0]
        else:
            yield from self.read(base, bound)
        for link in links:
            if isinstance(link, Index):
                yield from self.read(link.key, bound)


def _path(node: Node) -> tuple[Node, list[Node]]:
    """Where a chain of selections starts, and its links in the order in which one reads them."""
    links: list[Node] = []
    while isinstance(node, Select | Index | Has):
        links.append(node)
        node = node.operand
    return node, links[::-1]


def _literal_key(link: Node) -> str | None:
    match link:
        case Select(field=key) | Has(field=key) | Index(key=Constant(constant=str(key))):
            return key
        case _:
            return None


def _unknown(name: str, bound: frozenset[str]) -> BadExpression:
    close = get_close_matches(name, sorted({INPUT, STEPS, *bound}), 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return BadExpression(
        f"there is no name {name!r}; {hint}An expression reads input and steps.<key>.output"
    )
