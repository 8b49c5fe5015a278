"""Keyset pages: a unique total order and an opaque, exact cursor (B141)."""

import base64
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """``cursor`` None: this is the last page."""

    items: list[Row]
    cursor: str | None


def encode_cursor(*key: int | str) -> str:
    text = canonical.encode(list(key))
    return base64.urlsafe_b64encode(text.encode("ascii")).decode("ascii").rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[Any]:
    """The key of the last row seen; raises INVALID_COMMAND for anything that we did not
    give out.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key = canonical.parse(base64.urlsafe_b64decode(padded.encode("ascii")))
        if isinstance(key, list) and [type(part) for part in key] == list(kinds):
            return key
    except ValueError:
        pass
    raise reject("INVALID_COMMAND", "the cursor is not one of ours", pointer="/cursor")


def cut(rows: list[Row], limit: int, key: Any) -> Page[Row]:
    """A page of ``limit`` from one row more; ``key(row)`` gives the cursor's parts."""
    if len(rows) <= limit:
        return Page(rows, None)
    kept = rows[:limit]
    return Page(kept, encode_cursor(*key(kept[-1])))
