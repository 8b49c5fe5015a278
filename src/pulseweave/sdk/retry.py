"""What both clients share: keys for commands, and how long to wait between tries."""

from pulseweave.kernel.clock import SystemClock
from pulseweave.kernel.entropy import SystemEntropy
from pulseweave.kernel.ids import IdSource

_ENTROPY = SystemEntropy()
_CLOCK = SystemClock()
_IDS = IdSource(_CLOCK, _ENTROPY)

TRIES = 6
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


def new_key() -> str:
    """An idempotency key for one logical command."""
    return f"sdk-{_IDS.next()}"


def pause_s(tries: int) -> float:
    """Growing, jittered; at most about five seconds."""
    return float(min(0.1 * 2**tries, 4.0) * (0.5 + _ENTROPY.uniform()))


def now_s() -> float:
    """A clock for lengths of waiting, never stored."""
    return _CLOCK.monotonic_us() / 1e6
