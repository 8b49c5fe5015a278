"""The task: a unit of execution, its states, and every transition that may ever happen to it.

States: QUEUED (waiting to be claimed), LEASED (handed to a worker, not yet authorised to act),
RUNNING (authorised: the attempt is counted), NEEDS_REVIEW (an outcome is unknown), and settled for
ever: SUCCEEDED, FAILED, CANCELLED. An execution is *unknown* while its task is in NEEDS_REVIEW, and
only then.

What may never happen: a settled task changes state; an attempt exists that was not authorised by a
start; a lease that was lost after the start is taken for a failure (PUL-1, PUL-2, PUL-3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from types import MappingProxyType
from typing import assert_never

from pulseweave.core.pulse.policy import Effect
from pulseweave.kernel.check import invariant


class TaskState(StrEnum):
    QUEUED = "QUEUED"
    LEASED = "LEASED"
    RUNNING = "RUNNING"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


SETTLED = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})


class TaskEvent(StrEnum):
    """What can happen to a task; the words are those of the execution audit."""

    CLAIM = "CLAIM"
    START = "START"
    GIVE_BACK = (
        "GIVE_BACK"  # an unstarted lease returned, reported failed or lost: a known non-execution
    )
    SUCCEED = "SUCCEED"  # reported by the lease holder
    FAIL_RETRYABLE = (
        "FAIL_RETRYABLE"  # reported, or a lost attempt of a task declared without effect
    )
    FAIL_FINAL = "FAIL_FINAL"
    LOSE_OUTCOME = "LOSE_OUTCOME"  # lease lost after the start, reported UNKNOWN, or declared lost
    CONFIRM_CANCELLED = "CONFIRM_CANCELLED"  # the lease holder: nothing took effect, nothing runs
    CANCEL = "CANCEL"  # asked from outside; on a RUNNING task it changes no state
    EXPIRE = "EXPIRE"  # deadline or latest start passed before a start
    VERDICT_SUCCEEDED = "VERDICT_SUCCEEDED"  # a person's verified evidence
    VERDICT_FAILED = "VERDICT_FAILED"


_S, _E = TaskState, TaskEvent

#: state → event → the states that it may lead to. A pair that is absent is refused (PUL-1).
#: More than one target: which one follows from the task's facts (taint, effect, budget, deadline).
TASK_TRANSITIONS: Mapping[TaskState, Mapping[TaskEvent, frozenset[TaskState]]] = MappingProxyType(
    {
        _S.QUEUED: MappingProxyType(
            {
                _E.CLAIM: frozenset({_S.LEASED}),
                _E.CANCEL: frozenset({_S.CANCELLED, _S.NEEDS_REVIEW}),
                _E.EXPIRE: frozenset({_S.FAILED, _S.NEEDS_REVIEW}),
            }
        ),
        _S.LEASED: MappingProxyType(
            {
                _E.START: frozenset({_S.RUNNING}),
                _E.GIVE_BACK: frozenset({_S.QUEUED}),
                _E.FAIL_FINAL: frozenset({_S.FAILED}),
                _E.CANCEL: frozenset({_S.CANCELLED, _S.NEEDS_REVIEW}),
                _E.EXPIRE: frozenset({_S.FAILED, _S.NEEDS_REVIEW}),
            }
        ),
        _S.RUNNING: MappingProxyType(
            {
                _E.SUCCEED: frozenset({_S.SUCCEEDED}),
                _E.FAIL_RETRYABLE: frozenset({_S.QUEUED, _S.FAILED, _S.NEEDS_REVIEW}),
                _E.FAIL_FINAL: frozenset({_S.FAILED}),
                _E.LOSE_OUTCOME: frozenset({_S.NEEDS_REVIEW, _S.QUEUED}),
                _E.CONFIRM_CANCELLED: frozenset({_S.CANCELLED, _S.NEEDS_REVIEW}),
                _E.CANCEL: frozenset({_S.RUNNING}),
            }
        ),
        _S.NEEDS_REVIEW: MappingProxyType(
            {
                _E.VERDICT_SUCCEEDED: frozenset({_S.SUCCEEDED}),
                _E.VERDICT_FAILED: frozenset({_S.FAILED}),
            }
        ),
        _S.SUCCEEDED: MappingProxyType({}),
        _S.FAILED: MappingProxyType({}),
        _S.CANCELLED: MappingProxyType({}),
    }
)


class Holds(IntFlag):
    """Why a queued task is out of the claim index. Hints, kept in step by every writer (PUL-10)."""

    NONE = 0
    GATE = 1
    KEY = 2
    DELAY = 4


@dataclass(frozen=True, slots=True)
class Queued:
    """Waiting. ``due_at``: not before this instant (back-off), or None."""

    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class Leased:
    """Handed to one claim of one process; nothing outside may have happened yet."""

    token: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Running:
    """Authorised. ``stop_at``: from then on the worker is asked to cancel (attempt timeout or
    deadline).
    """

    token: str
    expires_at: int
    stop_at: int | None


@dataclass(frozen=True, slots=True)
class InReview:
    """An outcome is unknown; only a person's evidence (or a REC-17 precursor) leads on."""


