"""What can be wrong with JSON, and how its place is told (RFC 6901, JSON Pointer).

An error never carries the value, and stays short whatever was sent: a pointer too long to read is
shortened to an enclosing place, a key is cut.
"""

from collections.abc import Iterable

POINTER_CHARS_MAX = 512
_KEY_CHARS_MAX = 40


class InvalidJson(ValueError):
    """What was wrong, and where.

    ``code`` is the refusal's code. ``pointer`` names the place ("" is the whole value), None where
    there is none to name. ``offset`` counts characters of a text, bytes where it is not UTF-8.
    """

    code = "INVALID_JSON"

    def __init__(
        self, message: str, *, pointer: str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer
        self.offset = offset

    def __str__(self) -> str:
        places = []
        if self.pointer is not None:
            places.append(f"at {self.pointer}" if self.pointer else "at the top")
        if self.offset is not None:
            places.append(f"at offset {self.offset}")
        return " ".join([self.message, *places])


class TooLarge(InvalidJson):
    """A text beyond its bound."""

    code = "PAYLOAD_TOO_LARGE"


def pointer(parts: Iterable[str | int]) -> str:
    """The JSON Pointer of a path of keys and indexes; "" for the whole value."""
    return "".join("/" + escape(str(part)) for part in parts)


def escape(part: str) -> str:
    """One key as a part of a pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def short_pointer(parts: Iterable[str | int]) -> str:
    """The pointer, or as many of its first parts as stay readable: then an enclosing place."""
    told = ""
    for part in parts:
        more = "/" + escape(str(part))
        if len(told) + len(more) > POINTER_CHARS_MAX:
            break
        told += more
    return told


def short_key(key: str) -> str:
    """A key as messages show it."""
    return repr(key if len(key) <= _KEY_CHARS_MAX else key[:_KEY_CHARS_MAX] + "…")
