"""Reports: what a worker says became of an execution (PUL-4, PUL-6, PUL-17).

Fenced by the lease token alone: while the token stands on the row nobody else can be authorised, so
the report is the fact. A report under another token is kept as a late report and moves nothing; on
an unsettled task it adds 1 to the revision, so that a review decided without it conflicts; on a
settled one it appends a LATE event.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.change import AttemptClosed, LateReport, TaskChange
from pulseweave.core.pulse.error_text import failure_text
from pulseweave.core.pulse.lease import asked_to_cancel, lose_unstarted
from pulseweave.core.pulse.move import event_of, move, result_event
from pulseweave.core.pulse.outcome import Chance, fail_final, fail_retryable, lose_outcome
from pulseweave.core.pulse.task import (
    EventKind,
    InReview,
    Leased,
    Outcome,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskEvent,
    TaskState,
)
from pulseweave.kernel.errors import Rejected, reject


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report as decoded. Texts are canonical JSON: nothing that a handler says can make a row
    unwritable.

    ``digest`` covers outcome and content. ``retryable`` counts for FAILED alone.
    """

    outcome: Outcome
    digest: str
    code: str | None = None
    error: str | None = None
    result: str | None = None
    result_digest: str | None = None
    retryable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedAttempt:
    """The attempt row that carries the report's token, if there is one.

    ``task_state``: where its end led, which is what its report was answered.
    """

    number: int
    report_digest: str | None
    outcome: Outcome | None
    task_state: TaskState | None = None


def report(
    task: Task,
    attempt: ReportedAttempt | None,
    told: Report,
    *,
    token: str,
    now: int,
    chance: Chance,
    late_id: str,
    kept_id: str | None = None,
) -> Answer:
    """Decide one report. Order of refusals: REPORT_CONFLICT or LEASE_LOST (as evidence),
    NOT_STARTED.

    ``kept_id``: the late report that this very report left behind when it came before.
    """
    match task.phase:
        case Running(token=held) if held == token:
            return _running(task, told, now=now, chance=chance)
        case Leased(token=held) if held == token:
            return _unstarted(task, told, now=now)
        case _:
            return _stale(task, attempt, told, now=now, late_id=late_id, kept_id=kept_id)


def _running(task: Task, told: Report, *, now: int, chance: Chance) -> Answer:
    closed = AttemptClosed(
        task_id=task.id,
        number=task.attempt_count,
        outcome=told.outcome,
        ended_at=now,
        closed_by="REPORT",
        code=told.code,
        error=told.error,
        result=told.result,
        result_digest=told.result_digest,
        report_digest=told.digest,
    )
    match told.outcome:
        case Outcome.SUCCEEDED:
            settled = Settled(state=TaskState.SUCCEEDED, by=SettledBy.ATTEMPT, code=None, at=now)
            after = move(task, TaskEvent.SUCCEED, settled)
            event = event_of(after, now, code=None, attempt=closed.number)
            return _moved(TaskChange(before=task, after=after, closed=closed, event=event))
        case Outcome.FAILED if told.retryable:
            return _moved(fail_retryable(task, closed, chance, now=now))
        case Outcome.FAILED:
            return _moved(fail_final(task, closed, now=now))
        case Outcome.UNKNOWN:
            return _moved(lose_outcome(task, closed, chance, now=now))
        case Outcome.CANCELLED:
            return _cancelled(task, closed, now=now, chance=chance)
        case _:
            assert_never(told.outcome)


def _moved(change: TaskChange) -> Answer:
    return Answer(change=change, state=change.after.state.value)


def _cancelled(task: Task, closed: AttemptClosed, *, now: int, chance: Chance) -> Answer:
    """Nothing took effect and nothing runs. Only where cancel was asked; by a timeout it is a
    failed attempt.
    """
    if not asked_to_cancel(task, now):
        return Answer(
            rejected=reject(
                "REPORT_CONFLICT", "CANCELLED is for tasks that were asked to cancel", rule="PUL-4"
            )
        )
    if task.cancel_requested_at is None:
        code, told = "ATTEMPT_TIMEOUT", "the attempt was stopped at its timeout"
        if task.deadline_at is not None and now >= task.deadline_at:
            code, told = "DEADLINE_EXCEEDED", "the attempt was stopped at the task's deadline"
        failed = replace(closed, outcome=Outcome.FAILED, code=code, error=failure_text(told))
        return _moved(fail_retryable(task, failed, chance, now=now))
    if task.tainted:
        after = move(task, TaskEvent.CONFIRM_CANCELLED, InReview())
    else:
        settled = Settled(state=TaskState.CANCELLED, by=SettledBy.ATTEMPT, code="CANCELLED", at=now)
        after = move(task, TaskEvent.CONFIRM_CANCELLED, settled)
    event = event_of(after, now, code="CANCELLED", attempt=closed.number)
    return _moved(TaskChange(before=task, after=after, closed=closed, event=event))


def _unstarted(task: Task, told: Report, *, now: int) -> Answer:
    """Before the start only a known failure can be told (``start="manual"``): it used no attempt
    (PUL-4).
    """
    if told.outcome is not Outcome.FAILED:
        return Answer(rejected=reject("NOT_STARTED", "the task was not started", rule="PUL-4"))
    if told.retryable:
        return _moved(lose_unstarted(task, now=now))
    settled = Settled(state=TaskState.FAILED, by=SettledBy.ENGINE, code=told.code, at=now)
    after = move(task, TaskEvent.FAIL_FINAL, settled)
    event = event_of(after, now, code=told.code)
    return _moved(TaskChange(before=task, after=after, event=event))


def _stale(
    task: Task,
    attempt: ReportedAttempt | None,
    told: Report,
    *,
    now: int,
    late_id: str,
    kept_id: str | None,
) -> Answer:
    if attempt is not None and attempt.report_digest == told.digest:
        return Answer(state=_told_state(attempt), repeated=True)
    conflict = attempt is not None and attempt.report_digest is not None
    if kept_id is not None:
        return Answer(
            rejected=_refused(kept_id, conflict=conflict), late_report_id=kept_id, repeated=True
        )
    if attempt is None and told.outcome in (Outcome.FAILED, Outcome.CANCELLED):
        # Nothing was authorised under this token and nothing is said to have happened.
        return Answer(
            rejected=reject("LEASE_LOST", "the lease is not yours any more", rule="PUL-6")
        )
    late = LateReport(
        id=late_id,
        namespace=task.namespace,
        task_id=task.id,
        attempt=attempt.number if attempt is not None else None,
        report_digest=told.digest,
        outcome=told.outcome,
        code=told.code,
        error=told.error,
        result=told.result,
        result_digest=told.result_digest,
        received_at=now,
    )
    rejected = _refused(late_id, conflict=conflict)
    if task.settled:
        event = result_event(
            task, EventKind.LATE, now, code=told.code, attempt=late.attempt, late_report_id=late_id
        )
        change = TaskChange(before=task, after=task, late=late, event=event)
    else:
        after = replace(task, revision=task.revision + 1)
        change = TaskChange(before=task, after=after, late=late)
    return Answer(change=change, rejected=rejected, late_report_id=late_id)


def _refused(late_id: str, *, conflict: bool) -> Rejected:
    code = "REPORT_CONFLICT" if conflict else "LEASE_LOST"
    message = (
        "another report of this attempt was accepted"
        if conflict
        else "the lease was lost before this report"
    )
    return reject(code, f"{message}; it is kept as evidence", rule="PUL-6", late_report_id=late_id)


def _told_state(attempt: ReportedAttempt) -> str | None:
    return attempt.task_state.value if attempt.task_state is not None else None
