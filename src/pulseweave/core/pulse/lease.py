"""Leases: claim, start, heartbeat, give back, and what the loss of one means (PUL-2, PUL-3, PUL-7).

A claim leases and authorises nothing. The start, just before the handler's effect, authorises: it
checks gate, deadline and latest start on the task's own row, makes the attempt and counts it. A
lease lost before the start is a known non-execution; one lost after it is UNKNOWN, never a failure.
"""

from dataclasses import replace

from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.change import AttemptOpened, TaskChange
from pulseweave.core.pulse.expire import expire
from pulseweave.core.pulse.move import move
from pulseweave.core.pulse.task import Holds, Leased, Queued, Running, Task, TaskEvent, TaskState
from pulseweave.kernel import limits
from pulseweave.kernel.check import invariant
from pulseweave.kernel.errors import reject


def claim(task: Task, *, now: int, token: str) -> TaskChange:
    """Lease a claimable task for a short while; it holds its concurrency key from now on
    (PUL-9).
    """
    invariant(
        task.holds is Holds.NONE, "only what can run is claimed", task_id=task.id, holds=task.holds
    )
    expires_at = now + limits.UNSTARTED_LEASE_MS * 1000
    after = move(task, TaskEvent.CLAIM, Leased(token=token, expires_at=expires_at))
    return TaskChange(before=task, after=after)


def start(task: Task, *, token: str, worker: str, now: int) -> Answer:
    """Authorise the execution. Order of refusals: LEASE_LOST, START_REFUSED, GATE_CLOSED.

    A start that is asked again while its lease runs gets the same answer, with what is left of the
    lease; after that nothing may begin any more. ``worker``: JSON string.
    """
    match task.phase:
        case Running(token=held, expires_at=expires_at) if held == token and now < expires_at:
            return Answer(
                attempt=task.attempt_count,
                lease_ms=(expires_at - now) // 1000,
                stop_at=task.phase.stop_at,
                repeated=True,
            )
        case Leased(token=held, expires_at=expires_at) if held == token and now < expires_at:
            pass
        case _:
            return Answer(
                rejected=reject("LEASE_LOST", "the lease is not yours any more", rule="PUL-6")
            )
    expired = expire(task, now=now)
    if expired is not None:
        refusal = reject(
            "START_REFUSED", "the task's deadline or latest start has passed", rule="PUL-7"
        )
        return Answer(change=expired, rejected=refusal)
    if task.holds & Holds.GATE:
        return Answer(
            rejected=reject("GATE_CLOSED", "the instance may not start attempts now", rule="PUL-2")
        )
    stop_at = _stop_at(task, now)
    number = task.attempt_count + 1
    after = move(
        task,
        TaskEvent.START,
        Running(token=token, expires_at=now + task.lease_ms * 1000, stop_at=stop_at),
        attempt_count=number,
    )
    opened = AttemptOpened(
        task_id=task.id, number=number, lease_token=token, worker=worker, started_at=now
    )
    change = TaskChange(before=task, after=after, opened=opened)
    return Answer(change=change, attempt=number, lease_ms=task.lease_ms, stop_at=stop_at)


def _stop_at(task: Task, now: int) -> int | None:
    """From when on the worker is asked to cancel: attempt timeout or deadline, whichever
    is first.
    """
    instants = [task.deadline_at]
    if task.attempt_timeout_ms is not None:
        instants.append(now + task.attempt_timeout_ms * 1000)
    known = [instant for instant in instants if instant is not None]
    return min(known) if known else None


def asked_to_cancel(task: Task, now: int) -> bool:
    """Whether the worker is to stop: someone asked, or the attempt's time is up."""
    stop_at = task.phase.stop_at if isinstance(task.phase, Running) else None
    return task.cancel_requested_at is not None or (stop_at is not None and now >= stop_at)


def heartbeat(task: Task, *, token: str, now: int) -> Answer:
    """Renew a running lease; a lapsed one is never revived. After the grace it is not renewed
    further (PUL-7).
    """
    match task.phase:
        case Running(token=held, expires_at=expires_at) if held == token and now < expires_at:
            pass
        case Leased(token=held, expires_at=expires_at) if held == token and now < expires_at:
            return Answer(cancel=False)
        case _:
            return Answer(
                rejected=reject("LEASE_LOST", "the lease is not yours any more", rule="PUL-6")
            )
    phase = task.phase
    cancel = asked_to_cancel(task, now)
    renewed = now + task.lease_ms * 1000
    if phase.stop_at is not None:
        renewed = min(renewed, phase.stop_at + limits.CANCEL_GRACE_MS * 1000)
    if renewed <= phase.expires_at:
        left_ms = (phase.expires_at - now) // 1000
        return Answer(cancel=cancel, lease_ms=left_ms)
    after = replace(task, phase=replace(phase, expires_at=renewed))
    return Answer(
        change=TaskChange(before=task, after=after),
        cancel=cancel,
        lease_ms=(renewed - now) // 1000,
    )


def give_back(task: Task, *, token: str) -> Answer:
    """A polite release of an unstarted lease: claimable at once, nothing counted (PUL-14)."""
    match task.phase:
        case Leased(token=held) if held == token:
            after = move(task, TaskEvent.GIVE_BACK, Queued())
            return Answer(change=TaskChange(before=task, after=after), state=TaskState.QUEUED.value)
        case Running(token=held) if held == token:
            refusal = reject("REPORT_CONFLICT", "a started task can't be given back; report it")
            return Answer(rejected=refusal)
        case _:
            return Answer(
                rejected=reject("LEASE_LOST", "the lease is not yours any more", rule="PUL-6")
            )


def lose_unstarted(task: Task, *, now: int) -> TaskChange:
    """Back to the queue after a growing delay: what kills its workers must not hot-loop (PUL-2)."""
    losses = task.unstarted_losses + 1
    due_at = now + unstarted_delay_ms(losses) * 1000
    after = move(task, TaskEvent.GIVE_BACK, Queued(due_at=due_at), unstarted_losses=losses)
    return TaskChange(before=task, after=after)


def unstarted_delay_ms(losses: int) -> int:
    """1 s, 2 s, 4 s, … at most five minutes."""
    return min(
        limits.UNSTARTED_DELAY_FIRST_MS << min(losses - 1, 20), limits.UNSTARTED_DELAY_MS_MAX
    )
