"""From bytes to wire messages: strict JSON first, then types; every refusal names its place."""

import re
from typing import Any, TypeVar

import msgspec

from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject
from pulseweave.kernel.json_errors import short_pointer

M = TypeVar("M", bound=msgspec.Struct)

_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def decode(raw: bytes, kind: type[M], *, bytes_max: int) -> M:
    """The message in a body. Raises INVALID_JSON, PAYLOAD_TOO_LARGE or INVALID_COMMAND."""
    try:
        value = canonical.parse_body(raw, bytes_max=bytes_max)
    except canonical.TooLarge as error:
        raise reject("PAYLOAD_TOO_LARGE", error.message, pointer="") from None
    except canonical.InvalidJson as error:
        raise reject(
            "INVALID_JSON", str(error), pointer=error.pointer, offset=error.offset
        ) from None
    return convert(value, kind)


def convert(value: Any, kind: type[M]) -> M:
    """The message in a JSON value. Raises INVALID_COMMAND with the place."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        found = _PLACE.search(message)
        told = message[: found.start()] if found is not None else message
        place = _parts(found.group(1)) if found is not None else []
        unknown = _UNKNOWN.fullmatch(told)
        if unknown is not None:
            place.append(unknown.group(1))
        raise reject("INVALID_COMMAND", told, pointer=short_pointer(place)) from None
    except UnicodeEncodeError:
        message = "a field or a choice has a lone surrogate: none is named so"
        raise reject("INVALID_COMMAND", message, pointer="") from None


def _parts(path: str) -> list[str | int]:
    return [match.group(1) or match.group(2) or "-" for match in _PART.finditer(path)]


def payload_text(value: Any, place: str) -> str:
    """Canonical text of a payload within its bounds. ``place``: its JSON Pointer in the body.

    Raises PAYLOAD_TOO_LARGE, or INVALID_JSON for one that is nested too deep, with the place.
    """
    try:
        return canonical.encode_payload(value)
    except canonical.TooLarge as error:
        raise reject("PAYLOAD_TOO_LARGE", error.message, pointer=place) from None
    except canonical.InvalidJson as error:
        pointer = place + (error.pointer or "")
        raise reject("INVALID_JSON", error.message, pointer=pointer) from None
