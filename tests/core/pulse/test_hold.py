"""Bits that keep a queued task out of the claim index."""

from typing import Any

import pytest

from pulseweave.core.pulse.hold import end_delay, promote, set_gate, wait_for_key
from pulseweave.core.pulse.task import Holds, Phase, Queued
from pulseweave.kernel.check import InvariantViolation
from tests.core.pulse.tasks import (
    IN_REVIEW,
    KEY,
    LEASED,
    NOW,
    PHASES,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    of,
    task,
)

GATE, WAITS, DELAY, FREE = Holds.GATE, Holds.KEY, Holds.DELAY, Holds.NONE


@pytest.mark.rule("PUL-10")
@pytest.mark.parametrize("phase", [QUEUED, Queued(due_at=NOW), LEASED, RUNNING, IN_REVIEW])
def test_the_gate_is_a_bit_of_every_unsettled_task(phase: Phase) -> None:
    before = task(phase)
    closed = of(set_gate(before, closed=True)).after
    assert closed.holds == before.holds | GATE
    assert closed.check().revision == before.revision, "a bit is no event"
    assert set_gate(closed, closed=True) is None
    assert of(set_gate(closed, closed=False)).after == before
    assert set_gate(before, closed=False) is None


def test_a_settled_task_has_no_gate() -> None:
    with pytest.raises(InvariantViolation, match="unsettled"):
        set_gate(task(SUCCEEDED), closed=True)


@pytest.mark.rule("PUL-10")
def test_a_task_waits_for_its_key_until_it_is_promoted() -> None:
    before = task(Queued(due_at=NOW), key=KEY, holds=GATE)
    waiting = wait_for_key(before).after.check()
    assert waiting.holds == GATE | WAITS | DELAY
    assert waiting.revision == before.revision
    assert of(promote(waiting)).after == before
    assert promote(before) is None


@pytest.mark.parametrize(
    ("phase", "facts"),
    [
        (QUEUED, {}),
        (QUEUED, {"key": KEY, "tainted": True}),
        (LEASED, {"key": KEY}),
        (RUNNING, {"key": KEY}),
        (SUCCEEDED, {"key": KEY}),
    ],
)
def test_only_a_queued_task_without_its_key_waits_for_it(
    phase: Phase, facts: dict[str, Any]
) -> None:
    with pytest.raises(InvariantViolation):
        wait_for_key(task(phase, **facts))


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != QUEUED])
def test_only_a_waiting_task_is_promoted(phase: Phase) -> None:
    assert promote(task(phase, key=KEY)) is None


@pytest.mark.rule("PUL-10")
@pytest.mark.parametrize(
    ("phase", "holds", "left"),
    [
        (Queued(due_at=NOW), FREE, FREE),
        (Queued(due_at=NOW - 1), GATE | WAITS, GATE | WAITS),
        (Queued(due_at=NOW + 1), FREE, None),
        (QUEUED, GATE, None),
        (LEASED, FREE, None),
        (SUCCEEDED, FREE, None),
    ],
)
def test_a_delay_ends_at_its_instant(phase: Phase, holds: Holds, left: Holds | None) -> None:
    before = task(phase, key=KEY, holds=holds)
    change = end_delay(before, now=NOW)
    if left is None:
        assert change is None
    else:
        assert (of(change).after.phase, of(change).after.holds) == (QUEUED, left)
        assert of(change).after.check().revision == before.revision
