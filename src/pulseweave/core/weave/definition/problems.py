"""What is wrong with a definition: every problem at once, each with its place and a stable code."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from pulseweave.kernel import canonical
from pulseweave.kernel.errors import InvalidCommand

#: Where a value stands in the document: the parts of its JSON Pointer.
Place = tuple[str | int, ...]


class ProblemCode(StrEnum):
    """Why a part of a definition is refused. Stable."""

    INVALID_JSON = "INVALID_JSON"  # the document is no JSON value
    BAD_TYPE = "BAD_TYPE"  # a string where an integer belongs, and the like
    MISSING_FIELD = "MISSING_FIELD"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    BAD_NAME = "BAD_NAME"  # a name or key of the wrong form
    BAD_CHOICE = "BAD_CHOICE"  # none of the words that are allowed
    BAD_DURATION = "BAD_DURATION"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"  # too few, too many, too large, too deep
    NOT_LITERAL = "NOT_LITERAL"  # an expression where the definition must be fixed
    UNKNOWN_KIND = "UNKNOWN_KIND"  # no known kind of step
    AMBIGUOUS_KIND = "AMBIGUOUS_KIND"  # more than one kind
    DUPLICATE_KEY = "DUPLICATE_KEY"  # two steps with one key
    BAD_EXPRESSION = "BAD_EXPRESSION"
    UNKNOWN_STEP = "UNKNOWN_STEP"  # an expression reads a step that does not exist
    NOT_COMPLETE_HERE = "NOT_COMPLETE_HERE"  # … or one that need not be complete there
    BAD_CONTRACT = "BAD_CONTRACT"


@dataclass(frozen=True, slots=True)
class Problem:
    """``pointer`` is a JSON Pointer into the document; ``message`` says what would be right."""

    pointer: str
    code: ProblemCode
    message: str


class DefinitionInvalid(InvalidCommand):
    """The refusal of a definition, with all its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        told = "; ".join(f"{found.pointer or '/'}: {found.message}" for found in self.problems[:3])
        more = f"; and {len(self.problems) - 3} more" if len(self.problems) > 3 else ""
        super().__init__(
            "DEFINITION_INVALID",
            told + more,
            rule="WEA-1",
            detail={
                "problems": [
                    {"pointer": found.pointer, "code": found.code.value, "message": found.message}
                    for found in self.problems
                ]
            },
        )


class Problems:
    """Collects problems while a definition is read, so that its author sees them all."""

    def __init__(self) -> None:
        self._found: list[tuple[Place, Problem]] = []

    def add(self, place: Place, code: ProblemCode, message: str) -> None:
        self._found.append((place, Problem(canonical.pointer(place), code, message)))

    @property
    def found(self) -> tuple[Problem, ...]:
        """All of them, by place in the document's canonical order."""
        return tuple(problem for _, problem in sorted(self._found, key=_rank))


def _rank(found: tuple[Place, Problem]) -> list[tuple[int, int, str]]:
    """Arrays by index, objects by key; what stands outside comes before what is inside."""
    place, _ = found
    return [(0, part, "") if isinstance(part, int) else (1, 0, part) for part in place]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to put behind a message, or nothing."""
    close = get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def json_type(value: object) -> str:
    """The JSON type of a value, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
