"""What must hold of a task in every state, whoever wrote it (PUL-1, PUL-3, PUL-9, PUL-10)."""

from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.pulse.task import Holds, Phase, Queued, Settled, SettledBy, TaskState
from pulseweave.kernel.check import InvariantViolation
from tests.core.pulse.tasks import (
    CANCELLED,
    FAILED,
    IN_REVIEW,
    KEY,
    LEASED,
    NOW,
    PHASES,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TOKEN,
    task,
)

DELAYED = Queued(due_at=NOW)
NAMELESS = Settled(state=TaskState.FAILED, by=SettledBy.ENGINE, code=None, at=NOW)
FAILED_SUCCESS = Settled(state=TaskState.SUCCEEDED, by=SettledBy.ATTEMPT, code="BAD", at=NOW)


@pytest.mark.parametrize(
    ("phase", "facts", "told"),
    [
        (QUEUED, {"revision": 0}, "revision starts at 1"),
        (QUEUED, {"attempt_count": -1}, "within the budget"),
        (RUNNING, {"attempt_count": 4}, "within the budget"),
        (QUEUED, {"tainted": True}, "only a started task"),
        (QUEUED, {"holds_key": True}, "concurrency key exactly"),
        (QUEUED, {"holds_key": True, "key": KEY}, "concurrency key exactly"),
        (QUEUED, {"key": KEY, "tainted": True, "attempt_count": 1}, "concurrency key exactly"),
        (LEASED, {"key": KEY}, "concurrency key exactly"),
        (RUNNING, {"key": KEY, "attempt_count": 1}, "concurrency key exactly"),
        (IN_REVIEW, {"key": KEY, "tainted": True, "attempt_count": 1}, "concurrency key exactly"),
        (SUCCEEDED, {"key": KEY, "holds_key": True}, "concurrency key exactly"),
        (QUEUED, {"holds": Holds.DELAY}, "DELAY"),
        (DELAYED, {"holds": Holds.NONE}, "DELAY"),
        (LEASED, {"holds": Holds.DELAY}, "DELAY"),
        (QUEUED, {"holds": Holds.KEY}, "KEY"),
        (LEASED, {"holds": Holds.KEY, "key": KEY, "holds_key": True}, "KEY"),
        (FAILED, {"holds": Holds.GATE}, "nothing holds"),
        (QUEUED, {"attempt_count": 3}, "attempt left"),
        (LEASED, {"attempt_count": 3}, "attempt left"),
        (QUEUED, {"cancel_requested_at": NOW}, "no cancel request"),
        (LEASED, {"cancel_requested_at": NOW}, "no cancel request"),
        (RUNNING, {"attempt_count": 0}, "was started"),
        (IN_REVIEW, {"tainted": False}, "unknown attempt is in review"),
        (CANCELLED, {"tainted": True, "attempt_count": 1}, "never just cancelled"),
        (NAMELESS, {}, "everything else has one"),
        (FAILED_SUCCESS, {}, "success has no code"),
    ],
)
def test_an_unlawful_task_is_found(phase: Phase, facts: dict[str, Any], told: str) -> None:
    with pytest.raises(InvariantViolation, match=told):
        replace(task(), phase=phase, **facts).check()


@pytest.mark.parametrize(
    ("phase", "facts"),
    [
        *((phase, {}) for phase in PHASES),
        *((phase, {"holds": Holds.GATE}) for phase in (QUEUED, LEASED, RUNNING, IN_REVIEW)),
        (QUEUED, {"key": KEY, "holds": Holds.KEY | Holds.GATE}),
        (DELAYED, {"key": KEY, "holds": Holds.KEY}),
        (RUNNING, {"cancel_requested_at": NOW, "tainted": True, "key": KEY}),
        (SUCCEEDED, {"tainted": True}),
        (FAILED, {"tainted": True, "attempt_count": 3}),
    ],
)
def test_lawful_tasks_pass(phase: Phase, facts: dict[str, Any]) -> None:
    made = task(phase, **facts)
    assert made.check() is made


def test_what_a_phase_tells_of_the_task() -> None:
    made = {task(phase).state: task(phase) for phase in PHASES}
    assert list(made) == [
        TaskState.QUEUED,
        TaskState.LEASED,
        TaskState.RUNNING,
        TaskState.NEEDS_REVIEW,
        TaskState.SUCCEEDED,
        TaskState.FAILED,
        TaskState.CANCELLED,
    ]
    tokens = {state.value: t.token for state, t in made.items() if t.token is not None}
    assert tokens == {"LEASED": TOKEN, "RUNNING": TOKEN}
    assert [t.settled for t in made.values()] == [False] * 4 + [True] * 3


@pytest.mark.rule("PUL-9")
@pytest.mark.parametrize(
    ("phase", "tainted", "needed"),
    [
        (QUEUED, False, False),
        (QUEUED, True, True),
        (LEASED, False, True),
        (RUNNING, False, True),
        (RUNNING, True, True),
        (IN_REVIEW, True, True),
        (SUCCEEDED, False, False),
        (FAILED, True, False),
    ],
)
def test_from_when_to_when_a_key_is_held(phase: Phase, tainted: bool, needed: bool) -> None:
    assert task(phase, tainted=tainted, key=KEY).holds_key == needed
    assert not task(phase, tainted=tainted, key=None).holds_key
