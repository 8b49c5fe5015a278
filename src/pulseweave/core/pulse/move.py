"""One transition of a task: the only function that makes a changed task, and it asks the table
first.
"""

from dataclasses import replace
from typing import TypedDict, Unpack

from pulseweave.core.pulse.task import (
    TASK_TRANSITIONS,
    EventKind,
    Holds,
    Phase,
    Queued,
    ResultEvent,
    Settled,
    Task,
    TaskEvent,
)
from pulseweave.kernel.check import invariant


class Facts(TypedDict, total=False):
    """Facts of a task that a transition may change besides its phase."""

    attempt_count: int
    unstarted_losses: int
    tainted: bool
    cancel_requested_at: int | None


def move(task: Task, event: TaskEvent, phase: Phase, **changes: Unpack[Facts]) -> Task:
    """The task after the event, one revision on; holds and key follow the phase (PUL-1, PUL-9,
    PUL-10).
    """
    after = replace(task, phase=phase, revision=task.revision + 1, **changes)
    targets = TASK_TRANSITIONS[task.state].get(event, frozenset())
    invariant(
        after.state in targets,
        "the task's transition is in the table",
        task_id=task.id,
        before=task.state,
        on=event,
        after=after.state,
    )
    return replace(after, holds=_holds(after), holds_key=after.needs_key).check()


def _holds(task: Task) -> Holds:
    """GATE is kept by every re-queue; KEY comes from a claim alone, DELAY from a back-off."""
    gate = task.holds & Holds.GATE
    match task.phase:
        case Queued(due_at=due_at):
            return gate | (Holds.DELAY if due_at is not None else Holds.NONE)
        case Settled():
            return Holds.NONE
        case _:
            return gate


def event_of(task: Task, now: int, *, code: str | None, attempt: int | None = None) -> ResultEvent:
    """The result event of a settlement or of a move to NEEDS_REVIEW (PUL-11)."""
    return result_event(task, EventKind(task.state.value), now, code=code, attempt=attempt)


def result_event(
    task: Task,
    kind: EventKind,
    now: int,
    *,
    code: str | None,
    attempt: int | None = None,
    late_report_id: str | None = None,
) -> ResultEvent:
    return ResultEvent(
        partition_id=task.partition_id,
        namespace=task.namespace,
        task_id=task.id,
        task_revision=task.revision,
        instance_id=task.instance_id,
        activation_id=task.activation_id,
        kind=kind,
        code=code,
        attempt=attempt,
        late_report_id=late_report_id,
        at=now,
    )
