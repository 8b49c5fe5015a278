"""Reading one JSON object of a definition: each field with its type and bounds, every problem
noted.

A reader never stops at a problem; it notes it and goes on with a default, so that the author sees
all at once. An explicit null is not the same as leaving a field out: it is refused.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from pulseweave.core.weave.definition.contract import Contract, compile_contract
from pulseweave.core.weave.definition.problems import (
    Place,
    ProblemCode,
    Problems,
    did_you_mean,
    json_type,
)
from pulseweave.core.weave.definition.template import Template, compile_template
from pulseweave.kernel import duration, limits

_Choice = TypeVar("_Choice", bound=StrEnum)


class NameForm:
    """How a kind of name is written. ``told`` completes "… is written with"."""

    def __init__(self, pattern: str, told: str, chars_max: int) -> None:
        self._pattern = re.compile(pattern)
        self._told = told
        self._chars_max = chars_max

    def complain(self, what: str, name: str) -> str | None:
        """What is wrong with a name, or None."""
        if len(name) > self._chars_max:
            return f"{what} has at most {self._chars_max} characters, not {len(name)}"
        if self._pattern.fullmatch(name) is None:
            return f"{name!r} is no {what}: it is written with {self._told}"
        return None


_LETTERS = "letters, digits, _ and -, and does not begin with a digit or -"
#: Step keys and branch names: an expression writes most of them without quotes.
KEY = NameForm(r"[A-Za-z_][A-Za-z0-9_-]*", _LETTERS, limits.NAME_CHARS_MAX)
NAME = NameForm(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]*",
    "letters, digits, _, - and ., and begins with a letter, a digit or _",
    limits.NAME_CHARS_MAX,
)
HANDLER = NameForm(
    r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*",
    "letters, digits, _, -, ., : and /, and begins with a letter, a digit or _",
    limits.HANDLER_CHARS_MAX,
)


class Fields:
    """The fields of one object that stands at ``place``; ``known`` are those that it may have, and
    ``names`` those that its place gives to expressions.
    """

    def __init__(
        self,
        value: Mapping[str, object],
        place: Place,
        known: tuple[str, ...],
        problems: Problems,
        *,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self._value = value
        self.place = place
        self.problems = problems
        self.names = names
        for field in value:
            if field not in known:
                hint = did_you_mean(field, known) or f"; there are {', '.join(known)}"
                self.problems.add(
                    (*place, field), ProblemCode.UNKNOWN_FIELD, f"there is no field {field!r}{hint}"
                )

    def __contains__(self, field: str) -> bool:
        return field in self._value

    def raw(self, field: str) -> object:
        return self._value[field]

    def at(self, field: str) -> Place:
        return (*self.place, field)

    def note(self, field: str, code: ProblemCode, message: str) -> None:
        self.problems.add(self.at(field), code, message)

    def required(self, field: str, what: str) -> bool:
        """Whether the field is there; notes when it isn't."""
        if field not in self._value:
            message = f"{field} is missing: {what}"
            self.problems.add(self.place, ProblemCode.MISSING_FIELD, message)
        return field in self._value

    def text(self, field: str, chars_max: int) -> str | None:
        value = self._value.get(field)
        if field not in self._value:
            return None
        if not isinstance(value, str):
            self._bad_type(field, "a string")
            return None
        if len(value) > chars_max:
            message = f"{field} has at most {chars_max} characters, not {len(value)}"
            self.note(field, ProblemCode.OUT_OF_BOUNDS, message)
        return value

    def name(self, field: str, what: str, form: NameForm) -> str:
        """A required literal name; the empty string when there is none that could be used."""
        if not self.required(field, f"{what} is a string"):
            return ""
        value = self._value[field]
        if not isinstance(value, str):
            self._bad_type(field, "a string")
            return ""
        if "${" in value:
            message = f"{what} is fixed with the definition: an expression has no place here"
            self.note(field, ProblemCode.NOT_LITERAL, message)
            return ""
        complaint = form.complain(what, value)
        if complaint is not None:
            self.note(field, ProblemCode.BAD_NAME, complaint)
            return ""
        return value

    def integer(self, field: str, default: int, low: int, high: int) -> int:
        value = self._value.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._bad_type(field, "an integer")
            return default
        return value if self._within(field, value, low, high) else default

    def number(self, field: str, default: float, low: float, high: float) -> float:
        value = self._value.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._bad_type(field, "a number")
            return default
        if not self._within(field, value, low, high):
            return default
        return value if isinstance(value, int) else float(value)

    def _within(self, field: str, value: float, low: float, high: float) -> bool:
        if low <= value <= high:
            return True
        message = f"{field} lies between {low} and {high}; it is {value}"
        self.note(field, ProblemCode.OUT_OF_BOUNDS, message)
        return False

    def choice(self, field: str, default: _Choice) -> _Choice:
        words = [member.value for member in type(default)]
        value = self._value.get(field, default.value)
        if isinstance(value, str) and value in words:
            return type(default)(value)
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        message = f"{field} is one of {', '.join(words)}{hint}"
        self.note(field, ProblemCode.BAD_CHOICE, message)
        return default

    def duration_ms(
        self,
        field: str,
        *,
        low_ms: int = 1,
        high_ms: int = limits.DURATION_MS_MAX,
        zero: bool = False,
    ) -> int | None:
        """Milliseconds, or None when the field is left out or can't be used."""
        if field not in self._value:
            return None
        try:
            value_ms = duration.parse(self._value[field], zero=zero)
        except duration.InvalidDuration as invalid:
            self.note(field, ProblemCode.BAD_DURATION, str(invalid))
            return None
        if value_ms == 0 or low_ms <= value_ms <= high_ms:
            return value_ms
        low, high = duration.format_ms(low_ms), duration.format_ms(high_ms)
        message = f"{field} lies between {low} and {high}"
        self.note(field, ProblemCode.OUT_OF_BOUNDS, message)
        return None

    def template(self, field: str, *more: str) -> Template | None:
        """The template of any JSON value, or None when the field is left out; ``more``: names that
        this field gives to its expressions.
        """
        if field not in self._value:
            return None
        names = self.names.union(more)
        return compile_template(self._value[field], self.at(field), self.problems, names)

    def text_template(self, field: str, *more: str) -> Template | None:
        """A template that gives a text, so it is written as one."""
        if field in self._value and not isinstance(self._value[field], str):
            self._bad_type(field, "a string")
            return None
        return self.template(field, *more)

    def condition(self, field: str, *more: str) -> Template | None:
        """A template that is one expression and nothing else: what it gives must be true or
        false.
        """
        found = self.text_template(field, *more)
        if found is None or found.is_expression:
            return found
        if found.expressions or "${" not in str(self._value[field]):
            message = f"{field} is one expression, like ${{ input.amount > 100 }}"
            self.note(field, ProblemCode.BAD_EXPRESSION, message)
        return None

    def contract(self, field: str) -> Contract | None:
        if field not in self._value:
            return None
        return compile_contract(self._value[field], self.at(field), self.problems)

    def fields(self, field: str, known: tuple[str, ...]) -> "Fields":
        """The fields of an object inside; of an empty one when it is left out."""
        value = self._value.get(field, {})
        if not isinstance(value, dict):
            self._bad_type(field, "an object")
            value = {}
        return Fields(value, self.at(field), known, self.problems, names=self.names)

    def entries(self, field: str, known: tuple[str, ...]) -> "list[Fields]":
        """The fields of each object in an array."""
        value = self._value.get(field, [])
        if not isinstance(value, list):
            self._bad_type(field, "an array")
            return []
        found = []
        for at, entry in enumerate(value):
            place = (*self.at(field), at)
            if isinstance(entry, dict):
                found.append(Fields(entry, place, known, self.problems, names=self.names))
            else:
                message = f"an entry of {field} is an object, not {json_type(entry)}"
                self.problems.add(place, ProblemCode.BAD_TYPE, message)
        return found

    def _bad_type(self, field: str, wanted: str) -> None:
        found = json_type(self._value[field])
        self.note(field, ProblemCode.BAD_TYPE, f"{field} is {wanted}, not {found}")
