"""Definitions as people write them: YAML or JSON text to a JSON value, and where each part of it
stands.

YAML is only a surface: what comes out is what the same JSON would give. Words are read as YAML
1.2's core schema has it, so ``yes``, ``on``, ``12:30`` and ``2026-12-01`` are strings. What could
be meant in two ways is refused with its place: duplicate keys, keys that aren't strings, tags,
aliases, several documents, numbers that JSON would not write so (``007``, ``0x1F``, ``.5``).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import yaml

from pulseweave.kernel import canonical, limits

SOURCE_BYTES_MAX = limits.PAYLOAD_BYTES_MAX


class Syntax(StrEnum):
    """The languages of a source."""

    YAML = "yaml"
    JSON = "json"


class SourceCode(StrEnum):
    """Why a text is refused before anybody asks what it means. Stable."""

    BAD_SYNTAX = "BAD_SYNTAX"
    BAD_JSON = "BAD_JSON"
    TOO_LARGE = "TOO_LARGE"
    TOO_DEEP = "TOO_DEEP"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    BAD_KEY = "BAD_KEY"  # a key that is not a string
    AMBIGUOUS = "AMBIGUOUS"  # a scalar that JSON would write otherwise
    NOT_SUPPORTED = "NOT_SUPPORTED"  # tags, aliases, several documents


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A place in a text; both count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class SourceProblem:
    """What is wrong with a text, and where."""

    spot: Spot
    code: SourceCode
    message: str


class SourceInvalid(ValueError):
    """A text that gives no value, with all problems that were found."""

    def __init__(self, problems: Iterable[SourceProblem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__(
            "; ".join(
                f"line {found.spot.line}, column {found.spot.column}: {found.message}"
                for found in self.problems
            )
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A JSON value, and the spot of each part by JSON Pointer: a member's is that of its key."""

    value: Any
    places: Mapping[str, Spot]

    def locate(self, pointer: str) -> Spot:
        """Where a pointer leads; what is not there is looked for in what should have it."""
        while pointer and pointer not in self.places:
            pointer = pointer.rpartition("/")[0]
        return self.places[pointer]


class HasPointer(Protocol):
    """Any problem that names its place by JSON Pointer."""

    @property
    def pointer(self) -> str: ...


_Problem = TypeVar("_Problem", bound=HasPointer)


def place(source: Source, problems: Iterable[_Problem]) -> list[tuple[Spot, _Problem]]:
    """Problems of a value with their spots in its text, in the order of the text."""
    placed = [(source.locate(problem.pointer), problem) for problem in problems]
    return sorted(placed, key=lambda entry: entry[0])


def parse(raw: bytes | str, syntax: Syntax | None = None) -> Source:
    """Value and places of a text. Raises SourceInvalid.

    Without ``syntax``, a text that begins with ``{`` or ``[`` is JSON and any other one YAML.
    """
    if len(raw) > SOURCE_BYTES_MAX:
        message = f"{len(raw)} bytes; at most {SOURCE_BYTES_MAX} are allowed"
        raise SourceInvalid([SourceProblem(Spot(1, 1), SourceCode.TOO_LARGE, message)])
    text = _text(raw)
    if syntax is None:
        syntax = Syntax.JSON if text.lstrip()[:1] in {"{", "["} else Syntax.YAML
    return _parse_json(text) if syntax is Syntax.JSON else _YamlReader(text).read()


def _text(raw: bytes | str) -> str:
    if isinstance(raw, str):
        return raw.removeprefix("\ufeff")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        spot = _Lines(before).spot(len(before))
        problem = SourceProblem(spot, SourceCode.BAD_SYNTAX, "the text is not UTF-8")
        raise SourceInvalid([problem]) from None


