"""The only place that reads time. Instants are integer microseconds UTC.

Decisions take the database's ``now`` (PUL-15); a Clock serves what happens outside of transactions,
and the simulator. Lengths of time are measured with ``monotonic_us``, which no correction of the
host's clock moves.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What reads time."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC. May step back when the host's clock is corrected."""

    def monotonic_us(self) -> int:
        """Microseconds of a clock that never goes back; its zero means nothing."""


class SystemClock:
    """The host's clocks."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000


class ManualClock:
    """A clock that moves when it is told to."""

    def __init__(self, now_at: int = 1_800_000_000_000_000) -> None:
        self._now_at = now_at
        self._monotonic_us = 0

    def now(self) -> int:
        return self._now_at

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def advance_ms(self, duration_ms: int) -> None:
        """Time passes."""
        self._now_at += duration_ms * 1000
        self._monotonic_us += duration_ms * 1000

    def jump_ms(self, duration_ms: int) -> None:
        """The host's clock is corrected, forwards or backwards; no time passes."""
        self._now_at += duration_ms * 1000
