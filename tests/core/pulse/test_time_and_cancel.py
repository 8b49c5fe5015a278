"""What cancelling and time alone do to a task: expiry, lapsed leases, ended delays."""

from typing import Any

import pytest

from pulseweave.core.pulse.cancel import cancel
from pulseweave.core.pulse.expire import expire, expired_code
from pulseweave.core.pulse.hold import sweep_at
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.sweep import sweep
from pulseweave.core.pulse.task import (
    Holds,
    Leased,
    Outcome,
    Phase,
    Queued,
    Running,
    Settled,
    SettledBy,
    TaskState,
)
from pulseweave.kernel import canonical
from tests.core.pulse.tasks import (
    CANCELLED,
    CHANCE,
    FAILED,
    IN_REVIEW,
    KEY,
    LEASED,
    NOW,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    TOKEN,
    of,
    task,
)

LAPSED = Leased(TOKEN, expires_at=NOW)
LAPSED_RUN = Running(TOKEN, expires_at=NOW, stop_at=None)

# --- cancel ---------------------------------------------------------------------------------------


@pytest.mark.rule("PUL-8")
@pytest.mark.parametrize("phase", [QUEUED, Queued(due_at=NOW + SECOND), LEASED])
def test_what_was_not_started_is_cancelled_at_once(phase: Phase) -> None:
    change = of(cancel(task(phase, holds=Holds.GATE, key=KEY), now=NOW))
    after = change.after
    assert after.phase == Settled(
        state=TaskState.CANCELLED, by=SettledBy.ENGINE, code="CANCELLED", at=NOW
    )
    assert (after.cancel_requested_at, after.holds, after.holds_key) == (NOW, Holds.NONE, False)
    assert change.event is not None
    assert (change.event.kind.value, change.event.attempt) == ("CANCELLED", None)


@pytest.mark.rule("PUL-3", "PUL-8", "PUL-9")
@pytest.mark.parametrize("phase", [QUEUED, LEASED])
def test_what_may_have_acted_is_not_just_cancelled(phase: Phase) -> None:
    change = of(cancel(task(phase, tainted=True, effect=Effect.IDEMPOTENT, key=KEY), now=NOW))
    assert (change.after.phase, change.after.cancel_requested_at) == (IN_REVIEW, NOW)
    assert change.after.holds_key, "the old execution may still be going"
    assert change.event is not None
    assert (change.event.kind.value, change.event.code) == ("NEEDS_REVIEW", "CANCELLED")


@pytest.mark.rule("PUL-8")
def test_what_runs_is_asked_once() -> None:
    change = of(cancel(task(RUNNING), now=NOW))
    assert (change.after.phase, change.after.cancel_requested_at) == (RUNNING, NOW)
    assert (change.after.revision, change.event) == (change.before.revision + 1, None)
    assert cancel(change.after, now=NOW + SECOND) is None


@pytest.mark.rule("PUL-1")
@pytest.mark.parametrize("phase", [IN_REVIEW, SUCCEEDED, FAILED, CANCELLED])
def test_there_is_nothing_to_cancel_after_the_execution(phase: Phase) -> None:
    assert cancel(task(phase), now=NOW) is None


# --- expiry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline_at", "start_by", "code"),
    [
        (None, None, None),
        (NOW + 1, NOW + 1, None),
        (NOW, None, "DEADLINE_EXCEEDED"),
        (None, NOW, "START_EXPIRED"),
        (NOW, NOW - SECOND, "DEADLINE_EXCEEDED"),
        (NOW + 1, NOW, "START_EXPIRED"),
    ],
)
def test_which_instant_has_passed(
    deadline_at: int | None, start_by: int | None, code: str | None
) -> None:
    made = task(deadline_at=deadline_at, start_by=start_by)
    assert expired_code(made, NOW) == code
    change = expire(made, now=NOW)
    assert (change.event.code if change and change.event else None) == code


@pytest.mark.rule("PUL-7")
@pytest.mark.parametrize(
    ("phase", "facts"),
    [
        (QUEUED, {}),
        (QUEUED, {"holds": Holds.GATE}),
        (QUEUED, {"holds": Holds.KEY | Holds.GATE, "key": KEY}),
        (Queued(due_at=NOW + SECOND), {}),
        (LEASED, {"key": KEY}),
    ],
)
def test_it_expires_unstarted_whatever_holds_it(phase: Phase, facts: dict[str, Any]) -> None:
    after = of(expire(task(phase, deadline_at=NOW, **facts), now=NOW)).after
    assert after.phase == Settled(
        state=TaskState.FAILED, by=SettledBy.ENGINE, code="DEADLINE_EXCEEDED", at=NOW
    )
    assert (after.holds, after.holds_key) == (Holds.NONE, False)


@pytest.mark.rule("PUL-3", "PUL-7")
@pytest.mark.parametrize("instant", ["deadline_at", "start_by"])
def test_what_may_have_acted_does_not_just_expire(instant: str) -> None:
    facts: dict[str, Any] = {instant: NOW, "effect": Effect.IDEMPOTENT, "tainted": True}
    assert of(expire(task(**facts), now=NOW)).after.phase == IN_REVIEW


