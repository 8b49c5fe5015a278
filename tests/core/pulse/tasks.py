"""Tasks as the tests of Pulse's decisions want them: any phase, any facts, always lawful ones."""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any

from pulseweave.core.pulse.change import AttemptClosed, TaskChange
from pulseweave.core.pulse.outcome import Chance
from pulseweave.core.pulse.policy import Backoff, Effect
from pulseweave.core.pulse.report import Report, ReportedAttempt
from pulseweave.core.pulse.task import (
    Holds,
    InReview,
    Leased,
    Outcome,
    Phase,
    Queued,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskState,
)
from pulseweave.kernel.check import InvariantViolation

MS = 1_000
SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
TOKEN = "token-1"
OTHER = "token-2"
KEY = "k" * 64
BACKOFF = Backoff(initial_ms=1_000, factor=2, max_ms=60_000, jitter=0)
CHANCE = Chance(backoff=BACKOFF, uniform=0.5)

QUEUED = Queued()
LEASED = Leased(token=TOKEN, expires_at=NOW + 10 * SECOND)
RUNNING = Running(token=TOKEN, expires_at=NOW + 30 * SECOND, stop_at=None)
IN_REVIEW = InReview()
SUCCEEDED = Settled(state=TaskState.SUCCEEDED, by=SettledBy.ATTEMPT, code=None, at=NOW - SECOND)
FAILED = Settled(state=TaskState.FAILED, by=SettledBy.ATTEMPT, code="BAD", at=NOW - SECOND)
CANCELLED = Settled(
    state=TaskState.CANCELLED, by=SettledBy.ENGINE, code="CANCELLED", at=NOW - SECOND
)
PHASES: tuple[Phase, ...] = (QUEUED, LEASED, RUNNING, IN_REVIEW, SUCCEEDED, FAILED, CANCELLED)

#: Facts of a task that no decision may ever change.
FIXED = (
    "id",
    "namespace",
    "application",
    "queue",
    "partition_id",
    "instance_id",
    "activation_id",
    "effect",
    "priority",
    "max_attempts",
    "lease_ms",
    "attempt_timeout_ms",
    "deadline_at",
    "start_by",
    "key",
)


def task(phase: Phase = QUEUED, **facts: Any) -> Task:
    """A lawful task in a phase; what the phase demands is filled in unless it is given."""
    if isinstance(phase, Running) and "attempt_count" not in facts:
        facts["attempt_count"] = 1
    if isinstance(phase, InReview):
        facts = {"tainted": True, **facts}
    if facts.get("tainted"):
        facts = {"attempt_count": 1, **facts}
    if isinstance(phase, Queued) and phase.due_at is not None:
        facts["holds"] = facts.get("holds", Holds.NONE) | Holds.DELAY
    made = Task(**{**_DEFAULTS, "phase": phase, **facts})
    return replace(made, holds_key=made.needs_key).check()


_DEFAULTS: dict[str, Any] = {
    "id": "task-1",
    "namespace": "acme",
    "application": "shop",
    "queue": "charges",
    "partition_id": 3,
    "instance_id": "instance-1",
    "activation_id": "activation-1",
    "effect": Effect.AT_MOST_ONCE,
    "priority": 0,
    "max_attempts": 3,
    "lease_ms": 30_000,
    "attempt_timeout_ms": None,
    "deadline_at": None,
    "start_by": None,
    "key": None,
    "revision": 7,
}


def lawful_tasks(state: TaskState) -> Iterator[Task]:
    """Tasks of a state in every lawful combination of the facts that decisions look at."""
    phase = next(phase for phase in PHASES if task(phase).state is state)
    passed: list[dict[str, int]] = [{"deadline_at": NOW - 1}, {"start_by": NOW}, {}]
    choices = product(
        Effect, (1, 3), (0, 1, 3), (False, True), (None, NOW - 5), (None, KEY), passed
    )
    for effect, max_attempts, attempts, tainted, asked, key, instants in choices:
        facts: dict[str, Any] = {
            "effect": effect,
            "max_attempts": max_attempts,
            "attempt_count": attempts,
            "tainted": tainted,
            "cancel_requested_at": asked,
            "key": key,
            **instants,
        }
        if effect is Effect.NONE and tainted:
            continue
        try:
            yield task(phase, **facts)
        except InvariantViolation:
            continue


def succeeded(result: str = "1") -> Report:
    return Report(
        outcome=Outcome.SUCCEEDED,
        digest=f"succeeded:{result}",
        result=result,
        result_digest=f"digest:{result}",
    )


def failed(code: str = "BUSY", *, retryable: bool = True) -> Report:
    return Report(
        outcome=Outcome.FAILED,
        digest=f"failed:{code}:{retryable}",
        code=code,
        error='{"message":"no"}',
        retryable=retryable,
    )


def unknown() -> Report:
    return Report(
        outcome=Outcome.UNKNOWN,
        digest="unknown",
        code="OUTCOME_UNKNOWN",
        error='{"ended":true,"message":"?"}',
    )


def cancelled() -> Report:
    return Report(outcome=Outcome.CANCELLED, digest="cancelled", code="CANCELLED")


def closed_attempt(number: int, told: Report | None, led_to: TaskState) -> ReportedAttempt:
    """An attempt that ended by a report, or by a lost lease (None)."""
    return ReportedAttempt(
        number=number,
        report_digest=told.digest if told is not None else None,
        outcome=told.outcome if told is not None else Outcome.UNKNOWN,
        task_state=led_to,
    )


def closing(outcome: Outcome, *, code: str | None = "BUSY") -> AttemptClosed:
    return AttemptClosed(
        task_id="task-1", number=1, outcome=outcome, ended_at=NOW, closed_by="REPORT", code=code
    )


def of(change: TaskChange | None) -> TaskChange:
    """The change that must be there."""
    assert change is not None
    return change


def assert_fixed(before: Task, after: Task) -> None:
    """Nothing that was fixed when the task was made has moved."""
    known = {field.name for field in fields(Task)}
    assert known > set(FIXED)
    moved = [name for name in FIXED if getattr(before, name) != getattr(after, name)]
    assert not moved
