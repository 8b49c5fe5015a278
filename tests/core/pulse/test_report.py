"""What a worker reports, under its lease, before the start, twice, or too late."""

from dataclasses import replace
from itertools import product

import pytest

from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.report import Report, ReportedAttempt, report
from pulseweave.core.pulse.task import (
    EventKind,
    Holds,
    Outcome,
    Phase,
    Queued,
    Running,
    Settled,
    SettledBy,
    Task,
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
    OTHER,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    TOKEN,
    cancelled,
    closed_attempt,
    failed,
    of,
    succeeded,
    task,
    unknown,
)


def tell(
    before: Task,
    told: Report,
    attempt: ReportedAttempt | None = None,
    *,
    token: str = TOKEN,
    kept_id: str | None = None,
) -> Answer:
    return report(
        before,
        attempt,
        told,
        token=token,
        now=NOW,
        chance=CHANCE,
        late_id="late-1",
        kept_id=kept_id,
    )


def code_of(answer: Answer) -> str | None:
    return answer.rejected.code if answer.rejected is not None else None


# --- what is told of a running attempt ------------------------------------------------------------

AT_MOST_ONCE, IDEMPOTENT, NONE = Effect.AT_MOST_ONCE, Effect.IDEMPOTENT, Effect.NONE
RETRY, FINAL = failed(), failed(retryable=False)

#: effect, tainted, cancel asked, attempts left, what is told, where it leads, the attempt's outcome
RUNNING_TABLE = [
    (AT_MOST_ONCE, False, False, 2, succeeded(), "SUCCEEDED", "SUCCEEDED"),
    (AT_MOST_ONCE, False, True, 0, succeeded(), "SUCCEEDED", "SUCCEEDED"),
    (IDEMPOTENT, True, True, 0, succeeded(), "SUCCEEDED", "SUCCEEDED"),
    (AT_MOST_ONCE, False, False, 2, RETRY, "QUEUED", "FAILED"),
    (IDEMPOTENT, True, False, 1, RETRY, "QUEUED", "FAILED"),
    (AT_MOST_ONCE, False, False, 0, RETRY, "FAILED", "FAILED"),
    (AT_MOST_ONCE, False, True, 2, RETRY, "FAILED", "FAILED"),
    (IDEMPOTENT, True, False, 0, RETRY, "NEEDS_REVIEW", "FAILED"),
    (IDEMPOTENT, True, True, 2, RETRY, "NEEDS_REVIEW", "FAILED"),
    (AT_MOST_ONCE, False, False, 2, FINAL, "FAILED", "FAILED"),
    (IDEMPOTENT, True, False, 2, FINAL, "FAILED", "FAILED"),
    (AT_MOST_ONCE, False, False, 2, unknown(), "NEEDS_REVIEW", "UNKNOWN"),
    (IDEMPOTENT, False, False, 2, unknown(), "QUEUED", "UNKNOWN"),
    (IDEMPOTENT, False, False, 0, unknown(), "NEEDS_REVIEW", "UNKNOWN"),
    (IDEMPOTENT, False, True, 2, unknown(), "NEEDS_REVIEW", "UNKNOWN"),
    (NONE, False, False, 2, unknown(), "QUEUED", "FAILED"),
    (NONE, False, False, 0, unknown(), "FAILED", "FAILED"),
    (NONE, False, True, 2, unknown(), "FAILED", "FAILED"),
    (AT_MOST_ONCE, False, True, 2, cancelled(), "CANCELLED", "CANCELLED"),
    (IDEMPOTENT, True, True, 2, cancelled(), "NEEDS_REVIEW", "CANCELLED"),
]


