"""Strict JSON in, canonical JSON out.

Whatever JSON allows comes back exactly: NUL and lone surrogates as escapes, integers of any size up to a
digit bound, and number literals that a float can't carry (long decimals, 1e-400) as ``Literal``, a float that
remembers its digits. Canonical text: keys sorted by code point, no spaces, ASCII escapes. Key order is the
only thing that is not kept.

Refused, each with its place: duplicate keys, NaN and Infinity, numbers beyond a float's range, too deep,
too large, bad UTF-8, anything after the value.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from pulseweave.kernel import limits


class InvalidJson(ValueError):
    """What was wrong, and where: ``pointer`` is a JSON Pointer where known, ``offset`` counts characters."""

    def __init__(self, message: str, *, pointer: str | None = None, offset: int | None = None) -> None:
        place = f" at {pointer or '/'}" if pointer is not None else ""
        place += f" at character {offset}" if offset is not None else ""
        super().__init__(message + place)
        self.message = message
        self.pointer = pointer
        self.offset = offset


class TooLarge(InvalidJson):
    """The text is larger than its bound; answered as PAYLOAD_TOO_LARGE."""


class Literal(float):
    """A number whose digits a float can't give back: computes as the float, encodes as it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "Literal":
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type["Literal"], tuple[str]]:
        return Literal, (self.text,)


def pointer(parts: Iterable[str | int]) -> str:
    """RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


_DEPTH = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _check_depth(text: str, depth_max: int) -> None:
    """Bound the nesting before anything recurses: flat memory, no recursion error."""
    if text.count("[") + text.count("{") <= depth_max:
        return
    depth = 0
    for match in _DEPTH.finditer(text):
        char = text[match.start()]
        if char in "[{":
            depth += 1
            if depth > depth_max:
                raise InvalidJson(f"nested deeper than {depth_max}", offset=match.start())
        elif char in "]}":
            depth -= 1


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidJson(f"duplicate key {key!r}")
            seen.add(key)
    return found


def _integer(text: str) -> int | Literal:
    if len(text) > limits.INTEGER_DIGITS_MAX:
        raise InvalidJson(f"an integer of more than {limits.INTEGER_DIGITS_MAX} digits")
    if text == "-0":
        return Literal(text)
    return int(text)


def _decimal(text: str) -> float:
    if len(text) > limits.INTEGER_DIGITS_MAX:
        raise InvalidJson(f"a number of more than {limits.INTEGER_DIGITS_MAX} characters")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidJson(f"the number {text[:40]} is beyond what can be computed with")
    return value if repr(value) == text else Literal(text)


def _constant(text: str) -> NoReturn:
    raise InvalidJson(f"{text} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
)


def parse(
    raw: bytes | str,
    *,
    bytes_max: int = limits.BODY_BYTES_MAX,
    depth_max: int = limits.JSON_DEPTH_MAX,
) -> Any:
    """The value of a JSON text. Raises InvalidJson (or TooLarge)."""
    if len(raw) > bytes_max:
        raise TooLarge(f"{len(raw)} bytes; at most {bytes_max} are allowed")
    if isinstance(raw, bytes):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidJson("not UTF-8", offset=error.start) from None
    else:
        text = raw
    _check_depth(text, depth_max)
    try:
        value, end = _decoder.raw_decode(text, _blank(text, 0))
    except InvalidJson as error:
        raise _placed(error, text) from None
    except json.JSONDecodeError as error:
        raise InvalidJson(error.msg, offset=error.pos) from None
    if _blank(text, end) != len(text):
        raise InvalidJson("something stands behind the value", offset=end)
    return value


_BLANK = re.compile(r"[ \t\n\r]*")


def _blank(text: str, start: int) -> int:
    match = _BLANK.match(text, start)
    return match.end() if match is not None else start


def _placed(error: InvalidJson, text: str) -> InvalidJson:
    """Find where a refused value stands; only on the way out, so that good input pays nothing."""
    for place, problem in _walk_problems(text):
        return InvalidJson(problem, pointer=place)
    return error


def _walk_problems(text: str) -> Iterable[tuple[str, str]]:
    """Problems with their places, from a decode that keeps pairs and literals apart."""
    kept = json.JSONDecoder(
        object_pairs_hook=_Pairs, parse_int=_Word, parse_float=_Word, parse_constant=_Word
    )
    value, _ = kept.raw_decode(text, _blank(text, 0))
    yield from _problems(value, ())


class _Pairs(list[tuple[str, Any]]):
    pass


class _Word(str):
    __slots__ = ()


def _problems(value: Any, path: tuple[str | int, ...]) -> Iterable[tuple[str, str]]:
    match value:
        case _Pairs():
            seen: set[str] = set()
            for key, child in value:
                if key in seen:
                    yield pointer((*path, key)), f"duplicate key {key!r}"
                seen.add(key)
                yield from _problems(child, (*path, key))
        case list():
            for index, child in enumerate(value):
                yield from _problems(child, (*path, index))
        case _Word():
            try:
                _word(value)
            except InvalidJson as error:
                yield pointer(path), error.message


def _word(text: str) -> None:
    if text in ("NaN", "Infinity", "-Infinity"):
        _constant(text)
    elif text.lstrip("-").isdigit():
        _integer(text)
    else:
        _decimal(text)


_encoder = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


def encode(value: Any) -> str:
    """Canonical text. Raises InvalidJson with the pointer of what isn't JSON."""
    try:
        text = _encoder.encode(value)
        plain = _only_json(value)
    except (TypeError, ValueError, RecursionError):
        plain = False
        text = ""
    if plain:
        return text
    problem = _unencodable(value, (), set())
    if problem is not None:
        raise problem
    return _encode_literals(value)


def _only_json(value: Any) -> bool:
    """Whether the C encoder's text is right: string keys only, and no literal that it would reformat."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _only_json(child) for key, child in value.items())
    if kind is list:
        return all(map(_only_json, value))
    return kind in _PLAIN


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _unencodable(
    value: Any, path: tuple[str | int, ...], above: set[int]
) -> InvalidJson | None:
    if value is None or isinstance(value, str | bool | int | Literal):
        return None
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return InvalidJson(f"{value} is not JSON", pointer=pointer(path))
        return None
    if not isinstance(value, dict | list | tuple):
        return InvalidJson(f"a {type(value).__name__} is not JSON", pointer=pointer(path))
    if id(value) in above:
        return InvalidJson("a value that contains itself", pointer=pointer(path))
    if len(path) >= limits.JSON_DEPTH_MAX:
        return InvalidJson(f"nested deeper than {limits.JSON_DEPTH_MAX}", pointer=pointer(path))
    inside = above | {id(value)}
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        if isinstance(value, dict) and not isinstance(key, str):
            return InvalidJson(f"the key {key!r} is not a string", pointer=pointer(path))
        problem = _unencodable(child, (*path, key), inside)
        if problem is not None:
            return problem
    return None


def _encode_literals(value: Any) -> str:
    match value:
        case Literal():
            return value.text
        case dict():
            inner = (
                f"{_encoder.encode(str(key))}:{_encode_literals(value[key])}" for key in sorted(value)
            )
            return "{" + ",".join(inner) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_encode_literals, value)) + "]"
        case bool() | None:
            return _encoder.encode(value)
        case int():
            return str(int(value))
        case str():
            return _encoder.encode(str(value))
        case _:
            return _encoder.encode(value)


def digest(text: str) -> str:
    """Digest of a canonical text: ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def digest_of(value: Any) -> str:
    return digest(encode(value))
