"""Definitions, instances, history, tasks and result events."""

from typing import Annotated

import msgspec

from pulseweave.kernel import limits
from pulseweave.wire.base import (
    DefinitionName,
    HandlerName,
    Id,
    Instant,
    Json,
    QueueName,
    Revision,
    SignalName,
    Version,
    Wire,
)
from pulseweave.wire.recovery import Blocking, ReviewItem

InstanceKey = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.INSTANCE_KEY_CHARS_MAX)]
WorkKey = Annotated[str, msgspec.Meta(max_length=limits.CONCURRENCY_KEY_CHARS_MAX)]


class DefinitionSummary(Wire, frozen=True, kw_only=True):
    id: Id
    name: str
    version: int
    digest: str
    queues: list[str]
    created_at: Instant
    created: bool | None = None  # on PUT: false when the same content was already there


class DefinitionDetail(DefinitionSummary, frozen=True, kw_only=True):
    document: Json


class DefinitionPage(Wire, frozen=True, kw_only=True):
    items: list[DefinitionSummary]
    cursor: str | None = None


class StartInstance(Wire, frozen=True, kw_only=True):
    """``version`` null: the newest registered one. Idempotent by (definition, instance_key)
    (WEA-3).
    """

    definition: DefinitionName
    version: Version | None = None
    instance_key: InstanceKey
    input: Json = msgspec.field(default_factory=dict)


class StartBatch(Wire, frozen=True, kw_only=True):
    instances: Annotated[list[StartInstance], msgspec.Meta(min_length=1, max_length=500)]


class InstanceSummary(Wire, frozen=True, kw_only=True):
    """One row of the list. ``error`` is the stop's or the failure's ``{code, message, step?}``."""

    id: Id
    definition: str
    version: int
    instance_key: str
    state: str
    paused: bool
    stop_kind: str | None
    revision: Revision
    control_revision: Revision
    contradicted: bool
    quarantined: bool
    deadline_at: Instant | None
    created_at: Instant
    ended_at: Instant | None
    error: Json = None
    created: bool | None = None  # on start: false when the instance was already there


class StartOutcome(Wire, frozen=True, kw_only=True):
    """One entry of a batch start: the instance, or the refusal."""

    instance_key: str
    instance: InstanceSummary | None = None
    code: str | None = None
    message: str | None = None


class StartBatchResult(Wire, frozen=True, kw_only=True):
    items: list[StartOutcome]


class InstancePage(Wire, frozen=True, kw_only=True):
    items: list[InstanceSummary]
    cursor: str | None = None


class AttemptView(Wire, frozen=True, kw_only=True):
    number: int
    worker: Json
    started_at: Instant
    outcome: str | None
    ended_at: Instant | None
    closed_by: str | None
    code: str | None
    error: Json = None
    result: Json = None
    reviewed_by: str | None = None


class LateReportView(Wire, frozen=True, kw_only=True):
    id: Id
    attempt: int | None
    outcome: str
    code: str | None
    error: Json = None
    result: Json = None
    received_at: Instant


class TaskView(Wire, frozen=True, kw_only=True):
    """A task with its attempts. ``holds`` lists GATE, KEY, DELAY."""

    id: Id
    queue: str
    handler: str
    state: str
    revision: Revision
    effect: str
    priority: int
    max_attempts: int
    attempt_count: int
    unstarted_losses: int
    tainted: bool
    holds: list[str]
    due_at: Instant | None
    deadline_at: Instant | None
    start_by: Instant | None
    cancel_requested_at: Instant | None
    lease_expires_at: Instant | None
    instance_id: Id | None
    activation_id: Id | None
    retry_of: Id | None
    business_key: Json = None
    concurrency_key: Json = None
    settled_by: str | None
    settled_code: str | None
    settled_at: Instant | None
    created_at: Instant
    input: Json = None
    result: Json = None
    attempts: list[AttemptView] = []
    late_reports: list[LateReportView] = []