class _Lines:
    """Offsets of a text as spots."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *accumulate(len(line) for line in re.findall(r".*?\n", text))]

    def spot(self, offset: int) -> Spot:
        line = bisect_right(self._starts, offset)
        return Spot(line, offset - self._starts[line - 1] + 1)


# --- JSON -----------------------------------------------------------------------------------------

_JSON_WORD = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+)')


def _parse_json(text: str) -> Source:
    lines = _Lines(text)
    try:
        value = canonical.parse(text, depth_max=limits.JSON_DEPTH_MAX)
    except canonical.InvalidJson as invalid:
        spot = lines.spot(invalid.offset or 0)
        problem = SourceProblem(spot, SourceCode.BAD_JSON, invalid.message)
        raise SourceInvalid([problem]) from None
    return Source(value, MappingProxyType(dict(_json_places(text, lines))))


def _json_places(text: str, lines: _Lines) -> Iterator[tuple[str, Spot]]:
    """Spots by pointer, of a text that is known to be JSON."""
    words = _JSON_WORD.finditer(text)
    path: list[str | int] = []
    within: list[bool] = []  # for each bracket that is open: whether it is an object's
    key_next = False
    for match in words:
        word, spot = match.group(1), lines.spot(match.start(1))
        if word in {"}", "]"}:
            within.pop()
            path[-1:] = []
        elif word == ",":
            key_next = within[-1]
            if not key_next:
                path[-1] = int(path[-1]) + 1
        elif word == ":":
            key_next = False
        elif key_next:
            path[-1] = canonical.parse(word)
            yield canonical.pointer(path), spot
        else:
            if not within or not within[-1]:
                yield canonical.pointer(path), spot
            if word in {"{", "["}:
                within.append(word == "{")
                path.append(0)
                key_next = word == "{"


# --- YAML -----------------------------------------------------------------------------------------

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: What YAML 1.2 reads as a number and JSON would write otherwise, or not at all.
_OTHER_NUMBER = re.compile(
    r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class _YamlReader:
    """One document read from PyYAML's events, which know no types; problems are collected."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, Spot] = {}
        self._problems: list[SourceProblem] = []
        self._events: Iterator[yaml.Event] = iter(())

    def read(self) -> Source:
        value = None
        try:
            self._events = iter(yaml.parse(self._text, yaml.SafeLoader))
            value = self._documents()
        except yaml.MarkedYAMLError as error:
            self._note(_spot(error.problem_mark), SourceCode.BAD_SYNTAX, str(error.problem))
        except yaml.reader.ReaderError as error:
            spot = _Lines(self._text).spot(int(error.position))
            message = f"the character U+{int(error.character):04X} is written as an escape"
            self._note(spot, SourceCode.BAD_SYNTAX, message)
        if self._problems:
            raise SourceInvalid(self._problems)
        return Source(value, MappingProxyType(self._places))

    def _note(self, spot: Spot, code: SourceCode, message: str) -> None:
        self._problems.append(SourceProblem(spot, code, message))

    def _documents(self) -> Any:
        """The value of the one document; an empty text is null."""
        value, count = None, 0
        self._places[""] = Spot(1, 1)
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                count += 1
                if count > 1:
                    message = "one document is expected, and a second one begins here"
                    self._note(_spot(event.start_mark), SourceCode.NOT_SUPPORTED, message)
                    break
                first = next(self._events)
                self._places[""] = _spot(first.start_mark)
                value = self._node(first, ())
        return value

    def _node(self, event: yaml.Event, path: tuple[str | int, ...]) -> Any:
        spot = _spot(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            message = f"aliases are not supported: write *{event.anchor} out"
            self._note(spot, SourceCode.NOT_SUPPORTED, message)
            return None
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._note(spot, SourceCode.NOT_SUPPORTED, f"tags are not supported: {tag}")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if len(path) >= limits.JSON_DEPTH_MAX:
            message = f"nested deeper than {limits.JSON_DEPTH_MAX}"
            raise SourceInvalid([SourceProblem(spot, SourceCode.TOO_DEEP, message)])
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        return self._sequence(path)

    def _sequence(self, path: tuple[str | int, ...]) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            inner = (*path, len(items))
            self._places[canonical.pointer(inner)] = _spot(event.start_mark)
            items.append(self._node(event, inner))
        return items

    def _mapping(self, path: tuple[str | int, ...]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            spot = _spot(event.start_mark)
            key = self._node(event, (*path, ""))
            if not isinstance(key, str):
                message = "the key of a mapping is a string: put it in quotes"
                self._note(spot, SourceCode.BAD_KEY, message)
                key = str(key)
            elif key in members:
                self._note(spot, SourceCode.DUPLICATE_KEY, f"duplicate key {key!r}")
            inner = (*path, key)
            self._places[canonical.pointer(inner)] = spot
            members[key] = self._node(next(self._events), inner)
        return members

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if not event.implicit[0]:  # quoted, a block, or tagged
            return _joined(text)
        if text in _WORDS:
            return _WORDS[text]
        if _JSON_NUMBER.fullmatch(text):
            try:
                return canonical.parse(text)
            except canonical.InvalidJson as invalid:
                self._note(_spot(event.start_mark), SourceCode.BAD_SYNTAX, invalid.message)
        elif _OTHER_NUMBER.fullmatch(text):
            message = f"is {text} a number or a text? Write a number as JSON has it, or use quotes"
            self._note(_spot(event.start_mark), SourceCode.AMBIGUOUS, message)
        return text


class _Mark(Protocol):
    """PyYAML's own place; counts from 0."""

    line: int
    column: int


def _spot(mark: _Mark | None) -> Spot:
    return Spot(1, 1) if mark is None else Spot(mark.line + 1, mark.column + 1)


def _joined(text: str) -> str:
    """Surrogates that were written as two escapes and belong together become their character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
