"""Instants: integer microseconds UTC inside, RFC 3339 with microseconds and ``Z`` outside."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


def format_at(instant: int) -> str:
    """Like 2026-12-01T09:00:00.000000Z; texts of one year of four digits sort as their instants."""
    told = (_EPOCH + instant * _MICROSECOND).isoformat(timespec="microseconds")
    return told.removesuffix("+00:00") + "Z"


def parse_at(text: str) -> int:
    """Microseconds UTC. Raises ValueError for any other form, and for a day that doesn't exist."""
    problem = f"{text[:40]!r} is no instant like 2026-12-01T09:00:00.000000Z"
    if _FORM.fullmatch(text) is None:
        raise ValueError(problem)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(problem) from None
    return (moment - _EPOCH) // _MICROSECOND


def read_at(text: str) -> int:
    """Microseconds UTC of an RFC 3339 instant as people and other systems write it: any offset, any
    fraction. Raises ValueError where there is no day, time or offset.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text[:40]!r} is no instant like 2026-12-01T09:00:00Z")
    return (moment - _EPOCH) // _MICROSECOND
