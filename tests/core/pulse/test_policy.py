"""Delays between attempts (PUL-5)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.core.pulse.policy import DEFAULT_BACKOFF, Backoff, delay_ms
from pulseweave.kernel import limits
from pulseweave.kernel.check import InvariantViolation

STEADY = Backoff(initial_ms=1_000, factor=2, max_ms=60_000, jitter=0)


@pytest.mark.rule("PUL-5")
@pytest.mark.parametrize(
    ("failures", "expected_ms"),
    [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (8, 60_000), (10**9, 60_000)],
)
def test_the_delay_grows_by_its_factor_up_to_its_maximum(failures: int, expected_ms: int) -> None:
    assert delay_ms(STEADY, failures=failures, uniform=0.5) == expected_ms


@pytest.mark.rule("PUL-5")
@pytest.mark.parametrize(
    ("uniform", "expected_ms"), [(0.0, 800), (0.25, 900), (0.5, 1_000), (1.0, 1_200)]
)
def test_jitter_spreads_the_delay_both_ways(uniform: float, expected_ms: int) -> None:
    assert delay_ms(DEFAULT_BACKOFF, failures=1, uniform=uniform) == expected_ms


@pytest.mark.parametrize(
    ("backoff", "failures", "expected_ms"),
    [
        (Backoff(initial_ms=0, factor=2, max_ms=100, jitter=1), 50, 0),
        (Backoff(initial_ms=100, factor=2, max_ms=100, jitter=0), 1, 100),
        (Backoff(initial_ms=200, factor=2, max_ms=100, jitter=0), 1, 100),
        (Backoff(initial_ms=100, factor=1, max_ms=1_000, jitter=0), 10**6, 100),
        (Backoff(initial_ms=100, factor=1.5, max_ms=1_000, jitter=0), 3, 225),
        (Backoff(initial_ms=100, factor=math.nextafter(1, 2), max_ms=1_000, jitter=0), 10**9, 100),
        (Backoff(initial_ms=1, factor=10**400, max_ms=1_000, jitter=0), 2, 1_000),
    ],
)
def test_the_edges_of_a_policy(backoff: Backoff, failures: int, expected_ms: int) -> None:
    assert delay_ms(backoff, failures=failures, uniform=0.5) == expected_ms


_backoffs = st.builds(
    Backoff,
    initial_ms=st.integers(0, limits.DURATION_MS_MAX),
    factor=st.one_of(st.integers(1, 1000), st.floats(1, 1000)),
    max_ms=st.integers(0, limits.DURATION_MS_MAX),
    jitter=st.floats(0, 1),
)


@pytest.mark.rule("PUL-5")
@given(backoff=_backoffs, failures=st.integers(1, 10**18), uniform=st.floats(0, 1))
def test_no_policy_overflows_or_leaves_its_bounds(
    backoff: Backoff, failures: int, uniform: float
) -> None:
    delay = delay_ms(backoff, failures=failures, uniform=uniform)

    assert 0 <= delay <= backoff.max_ms * (1 + backoff.jitter) + 1


@given(backoff=_backoffs, failures=st.integers(1, 10**6))
def test_a_later_failure_never_waits_less(backoff: Backoff, failures: int) -> None:
    now = delay_ms(backoff, failures=failures, uniform=0.5)

    assert delay_ms(backoff, failures=failures + 1, uniform=0.5) >= now - now // 10**12


@pytest.mark.parametrize(("failures", "uniform"), [(0, 0.5), (1, -0.1), (1, 1.1)])
def test_what_no_caller_may_ask_is_a_bug(failures: int, uniform: float) -> None:
    with pytest.raises(InvariantViolation):
        delay_ms(STEADY, failures=failures, uniform=uniform)