class SettledBy(StrEnum):
    ATTEMPT = "ATTEMPT"  # a report of the lease holder
    VERDICT = "VERDICT"  # a person's review
    ENGINE = "ENGINE"  # cancelled or expired before any start


@dataclass(frozen=True, slots=True)
class Settled:
    """Final. ``code`` is None on success; ``by`` tells where result and error are kept."""

    state: TaskState
    by: SettledBy
    code: str | None
    at: int


Phase = Queued | Leased | Running | InReview | Settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Facts of one task. Instants are microseconds UTC. ``key`` is the digest of the concurrency
    key.

    ``revision`` grows by one with every change of state, a cancel request and a late report; a
    heartbeat and a hold bit change none.
    """

    id: str
    namespace: str
    application: str
    queue: str
    partition_id: int
    instance_id: str | None
    activation_id: str | None
    effect: Effect
    priority: int
    max_attempts: int
    lease_ms: int
    attempt_timeout_ms: int | None
    deadline_at: int | None
    start_by: int | None
    key: str | None
    phase: Phase
    revision: int = 1
    holds: Holds = Holds.NONE
    attempt_count: int = 0
    unstarted_losses: int = 0
    tainted: bool = False
    holds_key: bool = False
    cancel_requested_at: int | None = None

    @property
    def state(self) -> TaskState:
        match self.phase:
            case Queued():
                return TaskState.QUEUED
            case Leased():
                return TaskState.LEASED
            case Running():
                return TaskState.RUNNING
            case InReview():
                return TaskState.NEEDS_REVIEW
            case Settled(state=state):
                return state
            case _:
                assert_never(self.phase)

    @property
    def settled(self) -> bool:
        return isinstance(self.phase, Settled)

    @property
    def token(self) -> str | None:
        return self.phase.token if isinstance(self.phase, Leased | Running) else None

    @property
    def attempts_left(self) -> int:
        return self.max_attempts - self.attempt_count

    @property
    def needs_key(self) -> bool:
        """Whether it must hold its concurrency key now: from the claim until it settles or waits
        untainted; an unknown execution may still be going (PUL-9).
        """
        if self.key is None or isinstance(self.phase, Settled):
            return False
        return self.tainted or not isinstance(self.phase, Queued)

    def check(self) -> "Task":
        """Invariants that hold in every state; asked before a row is written and after
        it is read.
        """
        invariant(self.revision >= 1, "a task's revision starts at 1", task_id=self.id)
        invariant(
            0 <= self.attempt_count <= self.max_attempts,
            "attempts used are within the budget",
            task_id=self.id,
            attempt_count=self.attempt_count,
            max_attempts=self.max_attempts,
        )
        invariant(
            not (self.tainted and self.attempt_count == 0),
            "only a started task can be tainted",
            task_id=self.id,
        )
        invariant(
            self.holds_key == self.needs_key,
            "a task holds its concurrency key exactly while it must",
            task_id=self.id,
            state=self.state,
        )
        self._check_holds()
        fits, told = self._phase_fits()
        invariant(fits, told, task_id=self.id, state=self.state)
        return self

    def _check_holds(self) -> None:
        """Bits fit the phase: GATE until it settles, KEY and DELAY while it waits (PUL-10)."""
        delayed = isinstance(self.phase, Queued) and self.phase.due_at is not None
        invariant(
            delayed == (Holds.DELAY in self.holds),
            "DELAY is set exactly while a back-off runs",
            task_id=self.id,
        )
        waits = isinstance(self.phase, Queued) and self.key is not None and not self.holds_key
        invariant(
            waits or Holds.KEY not in self.holds,
            "KEY is for a queued task that wants a key it doesn't hold",
            task_id=self.id,
        )
        invariant(
            not (self.settled and self.holds), "nothing holds a settled task", task_id=self.id
        )

    def _phase_fits(self) -> tuple[bool, str]:
        """What each phase says of the other facts (PUL-1, PUL-3, PUL-8), and whether it is so."""
        match self.phase:
            case Queued() | Leased():
                ready = self.attempts_left > 0 and self.cancel_requested_at is None
                return ready, "what waits for its start has an attempt left and no cancel request"
            case Running():
                return self.attempt_count > 0, "what runs was started"
            case InReview():
                return self.tainted, "only a task with an unknown attempt is in review"
            case Settled(state=TaskState.CANCELLED) if self.tainted:
                return False, "a task with an unknown attempt is never just cancelled"
            case Settled(state=state, code=code):
                named = (state is TaskState.SUCCEEDED) == (code is None)
                return named, "a success has no code, everything else has one"
            case _:
                assert_never(self.phase)


class Outcome(StrEnum):
    """What became of an attempt."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"


class EventKind(StrEnum):
    """Kinds of result events: a settlement, a move to NEEDS_REVIEW, or a late fact (PUL-11,
    PUL-17).
    """

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    LATE = "LATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultEvent:
    """One entry of a result stream before its place in the stream is known (seq comes under the
    lock).
    """

    partition_id: int
    namespace: str
    task_id: str
    task_revision: int
    instance_id: str | None
    activation_id: str | None
    kind: EventKind
    code: str | None
    attempt: int | None
    late_report_id: str | None
    at: int
