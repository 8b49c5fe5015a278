"""Strict JSON in, canonical JSON out.

Every value that JSON allows comes back exactly as it was written, the order of keys aside: NUL,
lone surrogates and 4-byte characters as escapes, integers of any size up to a bound, and the
characters of every other number (``json_numbers`` says how). What is refused is refused with its
place: a key that stands twice, NaN and Infinity, numbers that nothing can compute with, texts too
deep or too large, bad UTF-8, anything behind the value. Depth is bounded before anything recurses.

Canonical text: keys sorted by code point, no blanks, ASCII with escapes. ``encode(parse(text)) ==
text`` for every canonical text, so digests are stable over processes and versions of Python.

Three bounds on depth (``limits``): a payload from outside, the body that carries it, and what the
system makes of payloads and stores. Each is smaller than the next, so what was accepted can always
be read.
"""

import hashlib
import json
import re
from collections import Counter
from itertools import accumulate
from typing import Any

from pulseweave.kernel import json_place, limits
from pulseweave.kernel.check import invariant
from pulseweave.kernel.json_errors import InvalidJson, TooLarge, pointer, short_key, short_pointer
from pulseweave.kernel.json_numbers import (
    INTEGER_BOUND,
    Literal,
    read_decimal,
    read_integer,
    refuse_constant,
)

__all__ = [
    "InvalidJson",
    "Literal",
    "TooLarge",
    "digest",
    "digest_of",
    "encode",
    "encode_payload",
    "parse",
    "parse_body",
    "pointer",
]

# --- in -------------------------------------------------------------------------------------------


def parse(
    raw: bytes | str,
    *,
    bytes_max: int = limits.STORED_BYTES_MAX,
    depth_max: int = limits.STORED_DEPTH_MAX,
) -> Any:
    """The value of a JSON text: None, bool, int, float (or Literal), str, list or dict.

    Raises InvalidJson with the place, TooLarge when the text has more than ``bytes_max`` bytes of
    UTF-8. The bounds are those of stored texts; what comes from outside goes through
    ``parse_body``.
    """
    text = _decode(raw, bytes_max)
    _check_depth(text, depth_max)
    try:
        value, end = _decoder.raw_decode(text, _skip_blank(text, 0))
    except InvalidJson as error:
        raise json_place.broken_rule(text, error) from None
    except json.JSONDecodeError as error:
        raise json_place.syntax_error(text, error.msg.removesuffix(" at"), error.pos) from None
    end = _skip_blank(text, end)
    if end != len(text):
        raise InvalidJson("something stands behind the value", pointer="", offset=end)
    return value


def parse_body(raw: bytes | str, *, bytes_max: int = limits.BODY_BYTES_MAX) -> Any:
    """The value of a text from outside, a request's or a response's body."""
    return parse(raw, bytes_max=bytes_max, depth_max=limits.BODY_DEPTH_MAX)


def _decode(raw: bytes | str, bytes_max: int) -> str:
    size = len(raw)
    text = raw
    if size > bytes_max:
        raise TooLarge(_too_large(size, bytes_max))
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidJson("the text is not UTF-8", offset=error.start) from None
    if not text.isascii():
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            message = "a lone surrogate is written as an escape, such as \\ud800"
            raise InvalidJson(message, offset=error.start) from None
        if size > bytes_max:
            raise TooLarge(_too_large(size, bytes_max))
    return text


def _too_large(size: int, bytes_max: int) -> str:
    return f"the text has {size} bytes; at most {bytes_max} are allowed"


_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_QUIET = bytes(code for code in range(256) if chr(code) not in '[]{}"')


def _check_depth(text: str, depth_max: int) -> None:
    if text.count("[") + text.count("{") <= depth_max:
        return
    if max(accumulate(map(_STEPS.__getitem__, _brackets(text))), default=0) > depth_max:
        raise json_place.too_deep(text, depth_max)


def _brackets(text: str) -> bytes:
    """The brackets outside of strings. Where strings have some too, only the regex can tell."""
    bare = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    left = bare.encode().translate(None, _QUIET).replace(b'""', b"")
    return json_place.FILLING.sub("", text).encode() if b'"' in left else left


_BLANK = re.compile(r"[ \t\n\r]*+")


