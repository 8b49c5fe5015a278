"""Deadline and latest start passing before a start (PUL-7). Fixed instants; nothing moves them."""

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.move import event_of, move
from pulseweave.core.pulse.task import (
    InReview,
    Leased,
    Queued,
    Settled,
    SettledBy,
    Task,
    TaskEvent,
    TaskState,
)


def expired_code(task: Task, now: int) -> str | None:
    """Which instant has passed: the deadline before the latest start."""
    if task.deadline_at is not None and now >= task.deadline_at:
        return "DEADLINE_EXCEEDED"
    if task.start_by is not None and now >= task.start_by:
        return "START_EXPIRED"
    return None


def expire(task: Task, *, now: int) -> TaskChange | None:
    """FAILED, whatever holds the task; a tainted one needs a person (PUL-3). None: nothing has
    passed.
    """
    code = expired_code(task, now)
    if code is None or not isinstance(task.phase, Queued | Leased):
        return None
    if task.tainted:
        after = move(task, TaskEvent.EXPIRE, InReview())
    else:
        settled = Settled(state=TaskState.FAILED, by=SettledBy.ENGINE, code=code, at=now)
        after = move(task, TaskEvent.EXPIRE, settled)
    return TaskChange(before=task, after=after, event=event_of(after, now, code=code))
