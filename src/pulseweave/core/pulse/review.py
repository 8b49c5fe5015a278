"""A person settles what an execution did, or declares a lease lost (REV-1, PUL-13, REC-17)."""

from pulseweave.core.pulse.change import AttemptClosed, TaskChange
from pulseweave.core.pulse.error_text import unknown_text
from pulseweave.core.pulse.move import event_of, move
from pulseweave.core.pulse.outcome import Chance, lose_outcome
from pulseweave.core.pulse.task import (
    InReview,
    Outcome,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskEvent,
    TaskState,
)
from pulseweave.kernel.check import invariant
from pulseweave.kernel.errors import Rejected, reject


def verdict(task: Task, *, succeeded: bool, now: int, audit_id: str) -> TaskChange:
    """Settle a task in review by verified evidence; final: no retry follows, whatever budget is
    left (REV-1).
    """
    invariant(
        isinstance(task.phase, InReview), "only a task in review gets a verdict", task_id=task.id
    )
    event = TaskEvent.VERDICT_SUCCEEDED if succeeded else TaskEvent.VERDICT_FAILED
    state = TaskState.SUCCEEDED if succeeded else TaskState.FAILED
    code = None if succeeded else "VERIFIED_FAILED"
    after = move(task, event, Settled(state=state, by=SettledBy.VERDICT, code=code, at=now))
    return TaskChange(
        before=task,
        after=after,
        event=event_of(after, now, code=code),
        unknown_settled_by=audit_id,
    )


def declare_lost(
    task: Task, *, expected_revision: int, now: int, chance: Chance
) -> TaskChange | Rejected:
    """Declare the lease of a running task lost before it expires: the outcome becomes UNKNOWN
    (REC-17).
    """
    if task.revision != expected_revision:
        return reject(
            "TASK_REVISION_CONFLICT",
            f"task {task.id} is at revision {task.revision}",
            rule="REC-17",
            current_task_revision=str(task.revision),
        )
    if not isinstance(task.phase, Running):
        return reject("NOT_STARTED", f"task {task.id} is {task.state}: nothing runs", rule="REC-17")
    return lose_outcome(task, lost(task, now=now, by="DECLARED_LOST"), chance, now=now)


def lost(task: Task, *, now: int, by: str) -> AttemptClosed:
    """The closing of an attempt whose outcome can't be known."""
    told = "the lease was lost after the start"
    if by == "DECLARED_LOST":
        told = "an operator declared the lease lost"
    return AttemptClosed(
        task_id=task.id,
        number=task.attempt_count,
        outcome=Outcome.UNKNOWN,
        ended_at=now,
        closed_by=by,
        code="LEASE_LOST",
        error=unknown_text(told, ended=False),
    )
