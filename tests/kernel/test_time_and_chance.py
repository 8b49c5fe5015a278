"""Clocks, entropy, ids."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.kernel.clock import Clock, ManualClock, SystemClock
from pulseweave.kernel.entropy import Entropy, SeededEntropy, SystemEntropy
from pulseweave.kernel.ids import IdSource, format_id, instant_of, is_id, new_id

ROOT = Path(__file__).parents[2]
NOW_AT = 1_800_000_000_123_456


def test_the_system_clock_counts_microseconds() -> None:
    clock: Clock = SystemClock()
    assert 1_700_000_000_000_000 < clock.now() < 5_000_000_000_000_000
    before = clock.monotonic_us()
    assert 0 <= clock.monotonic_us() - before < 60_000_000


def test_a_manual_clock_moves_when_told() -> None:
    clock: ManualClock = ManualClock(NOW_AT)
    assert (clock.now(), clock.monotonic_us()) == (NOW_AT, 0)
    clock.advance_ms(5)
    assert (clock.now(), clock.monotonic_us()) == (NOW_AT + 5_000, 5_000)
    clock.jump_ms(-3_600_000)
    assert (clock.now(), clock.monotonic_us()) == (NOW_AT + 5_000 - 3_600_000_000, 5_000)


@pytest.mark.parametrize("source", [SystemEntropy(), SeededEntropy(7)])
def test_entropy(source: Entropy) -> None:
    assert len(source.random_bytes(0)) == 0
    assert len({source.random_bytes(16) for _ in range(100)}) == 100
    tokens = {source.token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)
    drawn = [source.uniform() for _ in range(1000)]
    assert all(0 <= value < 1 for value in drawn)
    assert min(drawn) < 0.1
    assert max(drawn) > 0.9


def test_the_largest_draw_is_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"\xff" * count)
    assert 0.999_999 < SystemEntropy().uniform() < 1
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    assert SystemEntropy().uniform() == 0


SCRIPT = """
from pulseweave.kernel.clock import ManualClock
from pulseweave.kernel.entropy import SeededEntropy
from pulseweave.kernel.ids import IdSource
entropy = SeededEntropy(42)
ids = IdSource(ManualClock(), entropy)
print([ids.next() for _ in range(5)], entropy.token(), entropy.uniform(), entropy.random_bytes(3))
"""


def test_a_seed_gives_the_same_sequence_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(told) == 1
    assert SeededEntropy(42).token() != SeededEntropy(43).token()


# --- ids ------------------------------------------------------------------------------------------


@given(st.integers(0, 250_000_000_000_000_000), st.integers(0))
def test_an_id_is_a_uuid_of_version_7(now_at: int, seed: int) -> None:
    text = new_id(now_at, SeededEntropy(seed))
    known = UUID(text)
    assert str(known) == text
    assert (known.version, known.variant) == (7, RFC_4122)
    assert known.int >> 80 == now_at // 1000
    assert is_id(text)
    assert instant_of(text) == now_at // 1000 * 1000


@given(st.integers(0, 250_000_000_000_000_000), st.integers(1, 10_000))
def test_ids_sort_by_their_microsecond(now_at: int, later_us: int) -> None:
    chance = SeededEntropy(1)
    assert new_id(now_at, chance) < new_id(now_at + later_us, chance)


def test_the_last_bits_of_an_id() -> None:
    assert format_id(0, 0) == "00000000-0000-7000-8000-000000000000"
    assert format_id(4095, (1 << 62) - 1) == "00000000-0000-7fff-bfff-ffffffffffff"
    assert format_id(4096, 0) == "00000000-0001-7000-8000-000000000000"


class ScriptedClock:
    """Answers a list of instants, then the last one for ever."""

    def __init__(self, instants: list[int]) -> None:
        self._left: Iterator[int] = iter(instants)
        self._last = instants[0]

    def now(self) -> int:
        self._last = next(self._left, self._last)
        return self._last

    def monotonic_us(self) -> int:
        return 0


@given(st.lists(st.integers(NOW_AT - 10**10, NOW_AT + 10**10), min_size=1, max_size=50))
def test_ids_ascend_whatever_the_clock_does(instants: list[int]) -> None:
    source = IdSource(ScriptedClock(instants), SeededEntropy(0))
    made = [source.next() for _ in range(len(instants) + 10)]
    assert all(map(is_id, made))
    assert made == sorted(set(made))


def test_ids_of_many_threads_are_distinct_and_ascend_in_each() -> None:
    source = IdSource(SystemClock(), SystemEntropy())

    def draw(count: int) -> list[str]:
        return [source.next() for _ in range(count)]

    with ThreadPoolExecutor(4) as pool:
        lists = list(pool.map(draw, [2_000] * 4))
    for made in lists:
        assert made == sorted(made)
    assert len({text for made in lists for text in made}) == 8_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00000000-0000-7000-8000-00000000000",
        "00000000-0000-7000-8000-000000000000\n",
        "00000000-0000-4000-8000-000000000000",
        "00000000-0000-7000-c000-000000000000",
        "0000000A-0000-7000-8000-000000000000",
        "00000000000070008000000000000000",
        "{0000000-0000-7000-8000-000000000000}",
    ],
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)
