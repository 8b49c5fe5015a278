"""Durations as people write them: ``250ms``, ``30s``, ``5m``, ``1h30m``, ``7d``. Never wrapped, never guessed."""

import re

from pulseweave.kernel import limits

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_WHOLE = re.compile(r"(?:\d+(?:ms|[dhms]))+")
_PART = re.compile(r"(\d+)(ms|[dhms])")
_FORM = 'a duration is written like "250ms", "30s", "5m", "1h30m" or "7d"'


class InvalidDuration(ValueError):
    """What was wrong and what would be right."""


def parse(text: object, *, zero: bool = False) -> int:
    """Milliseconds. Units descend and occur once; zero only where the caller allows it."""
    if not isinstance(text, str) or _WHOLE.fullmatch(text) is None:
        raise InvalidDuration(f"{text!r} is no duration: {_FORM}")
    parts = _PART.findall(text)
    sizes = [_UNITS_MS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise InvalidDuration(f"{text!r} repeats or misorders a unit: {_FORM}")
    if any(len(count) > 16 for count, _ in parts):
        raise InvalidDuration(f"{text[:40]!r} is longer than 100 years")
    total_ms = sum(int(count) * _UNITS_MS[unit] for count, unit in parts)
    if total_ms > limits.DURATION_MS_MAX:
        raise InvalidDuration(f"{text!r} is longer than 100 years")
    if total_ms == 0 and not zero:
        raise InvalidDuration(f"{text!r} is no time at all")
    return total_ms


def format_ms(duration_ms: int) -> str:
    """The shortest text that ``parse`` gives back as the same number."""
    if duration_ms == 0:
        return "0s"
    told = ""
    for unit, size in _UNITS_MS.items():
        count, duration_ms = divmod(duration_ms, size)
        if count:
            told += f"{count}{unit}"
    return told
