"""Durations as people write them: ``250ms``, ``30s``, ``5m``, ``1h30m``, ``7d``.

A duration is accepted and honoured to the millisecond, or refused: never wrapped, and a number
without its unit is never guessed at. A day has 24 hours: durations are physical time.
"""

import re

from pulseweave.kernel import limits

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_WHOLE = re.compile(r"(?:[0-9]+(?:ms|[dhms]))+")
_PART = re.compile(r"([0-9]+)(ms|[dhms])")
_FORM = 'a duration is written like "250ms", "30s", "5m", "1h30m" or "7d"'
_COUNT_DIGITS_MAX = len(str(limits.DURATION_MS_MAX))
_SHOWN_CHARS = 40


class InvalidDuration(ValueError):
    """What was wrong and what would be right."""


def parse(text: object, *, zero: bool = False) -> int:
    """Milliseconds, at most 100 years. Units descend and occur once; zero only where it is allowed.

    Raises InvalidDuration, for anything that is no string too.
    """
    shown = repr(text if not isinstance(text, str) else text[:_SHOWN_CHARS])[: 2 * _SHOWN_CHARS]
    if not isinstance(text, str) or _WHOLE.fullmatch(text) is None:
        raise InvalidDuration(f"{shown} is no duration: {_FORM}")
    parts = [(count.lstrip("0") or "0", unit) for count, unit in _PART.findall(text)]
    sizes = [_UNITS_MS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise InvalidDuration(
            f"{shown} repeats a unit or has a larger one behind a smaller one: {_FORM}"
        )
    if any(len(count) > _COUNT_DIGITS_MAX for count, _ in parts):
        raise InvalidDuration(f"{shown} is longer than 100 years")
    total_ms = sum(int(count) * _UNITS_MS[unit] for count, unit in parts)
    if total_ms > limits.DURATION_MS_MAX:
        raise InvalidDuration(f"{shown} is longer than 100 years")
    if total_ms == 0 and not zero:
        raise InvalidDuration(f"{shown} is no time at all")
    return total_ms


def format_ms(duration_ms: int) -> str:
    """The text in which every unit counts less than the next one, which ``parse`` reads back."""
    if duration_ms == 0:
        return "0s"
    told = ""
    left_ms = duration_ms
    for unit, size_ms in _UNITS_MS.items():
        count, left_ms = divmod(left_ms, size_ms)
        if count:
            told += f"{count}{unit}"
    return told