@pytest.mark.rule("PUL-3", "PUL-4", "PUL-5", "PUL-8")
@pytest.mark.parametrize(
    ("effect", "tainted", "asked", "left", "told", "state", "outcome"), RUNNING_TABLE
)
def test_where_a_report_leads(
    effect: Effect,
    tainted: bool,
    asked: bool,
    left: int,
    told: Report,
    state: str,
    outcome: str,
) -> None:
    before = task(
        RUNNING,
        effect=effect,
        tainted=tainted,
        cancel_requested_at=NOW - SECOND if asked else None,
        attempt_count=2,
        max_attempts=2 + left,
        holds=Holds.GATE,
    )
    answer = tell(before, told)
    change = of(answer.change)
    assert (answer.rejected, answer.state, change.after.state.value) == (None, state, state)
    assert change.closed is not None
    assert (change.closed.outcome.value, change.closed.number) == (outcome, 2)
    assert (change.closed.closed_by, change.closed.report_digest) == ("REPORT", told.digest)
    assert change.after.tainted == (tainted or outcome == "UNKNOWN")
    assert change.after.attempt_count == 2
    if state == "QUEUED":
        assert change.after.phase == Queued(due_at=NOW + 2 * SECOND), "1 s · 2, after two failures"
        assert change.after.holds == Holds.GATE | Holds.DELAY
        assert change.event is None
    else:
        assert change.event is not None
        assert (change.event.kind.value, change.event.attempt) == (state, 2)
        assert change.event.code == told.code


@pytest.mark.rule("PUL-4")
def test_what_is_told_is_kept_with_the_attempt() -> None:
    closed = of(tell(task(RUNNING), succeeded("[1]")).change).closed
    assert closed is not None
    assert (closed.result, closed.result_digest, closed.ended_at) == ("[1]", "digest:[1]", NOW)
    closed = of(tell(task(RUNNING), RETRY).change).closed
    assert closed is not None
    assert (closed.code, closed.error) == (RETRY.code, RETRY.error)


@pytest.mark.rule("PUL-5", "PUL-7")
@pytest.mark.parametrize("instant", ["deadline_at", "start_by"])
@pytest.mark.parametrize(("left_us", "state"), [(1, "FAILED"), (0, "FAILED"), (-1, "QUEUED")])
def test_no_attempt_is_planned_at_or_past_a_fixed_instant(
    instant: str, left_us: int, state: str
) -> None:
    due_at = NOW + SECOND
    before = task(RUNNING, **{instant: due_at - left_us})
    assert tell(before, RETRY).state == state


@pytest.mark.rule("PUL-7")
def test_a_report_is_a_fact_even_after_the_deadline_and_the_leases_instant() -> None:
    lapsed = Running(TOKEN, expires_at=NOW - SECOND, stop_at=NOW - SECOND)
    before = task(lapsed, deadline_at=NOW - SECOND)
    assert tell(before, succeeded()).state == "SUCCEEDED"


@pytest.mark.rule("PUL-4")
def test_cancelled_needs_somebody_to_have_asked() -> None:
    answer = tell(task(Running(TOKEN, NOW + SECOND, stop_at=NOW + 1)), cancelled())
    assert (code_of(answer), answer.change) == ("REPORT_CONFLICT", None)


@pytest.mark.rule("PUL-5", "PUL-7")
@pytest.mark.parametrize(
    ("deadline_at", "left", "tainted", "state", "code"),
    [
        (None, 1, False, "QUEUED", "ATTEMPT_TIMEOUT"),
        (None, 0, False, "FAILED", "ATTEMPT_TIMEOUT"),
        (None, 0, True, "NEEDS_REVIEW", "ATTEMPT_TIMEOUT"),
        (NOW, 1, False, "FAILED", "DEADLINE_EXCEEDED"),
        (NOW, 1, True, "NEEDS_REVIEW", "DEADLINE_EXCEEDED"),
        (NOW + 9 * SECOND, 1, False, "QUEUED", "ATTEMPT_TIMEOUT"),
    ],
)
def test_an_attempt_that_stopped_at_its_time_is_a_used_one_that_failed(
    deadline_at: int | None, left: int, tainted: bool, state: str, code: str
) -> None:
    stopped = Running(TOKEN, NOW + SECOND, stop_at=NOW)
    before = task(
        stopped,
        deadline_at=deadline_at,
        max_attempts=1 + left,
        tainted=tainted,
        effect=IDEMPOTENT,
    )
    answer = tell(before, cancelled())
    closed = of(answer.change).closed
    assert closed is not None
    assert (answer.state, closed.outcome, closed.code) == (state, Outcome.FAILED, code)
    assert closed.error is not None
    assert "stopped at" in canonical.parse(closed.error)["message"]