class ActivationView(Wire, frozen=True, kw_only=True):
    id: Id
    step_key: str
    sequence: int
    kind: str
    state: str
    revision: Revision
    task_id: Id | None
    round: int | None = None
    deadline_at: Instant | None = None
    retry_of: Id | None
    current: bool
    ignored: bool
    review_cause: str | None
    review_at: Instant | None
    entered_at: Instant
    settled_at: Instant | None
    error: Json = None
    output: Json = None
    output_source: str | None = None
    conclusion_id: str | None = None


class ItemCounts(Wire, frozen=True, kw_only=True):
    """How far a map is: ``entered`` of ``count`` items have begun, ``open`` of these go on."""

    count: int
    entered: int
    open: int
    done: int


class WaitView(Wire, frozen=True, kw_only=True):
    """An armed or closed wait: of a signal, a timer, or a poll's next round (ROUND)."""

    id: Id
    step_key: str
    activation_id: Id
    kind: str
    generation: int
    name: str | None
    correlation: Json = None
    due_at: Instant | None
    deadline_at: Instant | None
    armed_at: Instant
    state: str
    reason: str | None
    closed_at: Instant | None
    signal_id: Id | None


class RoundView(Wire, frozen=True, kw_only=True):
    """A query of a poll. ``classification``: what the mapping made of its answer."""

    step_key: str
    activation_id: Id
    task_id: Id
    round: int
    opened_at: Instant
    answered_at: Instant | None
    classification: str | None


class SendSignal(Wire, frozen=True, kw_only=True):
    """WEA-10. The Idempotency-Key is the signal's key within its instance."""

    name: SignalName
    correlation: WorkKey | None = None
    payload: Json = None


class SignalAccepted(Wire, frozen=True, kw_only=True):
    """``taken_by``: the wait that consumed it; None while it is kept."""

    id: Id
    accepted_at: Instant
    taken_by: Id | None
    created: bool


class StepView(Wire, frozen=True, kw_only=True):
    """A node of the definition with its state now: the tree that people look at.

    States of leaves are those of their latest activation; of the others WAITING, ACTIVE,
    NEEDS_REVIEW, SUCCEEDED, FAILED, CANCELLED. ``children`` follow the definition's order.
    """

    key: str | None
    kind: str
    state: str
    label: str | None = None  # the branch that this child is, in a parallel
    activation: ActivationView | None = None
    activations_count: int = 0
    waits_until: Instant | None = None  # when the wait that is armed for it fires or times out
    items: ItemCounts | None = None  # of a map
    children: list["StepView"] = []


class InstanceDetail(InstanceSummary, frozen=True, kw_only=True):
    application: str
    definition_digest: str
    gate: str
    wake_at: Instant | None
    wake_reason: str | None
    input: Json
    output: Json = None
    steps: StepView
    activations: list[ActivationView]
    tasks: list[TaskView]
    waits: list[WaitView] = []
    rounds: list[RoundView] = []
    reviews: list[ReviewItem] = []
    blocking: list[Blocking] = []


class JournalEntry(Wire, frozen=True, kw_only=True):
    revision: Revision
    at: Instant
    actor: str
    cause: str
    changes: Json


class HistoryPage(Wire, frozen=True, kw_only=True):
    items: list[JournalEntry]
    cursor: str | None = None


class CreateTask(Wire, frozen=True, kw_only=True):
    """A task that no workflow owns. ``task_key`` makes creation idempotent."""

    queue: QueueName
    handler: HandlerName
    task_key: InstanceKey
    input: Json = msgspec.field(default_factory=dict)
    effect: str = "at_most_once"
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    backoff: Json = None
    attempt_timeout: str | None = None
    lease: str | None = None
    deadline: str | None = None
    start_within: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-100, le=100)] = 0
    concurrency_key: WorkKey | None = None
    business_key: WorkKey | None = None


class TaskEventView(Wire, frozen=True, kw_only=True):
    partition: int
    seq: Revision
    task_id: Id
    task_revision: Revision
    instance_id: Id | None
    kind: str
    code: str | None
    attempt: int | None
    late_report_id: Id | None
    at: Instant


class TaskEventPage(Wire, frozen=True, kw_only=True):
    items: list[TaskEventView]
    after: str
