"""The lock order is watched: what the guard refuses, and what it lets pass."""

import pytest

from pulseweave.kernel.check import InvariantViolation
from pulseweave.store.guard import Guard, Rank


@pytest.mark.rule("REC-6")
def test_ranks_are_taken_upwards() -> None:
    guard = Guard()
    guard.take(Rank.QUEUE, [("ns", "a")])
    guard.take(Rank.INSTANCE, ["1"])
    with pytest.raises(InvariantViolation, match="rank order"):
        guard.take(Rank.STRIPE, [3])


@pytest.mark.rule("REC-6")
def test_keys_of_a_rank_are_sorted_and_upwards() -> None:
    guard = Guard()
    with pytest.raises(InvariantViolation, match="sorted"):
        guard.take(Rank.TASK, ["b", "a"])
    guard.take(Rank.TASK, ["b"])
    guard.take(Rank.TASK, ["b", "c"])  # what is held may be named again
    with pytest.raises(InvariantViolation, match="upwards"):
        guard.take(Rank.TASK, ["a"])


def test_skipping_locked_rows_excuses_the_order_of_keys_but_no_rank() -> None:
    guard = Guard()
    guard.take(Rank.TASK, ["b"])
    guard.take(Rank.TASK, ["a"], skips_locked=True)
    guard.take(Rank.PARTITION, [1])
    with pytest.raises(InvariantViolation, match="rank order"):
        guard.take(Rank.TASK, ["c"], skips_locked=True)


@pytest.mark.rule("PUL-11")
def test_after_the_result_partitions_nothing_is_locked() -> None:
    guard = Guard()
    guard.take(Rank.PARTITION, [1, 2])
    for rank in Rank:
        if rank is not Rank.PARTITION:
            with pytest.raises(InvariantViolation):
                guard.take(rank, [9])


def test_only_rows_that_are_held_or_made_are_written() -> None:
    guard = Guard()
    guard.take(Rank.TASK, ["held"])
    guard.made(Rank.TASK, ["made"])
    guard.check_write(Rank.TASK, ["held", "made"])
    with pytest.raises(InvariantViolation, match="only held rows"):
        guard.check_write(Rank.TASK, ["other"])
    with pytest.raises(InvariantViolation, match="only held rows"):
        guard.check_write(Rank.GATE, ["held"])
