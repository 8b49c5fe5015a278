"""From bytes to wire messages: strict JSON first, then types; every refusal names its place."""

import re
from typing import Any, TypeVar

import msgspec

from pulseweave.kernel import canonical, limits
from pulseweave.kernel.errors import reject

M = TypeVar("M", bound=msgspec.Struct)

_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


def decode(raw: bytes, kind: type[M], *, bytes_max: int) -> M:
    """The message in a body. Raises INVALID_JSON, PAYLOAD_TOO_LARGE or INVALID_COMMAND."""
    try:
        value = canonical.parse(raw or b"{}", bytes_max=bytes_max)
    except canonical.TooLarge as error:
        raise reject("PAYLOAD_TOO_LARGE", error.message) from None
    except canonical.InvalidJson as error:
        raise reject(
            "INVALID_JSON", str(error), pointer=error.pointer, offset=error.offset
        ) from None
    return convert(value, kind)


def convert(value: Any, kind: type[M]) -> M:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        found = _PLACE.search(message)
        place = _pointer(found.group(1)) if found is not None else ""
        told = message[: found.start()] if found is not None else message
        raise reject("INVALID_COMMAND", told, pointer=place) from None


def _pointer(path: str) -> str:
    return canonical.pointer(
        match.group(1) or match.group(2) or "-" for match in _PART.finditer(path)
    )


def payload_text(value: Any, place: str) -> str:
    """Canonical text of a payload within its bound; raises PAYLOAD_TOO_LARGE with the place."""
    text = canonical.encode(value)
    if len(text) > limits.PAYLOAD_BYTES_MAX:
        raise reject(
            "PAYLOAD_TOO_LARGE",
            f"a payload has at most {limits.PAYLOAD_BYTES_MAX} bytes, this one {len(text)}",
            pointer=place,
        )
    return text
