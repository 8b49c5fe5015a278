"""An expression, compiled and checked: what it reads, and its value in a scope."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import cel

from pulseweave.core.weave.definition.expressions.failure import Meter
from pulseweave.core.weave.definition.expressions.names import what_is_read
from pulseweave.core.weave.definition.expressions.nodes import Node
from pulseweave.core.weave.definition.expressions.parser import Parser
from pulseweave.core.weave.definition.expressions.tokens import BadExpression, tokens_of

EXPRESSION_CHARS_MAX = 4096
#: How many nodes may stand above one another; evaluation recurses along them.
EXPRESSION_HEIGHT_MAX = 100


@dataclass(frozen=True, slots=True)
class Expression:
    """Immutable, safe to share between threads. ``reads``: the keys of the steps it names;
    ``names``: the names of its place that it uses.
    """

    text: str
    reads: frozenset[str]
    names: frozenset[str]
    _root: Node = field(repr=False)

    def value(self, names: Mapping[str, object], meter: Meter) -> object:
        """Its value, given ``input``, ``steps`` and the names of its place. Raises Failure or
        Exhausted.
        """
        return self._root.value(names, meter)


def compile_expression(text: str, given: frozenset[str] = frozenset()) -> Expression:
    """Parse and check one expression. Raises BadExpression."""
    expression, end = expression_within(text, 0, given)
    if end != len(text):
        raise BadExpression("a } closes nothing", end)
    return expression


def expression_within(
    text: str, start: int, given: frozenset[str] = frozenset()
) -> tuple[Expression, int]:
    """The expression that begins at ``start``, and the offset behind it: of a ``}`` or of the
    text's end.

    ``given``: names of its place. Raises BadExpression, whose offset counts from ``start``.
    """
    tokens = list(tokens_of(text, start))
    end = start + tokens[-1].start
    form = text[start:end]
    if len(form) > EXPRESSION_CHARS_MAX:
        message = f"an expression has at most {EXPRESSION_CHARS_MAX} characters, not {len(form)}"
        raise BadExpression(message)
    root = Parser(tokens).parse()
    if _height(root) > EXPRESSION_HEIGHT_MAX:
        message = f"more than {EXPRESSION_HEIGHT_MAX} operators or selections build on one another"
        raise BadExpression(message)
    try:
        cel.compile(form)
    except ValueError as error:
        raise BadExpression(_complaint(error)) from None
    reading = what_is_read(root, given)
    return Expression(form.strip(), reading.steps, reading.names, root), end


def _height(root: Node) -> int:
    """Counted level by level: the tree may be too high to recurse."""
    height, level = 0, [root]
    while level:
        height, level = height + 1, [child for node in level for child in node.children()]
    return height


def _complaint(error: ValueError) -> str:
    """The first of the library's complaints, without the drawing below it."""
    _, _, complaint = str(error).partition("ERROR: <input>:")
    return f"not valid in CEL, {complaint.partition(chr(10))[0] or 'it can not be read'}"
