"""A person's verdict, and a lease that a person declares lost."""

import pytest

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.review import declare_lost, verdict
from pulseweave.core.pulse.task import Outcome, Phase, Queued, Settled, SettledBy, TaskState
from pulseweave.kernel import canonical
from pulseweave.kernel.check import InvariantViolation
from pulseweave.kernel.errors import Conflict, Rejected
from tests.core.pulse.tasks import (
    CANCELLED,
    CHANCE,
    FAILED,
    IN_REVIEW,
    KEY,
    LEASED,
    NOW,
    PHASES,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    task,
)


@pytest.mark.rule("PUL-1", "PUL-9")
@pytest.mark.parametrize(
    ("succeeded", "state", "code"),
    [(True, TaskState.SUCCEEDED, None), (False, TaskState.FAILED, "VERIFIED_FAILED")],
)
def test_a_verdict_settles_for_ever_whatever_budget_is_left(
    succeeded: bool, state: TaskState, code: str | None
) -> None:
    before = task(IN_REVIEW, key=KEY, max_attempts=9, effect=Effect.IDEMPOTENT)
    change = verdict(before, succeeded=succeeded, now=NOW, audit_id="audit-1")
    assert change.after.phase == Settled(state=state, by=SettledBy.VERDICT, code=code, at=NOW)
    assert not change.after.holds_key
    assert (change.closed, change.unknown_settled_by) == (None, "audit-1")
    assert change.event is not None
    assert (change.event.kind.value, change.event.code) == (state.value, code)
    assert change.event.task_revision == before.revision + 1


@pytest.mark.rule("PUL-1")
@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != IN_REVIEW])
def test_only_what_is_in_review_gets_a_verdict(phase: Phase) -> None:
    with pytest.raises(InvariantViolation, match="in review"):
        verdict(task(phase), succeeded=True, now=NOW, audit_id="audit-1")


def _declare(
    phase: Phase, *, expected: int = 7, effect: Effect = Effect.AT_MOST_ONCE
) -> TaskChange | Rejected:
    return declare_lost(
        task(phase, effect=effect), expected_revision=expected, now=NOW, chance=CHANCE
    )


@pytest.mark.rule("REC-17", "PUL-3")
@pytest.mark.parametrize(
    ("effect", "state", "outcome"),
    [
        (Effect.AT_MOST_ONCE, TaskState.NEEDS_REVIEW, Outcome.UNKNOWN),
        (Effect.IDEMPOTENT, TaskState.QUEUED, Outcome.UNKNOWN),
        (Effect.NONE, TaskState.QUEUED, Outcome.FAILED),
    ],
)
def test_a_lease_declared_lost_is_as_a_lost_one(
    effect: Effect, state: TaskState, outcome: Outcome
) -> None:
    change = _declare(RUNNING, effect=effect)
    assert isinstance(change, TaskChange)
    assert change.after.state is state
    closed = change.closed
    assert closed is not None
    assert (closed.outcome, closed.closed_by, closed.ended_at) == (outcome, "DECLARED_LOST", NOW)
    assert closed.error is not None
    assert "operator" in canonical.parse(closed.error)["message"]
    assert change.after.tainted == (outcome is Outcome.UNKNOWN)
    if state is TaskState.QUEUED:
        assert change.after.phase == Queued(due_at=NOW + SECOND)


@pytest.mark.rule("REC-17")
@pytest.mark.parametrize("phase", PHASES)
def test_a_declaration_of_an_older_revision_conflicts_first(phase: Phase) -> None:
    for expected in (6, 8):
        refusal = _declare(phase, expected=expected)
        assert isinstance(refusal, Conflict)
        assert refusal.code == "TASK_REVISION_CONFLICT"
        assert refusal.detail == {"current_task_revision": "7"}


@pytest.mark.rule("REC-17")
@pytest.mark.parametrize("phase", [QUEUED, LEASED, IN_REVIEW, SUCCEEDED, FAILED, CANCELLED])
def test_only_what_runs_can_be_declared_lost(phase: Phase) -> None:
    refusal = _declare(phase)
    assert isinstance(refusal, Rejected)
    assert (refusal.code, refusal.rule) == ("NOT_STARTED", "REC-17")