# --- what is told before the start ----------------------------------------------------------------


@pytest.mark.rule("PUL-4")
@pytest.mark.parametrize("told", [succeeded(), unknown(), cancelled()])
def test_only_a_failure_is_known_before_the_start(told: Report) -> None:
    answer = tell(task(LEASED), told)
    assert (code_of(answer), answer.change) == ("NOT_STARTED", None)


@pytest.mark.rule("PUL-4", "PUL-2")
def test_a_retryable_failure_before_the_start_used_no_attempt() -> None:
    answer = tell(task(LEASED, unstarted_losses=1, key=KEY), RETRY)
    change = of(answer.change)
    assert change.after.phase == Queued(due_at=NOW + 2 * SECOND)
    assert (change.after.attempt_count, change.after.unstarted_losses) == (0, 2)
    assert (answer.state, change.closed, change.event) == ("QUEUED", None, None)
    assert not change.after.holds_key


@pytest.mark.rule("PUL-4")
@pytest.mark.parametrize("tainted", [False, True])
def test_a_final_failure_before_the_start_settles(tainted: bool) -> None:
    answer = tell(task(LEASED, tainted=tainted, effect=IDEMPOTENT), FINAL)
    change = of(answer.change)
    settled = Settled(state=TaskState.FAILED, by=SettledBy.ENGINE, code="BUSY", at=NOW)
    assert (answer.state, change.after.phase, change.closed) == ("FAILED", settled, None)
    assert change.event is not None
    assert (change.event.kind, change.event.attempt) == (EventKind.FAILED, None)
    assert change.event.code == "BUSY"


# --- twice, and too late --------------------------------------------------------------------------

#: The task has moved on; which attempt carries the token and how it ended; what is told now.
#: First the same report again, then another of a closed attempt, then one of a lost lease.
STALE_TABLE: list[tuple[Phase, ReportedAttempt | None, Report, str | None, bool, bool]] = [
    # phase, attempt, told, refused with, repeated, kept as evidence
    (
        SUCCEEDED,
        closed_attempt(1, succeeded(), TaskState.SUCCEEDED),
        succeeded(),
        None,
        True,
        False,
    ),
    (QUEUED, closed_attempt(1, RETRY, TaskState.QUEUED), RETRY, None, True, False),
    (SUCCEEDED, closed_attempt(1, RETRY, TaskState.QUEUED), RETRY, None, True, False),
    (
        SUCCEEDED,
        closed_attempt(1, succeeded(), TaskState.SUCCEEDED),
        RETRY,
        "REPORT_CONFLICT",
        False,
        True,
    ),
    (
        IN_REVIEW,
        closed_attempt(1, unknown(), TaskState.NEEDS_REVIEW),
        succeeded(),
        "REPORT_CONFLICT",
        False,
        True,
    ),
    (
        IN_REVIEW,
        closed_attempt(1, None, TaskState.NEEDS_REVIEW),
        succeeded(),
        "LEASE_LOST",
        False,
        True,
    ),
    (QUEUED, closed_attempt(1, None, TaskState.QUEUED), unknown(), "LEASE_LOST", False, True),
    (RUNNING, closed_attempt(1, None, TaskState.QUEUED), RETRY, "LEASE_LOST", False, True),
    (LEASED, closed_attempt(1, None, TaskState.QUEUED), cancelled(), "LEASE_LOST", False, True),
    (FAILED, closed_attempt(1, None, TaskState.QUEUED), succeeded(), "LEASE_LOST", False, True),
    (CANCELLED, None, succeeded(), "LEASE_LOST", False, True),
    (QUEUED, None, unknown(), "LEASE_LOST", False, True),
    (QUEUED, None, RETRY, "LEASE_LOST", False, False),
    (SUCCEEDED, None, FINAL, "LEASE_LOST", False, False),
    (SUCCEEDED, None, cancelled(), "LEASE_LOST", False, False),
]