def _skip_blank(text: str, start: int) -> int:
    match = _BLANK.match(text, start)
    return start if match is None else match.end()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (repeated, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidJson(json_place.repeated_key(repeated))
    return found


_decoder = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=read_integer,
    parse_float=read_decimal,
    parse_constant=refuse_constant,
)

# --- out ------------------------------------------------------------------------------------------

_encoder = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


def encode(value: object, *, depth_max: int = limits.STORED_DEPTH_MAX) -> str:
    """The canonical text of a value; tuples count as arrays, enums as the text or int they are.

    Raises InvalidJson with the pointer of what is not JSON: NaN, a set, bytes, a key that is no
    text, a value that contains itself, too deep, an integer too long to be read again.
    """
    if _is_plain(value, depth_max):
        try:
            return _encoder.encode(value)
        except ValueError:
            pass  # NaN or an infinity; the writer finds it
    return _Writer(depth_max).text(value)


def encode_payload(value: object, *, bytes_max: int = limits.PAYLOAD_BYTES_MAX) -> str:
    """The canonical text of a payload from outside: an input, a result, a signal.

    Raises InvalidJson as ``encode`` does, TooLarge when the text has more than ``bytes_max`` bytes.
    """
    text = encode(value, depth_max=limits.JSON_DEPTH_MAX)
    if len(text) > bytes_max:
        raise TooLarge(_too_large(len(text), bytes_max), pointer="")
    return text


def _is_plain(value: object, room: int) -> bool:
    """Whether the C encoder writes it right: no literals, no subclasses, nothing unbounded."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if isinstance(value, int):
        return kind is int and -INTEGER_BOUND < value < INTEGER_BOUND
    if room == 0:
        return False
    if isinstance(value, dict):
        for key, child in value.items():
            if type(key) is not str or not _is_plain(child, room - 1):
                return False
        return kind is dict
    if isinstance(value, list):
        for child in value:
            if not _is_plain(child, room - 1):
                return False
        return kind is list
    return False


_SCALARS = frozenset({str, float, bool, type(None)})


class _Writer:
    """Writes what the C encoder can't, and finds the place of what isn't JSON."""

    def __init__(self, depth_max: int) -> None:
        self._depth_max = depth_max
        self._path: list[str | int] = []
        self._open: set[int] = set()

    def text(self, value: object) -> str:
        match value:
            case Literal():
                return value.text
            case int() if not -INTEGER_BOUND < value < INTEGER_BOUND:
                raise self._problem(f"an integer of more than {limits.INTEGER_DIGITS_MAX} digits")
            case float() if value - value != 0:
                raise self._problem(f"{float(value)} is not JSON")
            case None | bool() | str() | int() | float():
                return _encoder.encode(value)
            case dict():
                return self._object(value)
            case list() | tuple():
                return self._array(value)
            case _:
                raise self._problem(f"a {type(value).__name__} is not JSON")

    def _object(self, value: dict[Any, object]) -> str:
        self._enter(value)
        for key in value:
            if not isinstance(key, str):
                raise self._problem(f"the key {short_key(repr(key))} is no text")
        written = []
        for key in sorted(value):
            self._path.append(key)
            written.append(f"{_encoder.encode(key)}:{self.text(value[key])}")
            self._path.pop()
        self._open.remove(id(value))
        return "{" + ",".join(written) + "}"

    def _array(self, value: list[object] | tuple[object, ...]) -> str:
        self._enter(value)
        written = []
        for at, child in enumerate(value):
            self._path.append(at)
            written.append(self.text(child))
            self._path.pop()
        self._open.remove(id(value))
        return "[" + ",".join(written) + "]"

    def _enter(self, value: object) -> None:
        if id(value) in self._open:
            raise self._problem("a value that contains itself is not JSON")
        if len(self._path) >= self._depth_max:
            raise self._problem(f"nested deeper than {self._depth_max} levels")
        self._open.add(id(value))

    def _problem(self, message: str) -> InvalidJson:
        return InvalidJson(message, pointer=short_pointer(self._path))


# --- digests --------------------------------------------------------------------------------------


def digest(text: str) -> str:
    """Digest of a canonical text: ``sha256:`` and 64 hex digits."""
    invariant(text.isascii(), "a digest is taken of canonical text")
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def digest_of(value: object) -> str:
    """Digest of a value's canonical text. Raises InvalidJson as ``encode`` does."""
    return digest(encode(value))
