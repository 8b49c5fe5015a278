"""Templates: JSON values with expressions in their strings (WEA-2).

A string that is wholly ``${ EXPR }`` becomes the expression's value, of whatever type. In any other
string each ``${ EXPR }`` puts a text, an integer or a bool between the characters around it.
``$${`` is a literal ``${``. Keys of objects are literal.

A template is compiled once, immutable, and gives the same value for the same scope. What may never
happen: a selected value comes out changed; a value comes out that canonical JSON could not keep.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pulseweave.core.weave.definition.expressions.expression import (
    Expression,
    expression_within,
)
from pulseweave.core.weave.definition.expressions.failure import (
    Exhausted,
    Failure,
    FailureCode,
    Meter,
)
from pulseweave.core.weave.definition.expressions.names import INPUT, OUTPUT, STEPS
from pulseweave.core.weave.definition.expressions.tokens import BadExpression
from pulseweave.core.weave.definition.expressions.values import kind_of
from pulseweave.core.weave.definition.problems import Place, ProblemCode, Problems
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.check import invariant

#: How deep a value may nest: deeper than a payload, for it is made of payloads, but less deep than
#: what can be stored, for it is wrapped in turn.
RESULT_DEPTH_MAX = (limits.JSON_DEPTH_MAX + limits.STORED_DEPTH_MAX) // 2

_OPENING, _ESCAPED = "${", "$${"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What expressions see: the instance's input, the output of each step that they read, and the
    names of their place.
    """

    input: object
    steps: Mapping[str, object]
    names: Mapping[str, object] = field(default_factory=dict)


class ExpressionError(Exception):
    """An evaluation without a value (WEA-20). ``pointer`` is its place in the definition."""

    def __init__(self, *, code: str, message: str, pointer: str, expression: str) -> None:
        super().__init__(f"{code} at {pointer or '/'}: {message} in {expression}")
        self.code = code
        self.message = message
        self.pointer = pointer
        self.expression = expression


@dataclass(frozen=True, slots=True)
class PlacedExpression:
    """An expression and the place of the string that holds it."""

    place: Place
    expression: Expression


class _Evaluation:
    """One evaluation: the names, what may still be spent, and how large the result has become."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names
        self._meter = Meter()
        self._chars = 0

    def value(self, placed: PlacedExpression, depth: int) -> object:
        """The expression's value, which canonical JSON can keep ``depth`` levels down."""
        expression = placed.expression
        try:
            value = expression.value(self._names, self._meter)
            self._admit(value, depth)
        except Failure as failure:
            raise _error(placed, failure.code, failure.message) from None
        except Exhausted:
            message = "the evaluation costs too much for values of this size"
            raise _error(placed, FailureCode.TOO_COSTLY, message) from None
        return value

    def text(self, placed: PlacedExpression, depth: int) -> str:
        """The expression's value as a part of a text."""
        value = self.value(placed, depth)
        match value:
            case str():
                return value
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case _:
                message = f"a text takes strings, ints and bools, not {kind_of(value)}"
                raise _error(placed, FailureCode.WRONG_TYPE, message)

    def _admit(self, value: object, depth: int) -> None:
        """Refuse what is no JSON, too deep or too large. Counts less than the text will have."""
        self._chars += 1 + (len(value) if isinstance(value, str) else 0)
        if self._chars > limits.PAYLOAD_BYTES_MAX:
            message = f"the value has more than {limits.PAYLOAD_BYTES_MAX} bytes"
            raise Failure(FailureCode.TOO_LARGE, message)
        match value:
            case dict() | list():
                if depth >= RESULT_DEPTH_MAX:
                    message = f"the value is nested deeper than {RESULT_DEPTH_MAX}"
                    raise Failure(FailureCode.TOO_DEEP, message)
                if isinstance(value, dict):
                    self._chars += sum(map(len, value))
                for child in value.values() if isinstance(value, dict) else value:
                    self._admit(child, depth + 1)
            case float() if value - value != 0:  # infinite, or not a number
                raise Failure(FailureCode.NOT_JSON, f"the value is {float(value)}, not JSON")
            case None | bool() | int() | float() | str():
                pass
            case _:
                kind = kind_of(value)
                message = f"the value is a {kind}, not JSON; string() makes a text of it"
                raise Failure(FailureCode.NOT_JSON, message)


def _error(placed: PlacedExpression, code: FailureCode, message: str) -> ExpressionError:
    return ExpressionError(
        code=code.value,
        message=message,
        pointer=canonical.pointer(placed.place),
        expression=placed.expression.text,
    )


class _Part(ABC):
    """A node of a compiled template."""

    __slots__ = ()

    @abstractmethod
    def evaluate(self, evaluation: _Evaluation, depth: int) -> object: ...

    def expressions(self) -> Iterator[PlacedExpression]:
        return iter(())


@dataclass(frozen=True, slots=True)
class _Plain(_Part):
    """A scalar as it was written."""

    value: object

    def evaluate(self, evaluation: _Evaluation, depth: int) -> object:  # noqa: ARG002
        return self.value


@dataclass(frozen=True, slots=True)
class _Whole(_Part):
    placed: PlacedExpression

    def evaluate(self, evaluation: _Evaluation, depth: int) -> object:
        return evaluation.value(self.placed, depth)

    def expressions(self) -> Iterator[PlacedExpression]:
        yield self.placed


