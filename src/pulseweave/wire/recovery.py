"""Recovery commands, receipts and review items. Texts are checked again by the core (REC-2)."""

from typing import Annotated, Literal

import msgspec

from pulseweave.wire.base import EvidenceRef, Id, Instant, Json, Reason, Revision, Wire

Verdict = Literal["SUCCEEDED", "FAILED"]


class ReviewTask(Wire, frozen=True, kw_only=True):
    """REV-1. ``result``: any JSON but null, or that of the cited ``late_report_id``."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef
    task_id: Id
    expected_task_revision: Revision
    execution_settled: Json = None
    verdict: Verdict
    result: Json = None
    late_report_id: Id | None = None


class ReviewOwnTask(Wire, frozen=True, kw_only=True):
    """PUL-13: the same for a task that no workflow owns."""

    reason: Reason
    evidence_ref: EvidenceRef
    expected_task_revision: Revision
    execution_settled: Json = None
    verdict: Verdict
    result: Json = None
    late_report_id: Id | None = None


class ResolveStep(Wire, frozen=True, kw_only=True):
    """RES-1 to RES-4. For FAILED the result is ``{code, message, details?}``."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef
    step_key: str
    activation_id: Id
    expected_step_revision: Revision
    execution_settled: Json = None
    verdict: Verdict
    result: Json | msgspec.UnsetType = msgspec.UNSET


class RetryStep(Wire, frozen=True, kw_only=True):
    """RET-1 to RET-10."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef
    step_key: str
    activation_id: Id
    expected_step_revision: Revision
    safe_to_retry: Json = None


class ContinuePoll(Wire, frozen=True, kw_only=True):
    """CPO-1."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef
    step_key: str
    activation_id: Id
    expected_step_revision: Revision
    pending_confirmed: Json = None


class RearmWait(Wire, frozen=True, kw_only=True):
    """REA-1."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef
    step_key: str
    activation_id: Id
    expected_step_revision: Revision
    wait_verified: Json = None


class Continue(Wire, frozen=True, kw_only=True):
    """CON-1 to CON-4."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef
    review_resolved: Json = None


class DeclareLost(Wire, frozen=True, kw_only=True):
    """REC-17."""

    expected_task_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef


class AcknowledgeContradiction(Wire, frozen=True, kw_only=True):
    """REC-13."""

    expected_revision: Revision
    reason: Reason
    evidence_ref: EvidenceRef


class Control(Wire, frozen=True, kw_only=True):
    """Pause, resume, cancel (WEA-12)."""

    expected_control_revision: Revision
    reason: Annotated[str, msgspec.Meta(max_length=1024)] = ""


class CancelTask(Wire, frozen=True, kw_only=True):
    """Cancel one task (PUL-8, PUL-18)."""

    expected_task_revision: Revision
    reason: Reason


class Blocking(Wire, frozen=True, kw_only=True):
    """What still needs whom (REC-19)."""

    what: str
    who: str
    step_key: str | None = None
    task_id: str | None = None
    detail: str | None = None


class Receipt(Wire, frozen=True, kw_only=True):
    """The frozen answer of a management command (REC-3, REC-19).

    ``details`` holds what is particular to the operation: new activation and task ids, seconds
    left, the deadlines that keep running after a pause. On a dry run ``operation_id`` is null and
    nothing was written.
    """

    operation: str
    operation_id: Id | None
    instance_id: Id | None
    state_after: str
    gate: Literal["OPEN", "CLOSED"] | None = None
    paused: bool = False
    stop_kind: str | None = None
    revision: Revision | None = None
    control_revision: Revision | None = None
    deadline_at: Instant | None = None
    blocking: list[Blocking] = []
    details: Json = None
    warnings: list[str] = []
    dry_run: bool = False


class Operation(Wire, frozen=True, kw_only=True):
    """Whether one recovery operation applies to an item now, and the ready command (REC-15).

    In ``command`` every id and revision is filled in; fields that only a person can give are null
    and named in ``to_fill``.
    """

    operation: str
    applies: bool
    code: str | None = None
    blocked_by: str | None = None
    path: str | None = None
    command: Json = None
    to_fill: list[str] = []
    note: str | None = None


class ReviewItem(Wire, frozen=True, kw_only=True):
    """One thing that needs a person."""

    instance_id: Id | None
    instance_key: str | None = None
    definition: str | None = None
    definition_version: int | None = None
    step_key: str | None = None
    activation_id: Id | None = None
    task_id: Id | None = None
    cause: str
    since: Instant
    operations: list[Operation] = []


class ReviewPage(Wire, frozen=True, kw_only=True):
    items: list[ReviewItem]
    cursor: str | None = None


class AuditEntry(Wire, frozen=True, kw_only=True):
    id: Id
    layer: Literal["workflow", "execution"]
    operation: str
    outcome: str
    code: str | None = None
    actor: str
    at: Instant
    instance_id: Id | None = None
    task_id: Id | None = None
    idempotency_key: str | None = None
    command_digest: str
    reason: Json = None
    evidence_ref: Json = None
    prior: Json = None
    next: Json = None
    execution_audit_id: Id | None = None


class AuditPage(Wire, frozen=True, kw_only=True):
    items: list[AuditEntry]
    cursor: str | None = None
