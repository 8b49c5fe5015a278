"""Why a queued task is out of the claim index, and when a sweeper must look at a task next
(PUL-10).

Bits are hints kept in step by every writer: GATE on every unsettled task of an instance, KEY on a
task whose concurrency key was found held, DELAY on one whose back-off runs. Changing a bit is no
event and moves no revision.
"""

from dataclasses import replace
from typing import assert_never

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.task import Holds, InReview, Leased, Queued, Running, Settled, Task
from pulseweave.kernel.check import invariant


def set_gate(task: Task, *, closed: bool) -> TaskChange | None:
    """Set or clear GATE on an unsettled task; None when it is so already."""
    invariant(not task.settled, "only unsettled tasks have a gate", task_id=task.id)
    holds = task.holds | Holds.GATE if closed else task.holds & ~Holds.GATE
    return (
        None if holds == task.holds else TaskChange(before=task, after=replace(task, holds=holds))
    )


def wait_for_key(task: Task) -> TaskChange:
    """A claim found the key held: out of the index until the promoter clears the bit."""
    invariant(isinstance(task.phase, Queued), "only a queued task waits for a key", task_id=task.id)
    invariant(
        task.key is not None and not task.holds_key,
        "a task waits for a key that it wants and doesn't hold",
        task_id=task.id,
    )
    return TaskChange(before=task, after=replace(task, holds=task.holds | Holds.KEY))


def promote(task: Task) -> TaskChange | None:
    """The key is free: back into the index."""
    if not isinstance(task.phase, Queued) or not task.holds & Holds.KEY:
        return None
    return TaskChange(before=task, after=replace(task, holds=task.holds & ~Holds.KEY))


def end_delay(task: Task, *, now: int) -> TaskChange | None:
    """The back-off is over: back into the index."""
    match task.phase:
        case Queued(due_at=int(due_at)) if due_at <= now:
            after = replace(task, phase=Queued(), holds=task.holds & ~Holds.DELAY)
            return TaskChange(before=task, after=after)
        case _:
            return None


def sweep_at(task: Task) -> int | None:
    """When time alone will change something about the task; None: never."""
    match task.phase:
        case Queued(due_at=due_at):
            return _earliest(due_at, task.deadline_at, task.start_by)
        case Leased(expires_at=expires_at):
            return _earliest(expires_at, task.deadline_at, task.start_by)
        case Running(expires_at=expires_at):
            return expires_at
        case InReview() | Settled():
            return None
        case _:
            assert_never(task.phase)


def _earliest(*instants: int | None) -> int | None:
    known = [instant for instant in instants if instant is not None]
    return min(known) if known else None
