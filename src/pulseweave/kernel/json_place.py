"""Finds the place of what is wrong in a JSON text. Runs only after something was found to be wrong.

Walks the tokens in one flat loop, without recursion and in linear time, whatever the text is.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError
from json.decoder import scanstring

from pulseweave.kernel.json_errors import InvalidJson, short_key, short_pointer
from pulseweave.kernel.json_numbers import read_decimal, read_integer, refuse_constant

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'  # one that never ends goes up to the end
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}},:]|[^\s\"\[\]{{}},:]++", re.DOTALL)
#: Everything but brackets: taken away, what is left tells the depth.
FILLING = re.compile(rf'{_STRING}|[^\[\]{{}}"]++', re.DOTALL)

_CONSTANTS = frozenset({"NaN", "Infinity", "-Infinity"})
_WORDS = frozenset({"true", "false", "null"})


class _Walk:
    """Where the walk stands: the key or index in each open container, outermost first.

    ``token`` begins at ``start`` and is the next to be entered. ``names`` is the set of keys seen in
    each open object, None for an array; ``key`` says that the token is a key.
    """

    def __init__(self) -> None:
        self.path: list[str | int] = []
        self.names: list[set[str] | None] = []
        self.start = 0
        self.token = ""
        self.key = False

    def over(self, text: str) -> Iterator[None]:
        """Stops at each token before it is entered."""
        for match in _TOKEN.finditer(text):
            self.start, self.token = match.start(), match.group()
            yield
            if not self._enter(text):
                return

    def _enter(self, text: str) -> bool:
        """Whether the walk can go on."""
        match self.token:
            case "[":
                self.path.append(0)
                self.names.append(None)
                self.key = False
            case "{":
                self.path.append("")
                self.names.append(set())
                self.key = True
            case "]" | "}":
                if not self.path:
                    return False
                self.path.pop()
                self.names.pop()
                self.key = False
            case ",":
                self._next()
            case _ if self.key and self.token.startswith('"'):
                return self._name(text)
        return True

    def _next(self) -> None:
        at = self.path[-1] if self.path else None
        if isinstance(at, int):
            self.path[-1] = at + 1
        self.key = isinstance(at, str)

    def _name(self, text: str) -> bool:
        try:
            name, _ = scanstring(text, self.start + 1)
        except JSONDecodeError:
            return False
        self.path[-1] = name
        self.key = False
        return True

    def problem(self, message: str) -> InvalidJson:
        return InvalidJson(message, pointer=short_pointer(self.path), offset=self.start)


def syntax_error(text: str, message: str, offset: int) -> InvalidJson:
    """The place of an offset at which a decoder stopped."""
    walk = _Walk()
    for _ in walk.over(text):
        if walk.start >= offset:
            break
    return InvalidJson(message, pointer=short_pointer(walk.path), offset=offset)


def too_deep(text: str, depth_max: int) -> InvalidJson:
    """The first bracket that opens more levels than are allowed."""
    walk = _Walk()
    message = f"nested deeper than {depth_max} levels"
    for _ in walk.over(text):
        if walk.token in ("[", "{") and len(walk.path) >= depth_max:
            return walk.problem(message)
    return InvalidJson(message)


def broken_rule(text: str, known: InvalidJson) -> InvalidJson:
    """The first key that stands twice, or number that is refused; ``known`` where there is none."""
    walk = _Walk()
    for _ in walk.over(text):
        if walk.token[0] not in '"[]{},:':
            try:
                _read(walk.token)
            except InvalidJson as refusal:
                return walk.problem(refusal.message)
        elif walk.key and walk.token[0] == '"':
            ...
    return known


def _read(word: str) -> None:
    if word in _CONSTANTS:
        refuse_constant(word)
    if word.lstrip("-").isdecimal():
        read_integer(word)
    elif word not in _WORDS:
        read_decimal(word)
