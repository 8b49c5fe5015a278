"""The fixed execution policy of a task: what may follow an attempt, and after how long.

A policy is decided when the task is made and never moves. What may never happen: a delay below
zero, or one that grows past its maximum by more than the jitter (PUL-5).
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from pulseweave.kernel.check import invariant


class Effect(StrEnum):
    """What an execution may do outside, hence what may follow an unknown outcome (PUL-3)."""

    AT_MOST_ONCE = "at_most_once"  # a person decides
    IDEMPOTENT = "idempotent"  # another attempt, while budget and deadline allow
    NONE = "none"  # changes nothing outside: the attempt counts as a retryable failure


@dataclass(frozen=True, slots=True)
class Backoff:
    """How the delay before the next attempt grows (PUL-5).

    ``initial_ms`` before the second attempt, ``factor`` (≥ 1) times as long before each further
    one, never more than ``max_ms``; ``jitter`` (0..1) is the share of the delay by which chance
    moves it up or down.
    """

    initial_ms: int
    factor: float
    max_ms: int
    jitter: float


DEFAULT_BACKOFF = Backoff(initial_ms=1_000, factor=2, max_ms=300_000, jitter=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, how long and in what manner a task may be executed."""

    max_attempts: int
    backoff: Backoff
    attempt_timeout_ms: int | None
    lease_ms: int
    effect: Effect


def delay_ms(backoff: Backoff, *, failures: int, uniform: float) -> int:
    """Milliseconds to wait after failure 1, 2, …; ``uniform`` is chance in [0, 1].

    initial · factor^(failures - 1), at most ``max_ms``, then spread by ± jitter; never below 0
    (PUL-5). Any number of failures is fine: what would overflow is capped before it is computed.
    """
    invariant(failures >= 1, "a delay follows at least one failure", failures=failures)
    invariant(0 <= uniform <= 1, "chance lies in [0, 1]", uniform=uniform)
    grown_ms = _grown_ms(backoff, failures - 1)
    spread = backoff.jitter * (2 * uniform - 1)
    return max(0, grown_ms + round(grown_ms * spread))


def _grown_ms(backoff: Backoff, times: int) -> int:
    initial_ms, max_ms, factor = backoff.initial_ms, backoff.max_ms, backoff.factor
    if initial_ms <= 0:
        return 0
    if initial_ms >= max_ms:
        return max_ms
    if factor <= 1:
        return initial_ms
    times_to_max = math.log(max_ms / initial_ms) / math.log(factor)
    return max_ms if times >= times_to_max else min(max_ms, round(initial_ms * factor**times))
