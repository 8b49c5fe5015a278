"""Cancelling a task (PUL-8): at once where nothing was started, asked for where something runs."""

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.move import event_of, move
from pulseweave.core.pulse.task import (
    InReview,
    Leased,
    Queued,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskEvent,
    TaskState,
)


def cancel(task: Task, *, now: int) -> TaskChange | None:
    """Unstarted and untainted: CANCELLED. Tainted: a person decides. Running: asked. None: nothing
    to do.
    """
    match task.phase:
        case Queued() | Leased() if task.tainted:
            after = move(task, TaskEvent.CANCEL, InReview(), cancel_requested_at=now)
            return TaskChange(
                before=task, after=after, event=event_of(after, now, code="CANCELLED")
            )
        case Queued() | Leased():
            settled = Settled(
                state=TaskState.CANCELLED, by=SettledBy.ENGINE, code="CANCELLED", at=now
            )
            after = move(task, TaskEvent.CANCEL, settled, cancel_requested_at=now)
            return TaskChange(
                before=task, after=after, event=event_of(after, now, code="CANCELLED")
            )
        case Running() as phase if task.cancel_requested_at is None:
            after = move(task, TaskEvent.CANCEL, phase, cancel_requested_at=now)
            return TaskChange(before=task, after=after)
        case _:
            return None
