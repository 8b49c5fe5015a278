"""UUIDv7 as lower-case text: sorted by creation, also within one process and one microsecond."""

import re
from threading import Lock

from pulseweave.kernel.clock import Clock
from pulseweave.kernel.entropy import Entropy

_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SUB_MS = 4096  # 12 bits of rand_a: the fraction of the millisecond


def is_id(text: str) -> bool:
    return _PATTERN.fullmatch(text) is not None


def instant_of(text: str) -> int:
    """When an id was made: microseconds UTC, to the millisecond."""
    return int(text[:8] + text[9:13], 16) * 1000


def format_id(ticks: int, rand: int) -> str:
    """``ticks``: 4096ths of a millisecond since 1970; ``rand``: 62 bits."""
    value = (ticks // _SUB_MS) << 80 | 7 << 76 | (ticks % _SUB_MS) << 64 | 2 << 62 | rand
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class IdSource:
    """Ids in creation order. Thread-safe; a clock that stands or steps back never breaks the order."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last_ticks = 0
        self._lock = Lock()

    def next(self) -> str:
        rand = int.from_bytes(self._entropy.random_bytes(8), "big") >> 2
        with self._lock:
            ticks = self._clock.now() * _SUB_MS // 1000
            self._last_ticks = max(ticks, self._last_ticks + 1)
            return format_id(self._last_ticks, rand)
