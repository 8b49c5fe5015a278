"""Ids: UUIDv7 (RFC 9562) as lower-case text, which sorts by creation.

The 12 bits behind the milliseconds are their fraction, so that ids sort within a millisecond too;
an IdSource moves on by a 4096th of a millisecond where its clock doesn't, so that its ids always
ascend.
"""

import re
from threading import Lock

from pulseweave.kernel.clock import Clock
from pulseweave.kernel.entropy import Entropy

_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TICKS_PER_MS = 4096


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; whether there is such a row is another question."""
    return _PATTERN.fullmatch(text) is not None


def new_id(now_at: int, entropy: Entropy) -> str:
    """An id of an instant. Two of the same microsecond sort by chance; IdSource orders them."""
    return format_id(_ticks(now_at), _draw(entropy))


def instant_of(text: str) -> int:
    """When an id was made: microseconds UTC, to the millisecond."""
    return int(text[:8] + text[9:13], 16) * 1000


def format_id(ticks: int, rand: int) -> str:
    """``ticks``: 4096ths of a millisecond since 1970; ``rand``: 62 bits."""
    ms, fraction = divmod(ticks, _TICKS_PER_MS)
    value = ms << 80 | 7 << 76 | fraction << 64 | 2 << 62 | rand
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class IdSource:
    """Ids in creation order, also while its clock stands or steps back. Thread-safe."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last_ticks = 0
        self._lock = Lock()

    def next(self) -> str:
        with self._lock:
            self._last_ticks = max(_ticks(self._clock.now()), self._last_ticks + 1)
            return format_id(self._last_ticks, _draw(self._entropy))


def _ticks(now_at: int) -> int:
    return now_at * _TICKS_PER_MS // 1000


def _draw(entropy: Entropy) -> int:
    return int.from_bytes(entropy.random_bytes(8), "big") >> 2
