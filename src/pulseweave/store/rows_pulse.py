"""Pulse's rows and facts: the only place that knows how one becomes the other."""

from typing import Any

from pulseweave.core.pulse.change import TaskSpec
from pulseweave.core.pulse.hold import sweep_at
from pulseweave.core.pulse.policy import Backoff, Effect
from pulseweave.core.pulse.task import (
    Holds,
    InReview,
    Leased,
    Phase,
    Queued,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskState,
)
from pulseweave.kernel import canonical
from pulseweave.kernel.check import InvariantViolation

#: Columns of ``tasks`` that a decision may move.
TASK_MOVING = (
    "state",
    "revision",
    "holds",
    "due_at",
    "sweep_at",
    "attempt_count",
    "unstarted_losses",
    "tainted",
    "cancel_requested_at",
    "lease_token",
    "lease_expires_at",
    "stop_at",
    "holds_key",
    "waiting_key",
    "settled_by",
    "settled_code",
    "settled_at",
)


def _phase(row: Any) -> Phase:
    match TaskState(row.state):
        case TaskState.QUEUED:
            return Queued(due_at=row.due_at)
        case TaskState.LEASED:
            return Leased(token=row.lease_token, expires_at=row.lease_expires_at)
        case TaskState.RUNNING:
            return Running(
                token=row.lease_token, expires_at=row.lease_expires_at, stop_at=row.stop_at
            )
        case TaskState.NEEDS_REVIEW:
            return InReview()
        case TaskState.SUCCEEDED | TaskState.FAILED | TaskState.CANCELLED as state:
            return Settled(
                state=state,
                by=SettledBy(row.settled_by),
                code=row.settled_code,
                at=row.settled_at,
            )
    raise InvariantViolation("a task's state is known", {"state": row.state})


def task_from_row(row: Any) -> Task:
    return Task(
        id=row.id,
        namespace=row.namespace,
        application=row.application,
        queue=row.queue,
        partition_id=row.partition_id,
        instance_id=row.instance_id,
        activation_id=row.activation_id,
        effect=Effect(row.effect),
        priority=-row.priority_order,
        max_attempts=row.max_attempts,
        lease_ms=row.lease_ms,
        attempt_timeout_ms=row.attempt_timeout_ms,
        deadline_at=row.deadline_at,
        start_by=row.start_by,
        key=row.key_hash,
        phase=_phase(row),
        revision=row.revision,
        holds=Holds(row.holds),
        attempt_count=row.attempt_count,
        unstarted_losses=row.unstarted_losses,
        tainted=bool(row.tainted),
        holds_key=bool(row.holds_key),
        cancel_requested_at=row.cancel_requested_at,
    ).check()


def task_moving(task: Task) -> dict[str, Any]:
    """Values of the moving columns, as the set-based update wants them."""
    phase = task.phase
    values: dict[str, Any] = {
        "state": task.state.value,
        "revision": task.revision,
        "holds": int(task.holds),
        "due_at": None,
        "sweep_at": sweep_at(task),
        "attempt_count": task.attempt_count,
        "unstarted_losses": task.unstarted_losses,
        "tainted": int(task.tainted),
        "cancel_requested_at": task.cancel_requested_at,
        "lease_token": task.token,
        "lease_expires_at": None,
        "stop_at": None,
        "holds_key": int(task.holds_key),
        "waiting_key": task.key if task.holds & Holds.KEY else None,
        "settled_by": None,
        "settled_code": None,
        "settled_at": None,
    }
    match phase:
        case Queued(due_at=due_at):
            values["due_at"] = due_at
        case Leased(expires_at=expires_at):
            values["lease_expires_at"] = expires_at
        case Running(expires_at=expires_at, stop_at=stop_at):
            values |= {"lease_expires_at": expires_at, "stop_at": stop_at}
        case Settled(by=by, code=code, at=at):
            values |= {"settled_by": by.value, "settled_code": code, "settled_at": at}
        case InReview():
            pass
    return values


def task_row(task: Task) -> dict[str, Any]:
    """A whole new row."""
    return {
        "id": task.id,
        "namespace": task.namespace,
        "application": task.application,
        "queue": task.queue,
        "partition_id": task.partition_id,
        "instance_id": task.instance_id,
        "activation_id": task.activation_id,
        "effect": task.effect.value,
        "priority_order": -task.priority,
        "max_attempts": task.max_attempts,
        "lease_ms": task.lease_ms,
        "attempt_timeout_ms": task.attempt_timeout_ms,
        "deadline_at": task.deadline_at,
        "start_by": task.start_by,
        "key_hash": task.key,
        **task_moving(task.check()),
    }


def backoff_text(backoff: Backoff) -> str:
    return canonical.encode(
        {
            "factor": backoff.factor,
            "initial_ms": backoff.initial_ms,
            "jitter": backoff.jitter,
            "max_ms": backoff.max_ms,
        }
    )


def backoff_from_text(text: str) -> Backoff:
    told = canonical.parse(text)
    return Backoff(
        initial_ms=told["initial_ms"],
        factor=float(told["factor"]),
        max_ms=told["max_ms"],
        jitter=float(told["jitter"]),
    )


def spec_from_row(row: Any) -> TaskSpec:
    return TaskSpec(
        task_id=row.task_id,
        handler=row.handler,
        input=row.input,
        input_digest=row.input_digest,
        backoff=backoff_from_text(row.policy),
        business_key=_text(row.business_key),
        concurrency_key=_text(row.concurrency_key),
        retry_of=row.retry_of,
        task_key=row.task_key,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def spec_row(spec: TaskSpec, namespace: str) -> dict[str, Any]:
    return {
        "task_id": spec.task_id,
        "namespace": namespace,
        "handler": spec.handler,
        "input": spec.input,
        "input_digest": spec.input_digest,
        "policy": backoff_text(spec.backoff),
        "business_key": _json(spec.business_key),
        "concurrency_key": _json(spec.concurrency_key),
        "retry_of": spec.retry_of,
        "task_key": spec.task_key,
        "created_at": spec.created_at,
        "created_by": spec.created_by,
    }


def _text(stored: str | None) -> str | None:
    return None if stored is None else str(canonical.parse(stored))


def _json(text: str | None) -> str | None:
    return None if text is None else canonical.encode(text)