@pytest.mark.rule("PUL-7")
@pytest.mark.parametrize("phase", [RUNNING, IN_REVIEW, SUCCEEDED])
def test_what_was_started_does_not_expire(phase: Phase) -> None:
    assert expire(task(phase, deadline_at=NOW, start_by=NOW), now=NOW) is None


# --- the sweeper ----------------------------------------------------------------------------------

PAST, SOON = NOW - SECOND, NOW + SECOND

#: phase, instants, when time moves it next, where it leads now (None: nothing is due)
SWEEP_TABLE: list[tuple[Phase, dict[str, int], int | None, str | None]] = [
    (QUEUED, {}, None, None),
    (QUEUED, {"deadline_at": SOON}, SOON, None),
    (QUEUED, {"start_by": PAST, "deadline_at": SOON}, PAST, "FAILED"),
    (Queued(due_at=SOON), {}, SOON, None),
    (Queued(due_at=PAST), {}, PAST, "QUEUED"),
    (Queued(due_at=NOW), {}, NOW, "QUEUED"),
    (Queued(due_at=PAST), {"deadline_at": NOW}, PAST, "FAILED"),
    (LEASED, {}, LEASED.expires_at, None),
    (LEASED, {"deadline_at": SOON}, SOON, None),
    (LEASED, {"deadline_at": NOW}, NOW, "FAILED"),
    (LAPSED, {}, NOW, "QUEUED"),
    (LAPSED, {"start_by": NOW}, NOW, "FAILED"),
    (RUNNING, {"deadline_at": PAST, "start_by": PAST}, RUNNING.expires_at, None),
    (LAPSED_RUN, {}, NOW, "NEEDS_REVIEW"),
    (LAPSED_RUN, {"deadline_at": PAST}, NOW, "NEEDS_REVIEW"),
    (IN_REVIEW, {"deadline_at": PAST}, None, None),
    (SUCCEEDED, {"deadline_at": PAST}, None, None),
    (FAILED, {}, None, None),
    (CANCELLED, {}, None, None),
]


@pytest.mark.rule("PUL-2", "PUL-3", "PUL-7")
@pytest.mark.parametrize(("phase", "instants", "at", "state"), SWEEP_TABLE)
def test_what_time_alone_does(
    phase: Phase, instants: dict[str, int], at: int | None, state: str | None
) -> None:
    before = task(phase, **instants)
    assert sweep_at(before) == at
    change = sweep(before, now=NOW, chance=CHANCE)
    assert (change.after.state.value if change else None) == state
    assert (change is not None) == (at is not None and at <= NOW), "seen due is due, and only then"


def test_a_delay_that_ends_is_no_change_of_the_tasks_revision() -> None:
    before = task(Queued(due_at=NOW), holds=Holds.GATE)
    after = of(sweep(before, now=NOW, chance=CHANCE)).after
    assert (after.phase, after.holds, after.revision) == (QUEUED, Holds.GATE, before.revision)


@pytest.mark.rule("PUL-3")
@pytest.mark.case("B001")
@pytest.mark.parametrize(
    ("effect", "left", "asked", "state", "outcome"),
    [
        (Effect.AT_MOST_ONCE, 2, False, "NEEDS_REVIEW", Outcome.UNKNOWN),
        (Effect.IDEMPOTENT, 2, False, "QUEUED", Outcome.UNKNOWN),
        (Effect.IDEMPOTENT, 0, False, "NEEDS_REVIEW", Outcome.UNKNOWN),
        (Effect.IDEMPOTENT, 2, True, "NEEDS_REVIEW", Outcome.UNKNOWN),
        (Effect.NONE, 2, False, "QUEUED", Outcome.FAILED),
        (Effect.NONE, 0, False, "FAILED", Outcome.FAILED),
        (Effect.NONE, 2, True, "FAILED", Outcome.FAILED),
    ],
)
def test_a_lease_lost_after_the_start_by_effect(
    effect: Effect, left: int, asked: bool, state: str, outcome: Outcome
) -> None:
    before = task(
        LAPSED_RUN,
        effect=effect,
        max_attempts=1 + left,
        cancel_requested_at=PAST if asked else None,
        key=KEY,
    )
    change = of(sweep(before, now=NOW, chance=CHANCE))
    assert change.after.state.value == state
    assert change.after.tainted == (effect is not Effect.NONE)
    assert change.after.holds_key == (effect is not Effect.NONE), "it may still be going"
    closed = change.closed
    assert closed is not None
    assert (closed.outcome, closed.code, closed.closed_by) == (outcome, "LEASE_LOST", "LEASE_LOST")
    assert (closed.report_digest, closed.result) == (None, None)
    assert closed.error is not None
    assert canonical.parse(closed.error)["ended"] is False


@pytest.mark.rule("PUL-3", "PUL-5", "PUL-7")
@pytest.mark.parametrize(("deadline_at", "state"), [(SOON, "NEEDS_REVIEW"), (SOON + 1, "QUEUED")])
def test_an_idempotent_task_is_tried_again_only_before_its_deadline(
    deadline_at: int, state: str
) -> None:
    before = task(LAPSED_RUN, effect=Effect.IDEMPOTENT, deadline_at=deadline_at)
    assert of(sweep(before, now=NOW, chance=CHANCE)).after.state.value == state