@dataclass(frozen=True, slots=True)
class _Text(_Part):
    pieces: tuple[str | PlacedExpression, ...]

    def evaluate(self, evaluation: _Evaluation, depth: int) -> str:
        return "".join(
            piece if isinstance(piece, str) else evaluation.text(piece, depth)
            for piece in self.pieces
        )

    def expressions(self) -> Iterator[PlacedExpression]:
        return (piece for piece in self.pieces if isinstance(piece, PlacedExpression))


@dataclass(frozen=True, slots=True)
class _Array(_Part):
    items: tuple[_Part, ...]

    def evaluate(self, evaluation: _Evaluation, depth: int) -> list[object]:
        return [item.evaluate(evaluation, depth + 1) for item in self.items]

    def expressions(self) -> Iterator[PlacedExpression]:
        for item in self.items:
            yield from item.expressions()


@dataclass(frozen=True, slots=True)
class _Object(_Part):
    entries: tuple[tuple[str, _Part], ...]

    def evaluate(self, evaluation: _Evaluation, depth: int) -> dict[str, object]:
        return {key: part.evaluate(evaluation, depth + 1) for key, part in self.entries}

    def expressions(self) -> Iterator[PlacedExpression]:
        for _, part in self.entries:
            yield from part.expressions()


@dataclass(frozen=True, slots=True)
class Template:
    """``reads``: keys of the steps whose output its expressions name, as written; ``names``: the
    names of their place that they use, ``input`` among them.
    """

    reads: frozenset[str]
    names: frozenset[str]
    expressions: tuple[PlacedExpression, ...]
    _root: _Part

    @property
    def is_expression(self) -> bool:
        """Whether it is wholly one expression, so that it can give a value of any type."""
        return isinstance(self._root, _Whole)

    def evaluate(self, scope: Scope) -> object:
        """The value in a scope that has every step and name that is read. Raises
        ExpressionError.
        """
        invariant(
            self.reads <= scope.steps.keys(),
            "a scope has every step that is read",
            missing=sorted(self.reads - scope.steps.keys()),
        )
        steps = {key: {OUTPUT: scope.steps[key]} for key in self.reads}
        names = {name: scope.names[name] for name in self.names - {INPUT}}
        return self._root.evaluate(_Evaluation({**names, INPUT: scope.input, STEPS: steps}), 0)


def compile_template(
    value: object, place: Place, problems: Problems, given: frozenset[str] = frozenset()
) -> Template:
    """The template of a JSON value at ``place``, which gives its expressions the names ``given``;
    what is wrong with it goes to ``problems``.
    """
    root = _Compiler(problems, given).part(value, place)
    expressions = tuple(root.expressions())
    reads = frozenset(key for placed in expressions for key in placed.expression.reads)
    names = frozenset(name for placed in expressions for name in placed.expression.names)
    return Template(reads, names, expressions, root)


class _Compiler:
    def __init__(self, problems: Problems, given: frozenset[str]) -> None:
        self._problems = problems
        self._given = given

    def part(self, value: object, place: Place) -> _Part:
        match value:
            case str():
                return self._string(value, place)
            case list():
                return _Array(tuple(self.part(item, (*place, at)) for at, item in enumerate(value)))
            case dict():
                return _Object(
                    tuple(
                        (self._literal_key(key, (*place, key)), self.part(item, (*place, key)))
                        for key, item in value.items()
                    )
                )
            case _:
                return _Plain(value)

    def _literal_key(self, key: str, place: Place) -> str:
        if _OPENING in key.replace(_ESCAPED, ""):
            message = (
                "the keys of an object are literal: put the expression into a value, or write $${"
            )
            self._problems.add(place, ProblemCode.NOT_LITERAL, message)
        return key.replace(_ESCAPED, _OPENING)

    def _string(self, text: str, place: Place) -> _Part:
        try:
            pieces = tuple(_pieces(text, place, self._given))
        except BadExpression as bad:
            at = "" if bad.offset is None else f" (at character {bad.offset + 1} of the expression)"
            self._problems.add(place, ProblemCode.BAD_EXPRESSION, bad.message + at)
            return _Plain(text)
        match pieces:
            case (PlacedExpression() as only,):
                return _Whole(only)
            case () | (str(),):
                return _Plain("".join(str(piece) for piece in pieces))
            case _:
                return _Text(pieces)


def _pieces(text: str, place: Place, given: frozenset[str]) -> Iterator[str | PlacedExpression]:
    """Literal stretches and expressions in turn; no two stretches stand side by side."""
    literal, position = "", 0
    while (opening := text.find(_OPENING, position)) >= 0:
        if opening > position and text[opening - 1] == "$":
            literal += text[position : opening - 1] + _OPENING
            position = opening + len(_OPENING)
            continue
        literal += text[position:opening]
        if literal:
            yield literal
        expression, end = expression_within(text, opening + len(_OPENING), given)
        if end == len(text):
            raise BadExpression("the } that closes the expression is missing")
        yield PlacedExpression(place, expression)
        literal, position = "", end + 1
    if literal := literal + text[position:]:
        yield literal
