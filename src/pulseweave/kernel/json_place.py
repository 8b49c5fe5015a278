"""Finds the place of what is wrong in a JSON text. Runs only after something was found to be wrong.

Looks at strings, brackets, commas and doubtful numbers in one flat loop: no recursion, linear time,
and a bound on how far it looks, because an error must never cost much more than the text it is
about. Beyond that bound the place is not told.
"""

import json
import re
from sys import maxsize

from pulseweave.kernel.json_errors import InvalidJson, short_key, short_pointer
from pulseweave.kernel.json_numbers import read_decimal, read_integer, refuse_constant

TOKENS_MAX = 250_000  # a tenth of a second; a payload of ordinary shape has fewer

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'  # one that never ends goes up to the end
_CONSTANT = r"-?(?:NaN|Infinity)"
# Numbers that may be refused: long ones, and those with an exponent. Each is tried at its start.
_DOUBTFUL = (
    r"(?<![-+.0-9])-?(?:"
    r"[0-9]++(?:\.[0-9]++)?+[eE][-+]?[0-9]++|"
    r"[0-9]{250,}+(?:\.[0-9]++)?+|"
    r"[0-9]++\.[0-9]{250,}+)"
)
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}},]|{_CONSTANT}|{_DOUBTFUL}", re.DOTALL)

#: Everything but brackets: when it is taken away, what is left tells the depth.
FILLING = re.compile(rf'{_STRING}|[^\[\]{{}}"]++', re.DOTALL)


def syntax_error(text: str, message: str, offset: int) -> InvalidJson:
    """The place of an offset at which a decoder stopped."""
    found = _search(text, message, offset=offset)
    return InvalidJson(message, pointer=found.pointer, offset=offset)


def too_deep(text: str, depth_max: int) -> InvalidJson:
    """The first bracket that opens more levels than are allowed."""
    return _search(text, f"nested deeper than {depth_max} levels", depth_max=depth_max)


def broken_rule(text: str, known: InvalidJson) -> InvalidJson:
    """The first key that stands twice or number that is refused; ``known`` is one of them."""
    return _search(text, known.message, judging=True)


def _search(
    text: str,
    message: str,
    *,
    offset: int = maxsize,
    depth_max: int = maxsize,
    judging: bool = False,
) -> InvalidJson:
    """Goes to ``offset``, one level beyond ``depth_max``, or to what breaks a rule."""
    path: list[str | int | None] = []  # None: a key that has not come yet
    names: list[set[str]] = []  # the keys seen, for each open object
    start = 0
    for count, match in enumerate(_TOKEN.finditer(text)):
        if count == TOKENS_MAX:
            return InvalidJson(message)
        start = match.start()
        if start >= offset:
            break
        word = match.group()
        first = word[0]
        if first == ",":
            _pass_comma(path)
        elif first == '"':
            if path and path[-1] is None:
                name = _name(word)
                path[-1] = name
                if name is None:
                    break
                if judging and name in names[-1]:
                    message = repeated_key(name)
                    break
                names[-1].add(name)
        elif first in "[{":
            if len(path) == depth_max:
                break
            path.append(0 if first == "[" else None)
            names.append(set())
        elif first in "]}":
            if not path:
                break
            path.pop()
            names.pop()
        elif judging:
            refusal = _refusal(word)
            if refusal is not None:
                message = refusal.message
                break
    known = [part for part in path if part is not None]
    return InvalidJson(message, pointer=short_pointer(known), offset=start)


def _pass_comma(path: list[str | int | None]) -> None:
    if path:
        at = path[-1]
        path[-1] = at + 1 if isinstance(at, int) else None


def _name(word: str) -> str | None:
    """The key that a string stands for; None when it is malformed."""
    try:
        name: str = json.loads(word)
    except json.JSONDecodeError:
        return None
    return name


def repeated_key(name: str) -> str:
    return f"the key {short_key(name)} stands twice in one object"


def _refusal(word: str) -> InvalidJson | None:
    try:
        if word.endswith(("N", "y")):  # NaN, Infinity
            refuse_constant(word)
        elif word.lstrip("-").isdecimal():
            read_integer(word)
        else:
            read_decimal(word)
    except InvalidJson as refusal:
        return refusal
    return None