@pytest.mark.rule("PUL-6", "PUL-17")
@pytest.mark.parametrize(("phase", "attempt", "told", "refused", "repeated", "kept"), STALE_TABLE)
def test_a_report_under_another_token_moves_nothing(
    phase: Phase,
    attempt: ReportedAttempt | None,
    told: Report,
    refused: str | None,
    repeated: bool,
    kept: bool,
) -> None:
    before = task(phase)
    answer = tell(before, told, attempt, token=OTHER)
    assert (code_of(answer), answer.repeated) == (refused, repeated)
    assert answer.late_report_id == ("late-1" if kept else None)
    if repeated:
        assert attempt is not None
        assert attempt.task_state is not None
        assert answer.state == attempt.task_state.value, "what it was answered the first time"
    if not kept:
        assert answer.change is None
        return
    change = of(answer.change)
    assert change.late is not None
    assert (change.late.id, change.late.outcome) == ("late-1", told.outcome)
    assert change.late.attempt == (attempt.number if attempt is not None else None)
    assert (change.late.result, change.late.result_digest) == (told.result, told.result_digest)
    assert (change.late.code, change.late.error) == (told.code, told.error)
    assert (change.late.report_digest, change.late.received_at) == (told.digest, NOW)
    assert change.closed is None, "nothing reported is ever rewritten"
    if before.settled:
        assert change.after == before
        assert change.event is not None
        assert (change.event.kind, change.event.late_report_id) == (EventKind.LATE, "late-1")
        assert (change.event.code, change.event.attempt) == (told.code, change.late.attempt)
        assert change.event.task_revision == before.revision
    else:
        assert change.after == replace(before, revision=before.revision + 1)
        assert change.event is None


@pytest.mark.rule("PUL-6")
@pytest.mark.parametrize(
    ("phase", "by_report", "refused"),
    [
        (IN_REVIEW, False, "LEASE_LOST"),
        (SUCCEEDED, False, "LEASE_LOST"),
        (SUCCEEDED, True, "REPORT_CONFLICT"),
    ],
)
def test_a_kept_report_told_again_is_kept_once(phase: Phase, by_report: bool, refused: str) -> None:
    attempt = closed_attempt(1, RETRY if by_report else None, TaskState.QUEUED)
    answer = tell(task(phase), succeeded(), attempt, token=OTHER, kept_id="late-0")
    assert (code_of(answer), answer.change, answer.repeated) == (refused, None, True)
    assert answer.late_report_id == "late-0"
    assert answer.rejected is not None
    assert answer.rejected.detail["late_report_id"] == "late-0"


@pytest.mark.rule("PUL-6")
def test_no_token_but_the_rows_own_is_ever_listened_to() -> None:
    tolds = (succeeded(), RETRY, FINAL, unknown(), cancelled())
    phases: tuple[Phase, ...] = (QUEUED, LEASED, RUNNING, IN_REVIEW, SUCCEEDED)
    for phase, told in product(phases, tolds):
        before = task(phase, **({"cancel_requested_at": NOW} if phase == RUNNING else {}))
        answer = tell(before, told, token=OTHER)
        assert code_of(answer) == "LEASE_LOST"
        assert answer.change is None or answer.change.after.phase == before.phase


def test_an_old_attempt_without_a_kept_state_still_gets_its_answer() -> None:
    attempt = ReportedAttempt(number=1, report_digest=RETRY.digest, outcome=Outcome.FAILED)
    answer = tell(task(QUEUED, attempt_count=1), RETRY, attempt, token=OTHER)
    assert (answer.rejected, answer.repeated, answer.state) == (None, True, None)
