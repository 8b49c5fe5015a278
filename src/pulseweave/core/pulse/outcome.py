"""What follows an attempt that did not succeed: another one, a failure, or a person (PUL-3, PUL-5).

What may never happen: an attempt beyond the budget or the deadline; an unknown outcome taken for a
failure of a task that may have had an effect; a tainted task settled by anything but success, a
failure declared final, or a verdict.
"""

from dataclasses import dataclass

from pulseweave.core.pulse.change import AttemptClosed, TaskChange
from pulseweave.core.pulse.move import event_of, move
from pulseweave.core.pulse.policy import Backoff, Effect, delay_ms
from pulseweave.core.pulse.task import (
    InReview,
    Outcome,
    Queued,
    Settled,
    SettledBy,
    Task,
    TaskEvent,
    TaskState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """What a decision about the next attempt needs besides the task: the fixed backoff,
    and jitter.
    """

    backoff: Backoff
    uniform: float


def fail_retryable(task: Task, closed: AttemptClosed, chance: Chance, *, now: int) -> TaskChange:
    """Another attempt while budget, deadline and nobody's cancel allow; else the failure stands."""
    due_at = _next_due(task, chance, now)
    if due_at is not None:
        after = move(task, TaskEvent.FAIL_RETRYABLE, Queued(due_at=due_at))
        return TaskChange(before=task, after=after, closed=closed)
    if task.tainted:
        after = move(task, TaskEvent.FAIL_RETRYABLE, InReview())
    else:
        after = move(task, TaskEvent.FAIL_RETRYABLE, _failed(closed, now))
    event = event_of(after, now, code=closed.code, attempt=closed.number)
    return TaskChange(before=task, after=after, closed=closed, event=event)


def fail_final(task: Task, closed: AttemptClosed, *, now: int) -> TaskChange:
    """A failure that its reporter declares final settles even a tainted task."""
    after = move(task, TaskEvent.FAIL_FINAL, _failed(closed, now))
    event = event_of(after, now, code=closed.code, attempt=closed.number)
    return TaskChange(before=task, after=after, closed=closed, event=event)


def lose_outcome(task: Task, closed: AttemptClosed, chance: Chance, *, now: int) -> TaskChange:
    """The outcome can't be known: the step's fixed ``effect`` says what may follow (PUL-3).

    ``closed`` tells how it was lost; for a task declared without effect it becomes a used attempt
    that failed.
    """
    if task.effect is Effect.NONE:
        failed = AttemptClosed(
            task_id=closed.task_id,
            number=closed.number,
            outcome=Outcome.FAILED,
            ended_at=closed.ended_at,
            closed_by=closed.closed_by,
            code=closed.code,
            error=closed.error,
            report_digest=closed.report_digest,
        )
        return fail_retryable(task, failed, chance, now=now)
    due_at = _next_due(task, chance, now) if task.effect is Effect.IDEMPOTENT else None
    if due_at is not None:
        after = move(task, TaskEvent.LOSE_OUTCOME, Queued(due_at=due_at), tainted=True)
        return TaskChange(before=task, after=after, closed=closed)
    after = move(task, TaskEvent.LOSE_OUTCOME, InReview(), tainted=True)
    event = event_of(after, now, code=closed.code, attempt=closed.number)
    return TaskChange(before=task, after=after, closed=closed, event=event)


def _next_due(task: Task, chance: Chance, now: int) -> int | None:
    """When the next attempt may start, or None when there must not be one."""
    if task.attempts_left <= 0 or task.cancel_requested_at is not None:
        return None
    wait_ms = delay_ms(chance.backoff, failures=max(1, task.attempt_count), uniform=chance.uniform)
    due_at = now + wait_ms * 1000
    for instant in (task.deadline_at, task.start_by):
        if instant is not None and due_at >= instant:
            return None
    return due_at


def _failed(closed: AttemptClosed, now: int) -> Settled:
    return Settled(state=TaskState.FAILED, by=SettledBy.ATTEMPT, code=closed.code, at=now)
