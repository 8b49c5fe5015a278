"""The lock order, watched while it happens; on SQLite too, where locks themselves compile to
nothing.

A transaction takes ranks upwards, within a rank keys upwards, and writes only rows that it holds or
made. After the result partitions nothing is locked any more (PUL-11, REC-6).
"""

from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import Any

from pulseweave.kernel.check import invariant


class Rank(IntEnum):
    CURSOR = 0
    APPLICATION = 1
    STRIPE = 2
    QUEUE = 3
    INSTANCE = 4
    GATE = 5
    KEY_STRIPE = 6
    TASK = 7
    PARTITION = 8


class Guard:
    """What one transaction holds. Cheap: a set and a last key for each rank."""

    __slots__ = ("_held", "_last", "_made", "_rank")

    def __init__(self) -> None:
        self._held: dict[Rank, set[Hashable]] = {}
        self._made: dict[Rank, set[Hashable]] = {}
        self._last: dict[Rank, Any] = {}
        self._rank: Rank | None = None

    def take(self, rank: Rank, keys: Sequence[Any], *, skips_locked: bool = False) -> None:
        """Note locks about to be taken. ``skips_locked`` keys may come unsorted: they
        never wait.
        """
        held = self._held.setdefault(rank, set())
        fresh = [key for key in keys if key not in held]
        if not fresh:
            return
        invariant(
            self._rank is None or rank >= self._rank,
            "locks are taken in rank order",
            rank=rank.name,
            after=self._rank.name if self._rank is not None else None,
        )
        if not skips_locked:
            invariant(fresh == sorted(fresh), "keys of a rank are taken sorted", rank=rank.name)
            last = self._last.get(rank)
            invariant(
                last is None or fresh[0] > last, "keys of a rank are taken upwards", rank=rank.name
            )
            self._last[rank] = fresh[-1]
        self._rank = rank
        held.update(fresh)

    def made(self, rank: Rank, keys: Sequence[Hashable]) -> None:
        """Rows that this transaction inserted are its own."""
        self._made.setdefault(rank, set()).update(keys)

    def holds(self, rank: Rank, key: Hashable) -> bool:
        return key in self._held.get(rank, ()) or key in self._made.get(rank, ())

    def check_write(self, rank: Rank, keys: Sequence[Hashable]) -> None:
        """Refuse a write to a row that this transaction neither locked nor inserted."""
        for key in keys:
            invariant(self.holds(rank, key), "only held rows are written", rank=rank.name, key=key)

    @property
    def rank(self) -> Rank | None:
        return self._rank
