"""Instants: integer microseconds UTC inside, RFC 3339 with microseconds and ``Z`` outside."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def format_at(instant: int) -> str:
    return (_EPOCH + timedelta(microseconds=instant)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_at(text: str) -> int:
    """Microseconds UTC. Raises ValueError for any other form."""
    if _FORM.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no instant like 2026-12-01T09:00:00.000000Z")
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
