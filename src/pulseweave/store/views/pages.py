"""Keyset pages: a unique total order and an opaque, exact cursor (B141)."""

import base64
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import is_id
from pulseweave.kernel.texts import complain_of_name

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """``cursor`` None: this is the last page."""

    items: list[Row]
    cursor: str | None


def encode_cursor(*key: int | str) -> str:
    text = canonical.encode(list(key))
    return base64.urlsafe_b64encode(text.encode("ascii")).decode("ascii").rstrip("=")


#: What a part of a cursor may be: a row's id, a name, or a number of a range.
Kind: TypeAlias = Literal["id", "name"] | range

#: The numbers that fit a column of four bytes, and one of eight.
SMALL = range(2**31)
LARGE = range(2**63)


def decode_cursor(cursor: str, *kinds: Kind) -> list[Any]:
    """The key of the last row seen, a part for each of ``kinds``.

    Raises INVALID_COMMAND for what we can't have given out: no database ever sees it.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key = canonical.parse(base64.urlsafe_b64decode(padded.encode("ascii")))
        if isinstance(key, list) and len(key) == len(kinds) and all(map(_fits, key, kinds)):
            return key
    except ValueError:
        pass
    raise reject("INVALID_COMMAND", "the cursor is not one of ours", pointer="/cursor")


def _fits(part: object, kind: Kind) -> bool:
    if isinstance(kind, range):
        return type(part) is int and part in kind
    if not isinstance(part, str):
        return False
    return is_id(part) if kind == "id" else complain_of_name(part) is None


def cut(rows: list[Row], limit: int, key: Any) -> Page[Row]:
    """A page of ``limit`` from one row more; ``key(row)`` gives the cursor's parts."""
    if len(rows) <= limit:
        return Page(rows, None)
    kept = rows[:limit]
    return Page(kept, encode_cursor(*key(kept[-1])))
