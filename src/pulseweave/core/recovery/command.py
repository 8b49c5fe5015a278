"""The six recovery commands, as decoded and checked for form (REC-2).

``declared`` is whatever stood in the declaration's field; only the literal ``true`` declares
(REC-11). ``result`` is canonical JSON text; None where the command gave none.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What every recovery command carries."""

    expected_revision: int
    reason: str
    evidence_ref: str
    declared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTask(Evidence):
    OPERATION: ClassVar[str] = "REVIEW_TASK"
    DECLARATION: ClassVar[str] = "execution_settled"
    task_id: str
    expected_task_revision: int
    succeeded: bool
    result: str | None
    late_report_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveStep(Evidence):
    OPERATION: ClassVar[str] = "RESOLVE_STEP"
    DECLARATION: ClassVar[str] = "execution_settled"
    step_key: str
    activation_id: str
    expected_step_revision: int
    succeeded: bool
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStep(Evidence):
    OPERATION: ClassVar[str] = "RETRY_STEP"
    DECLARATION: ClassVar[str] = "safe_to_retry"
    step_key: str
    activation_id: str
    expected_step_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuePoll(Evidence):
    OPERATION: ClassVar[str] = "CONTINUE_POLL"
    DECLARATION: ClassVar[str] = "pending_confirmed"
    step_key: str
    activation_id: str
    expected_step_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RearmWait(Evidence):
    OPERATION: ClassVar[str] = "REARM_WAIT"
    DECLARATION: ClassVar[str] = "wait_verified"
    step_key: str
    activation_id: str
    expected_step_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue(Evidence):
    OPERATION: ClassVar[str] = "CONTINUE"
    DECLARATION: ClassVar[str] = "review_resolved"


StepCommand = ResolveStep | RetryStep | ContinuePoll | RearmWait
Command = ReviewTask | StepCommand | Continue
