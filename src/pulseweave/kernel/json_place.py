"""Finds the place of what is wrong in a JSON text. Runs only after something was found to be wrong.

Walks the tokens in one flat loop, without recursion and in linear time, whatever the text is.
"""

import json
import re
from collections.abc import Iterator

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

    None stands for a key that has not come yet. ``names`` has the keys seen in each open object.
    ``word`` is a token that begins at ``start``; a key is entered before the walk stops at it, all
    else after.
    """

    def __init__(self) -> None:
        self.path: list[str | int | None] = []
        self.names: list[set[str]] = []
        self.start = 0
        self.word = ""
        self.repeated = False  # the token is a key that stood in this object before

    def over(self, text: str) -> Iterator[None]:
        """Stops at each token, in order, up to where the syntax makes no sense."""
        for match in _TOKEN.finditer(text):
            self.start, self.word = match.start(), match.group()
            if self.path and self.path[-1] is None and self.word.startswith('"'):
                read = self._read_key()
                yield
            else:
                yield
                read = self._enter()
            if not read:
                return

    def problem(self, message: str) -> InvalidJson:
        known = (part for part in self.path if part is not None)
        return InvalidJson(message, pointer=short_pointer(known), offset=self.start)

    def _read_key(self) -> bool:
        try:
            name = json.loads(self.word)
        except json.JSONDecodeError:
            return False
        self.repeated = name in self.names[-1]
        self.names[-1].add(name)
        self.path[-1] = name
        return True

    def _enter(self) -> bool:
        match self.word:
            case "[" | "{":
                self.path.append(0 if self.word == "[" else None)
                self.names.append(set())
            case "]" | "}" if not self.path:
                return False
            case "]" | "}":
                self.path.pop()
                self.names.pop()
            case "," if self.path:
                at = self.path[-1]
                self.path[-1] = at + 1 if isinstance(at, int) else None
            case _:
                pass
        return True


def syntax_error(text: str, message: str, offset: int) -> InvalidJson:
    """The place of an offset at which a decoder stopped."""
    walk = _Walk()
    for _ in walk.over(text):
        if walk.start >= offset:
            break
    found = walk.problem(message)
    found.offset = offset
    return found


def too_deep(text: str, depth_max: int) -> InvalidJson:
    """The first bracket that opens more levels than are allowed."""
    walk = _Walk()
    for _ in walk.over(text):
        if walk.word in ("[", "{") and len(walk.path) >= depth_max:
            break
    return walk.problem(f"nested deeper than {depth_max} levels")


def broken_rule(text: str) -> InvalidJson:
    """The first key that stands twice or number that is refused, where the decoder found one."""
    walk = _Walk()
    message = "not acceptable"
    for _ in walk.over(text):
        told = _complaint(walk)
        if told is not None:
            message = told
            break
    return walk.problem(message)


def _complaint(walk: _Walk) -> str | None:
    word = walk.word
    if walk.repeated:
        return f"the key {short_key(str(walk.path[-1]))} stands twice in one object"
    if word[0] in '"[]{},:' or word in _WORDS:
        return None
    try:
        if word in _CONSTANTS:
            refuse_constant(word)
        read_integer(word) if word.lstrip("-").isdecimal() else read_decimal(word)
    except InvalidJson as refusal:
        return refusal.message
    return None
