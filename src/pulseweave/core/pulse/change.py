"""What a decision about tasks may ask the shell to write. The union is closed; the store knows each
member.

A decision answers with ``TaskChange`` (or refuses with ``Rejected``). The shell writes the
difference between ``before`` and ``after`` conditionally on before's state, token and revision, the
attempt rows, the late report, and last of all the event, whose place in its stream is given under
the stream lock (PUL-11).
"""

from dataclasses import dataclass

from pulseweave.core.pulse.policy import Backoff
from pulseweave.core.pulse.task import Outcome, ResultEvent, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What is fixed about a task besides its hot row. Texts are canonical JSON."""

    task_id: str
    handler: str
    input: str
    input_digest: str
    backoff: Backoff
    business_key: str | None
    concurrency_key: str | None
    retry_of: str | None
    task_key: str | None
    created_at: int
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOpened:
    """A start authorised this execution; inserting it and counting it are one write (PUL-2)."""

    task_id: str
    number: int
    lease_token: str
    worker: str
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptClosed:
    """The attempt's outcome as reported or as lost. Written once. Texts are canonical JSON."""

    task_id: str
    number: int
    outcome: Outcome
    ended_at: int
    closed_by: str
    code: str | None = None
    error: str | None = None
    result: str | None = None
    result_digest: str | None = None
    report_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateReport:
    """A report that came with a stale token: evidence that moves nothing (PUL-6)."""

    id: str
    namespace: str
    task_id: str
    attempt: int | None
    report_digest: str
    outcome: Outcome
    code: str | None
    error: str | None
    result: str | None
    result_digest: str | None
    received_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCreated:
    """A new task with its spec. ``task.holds`` already tells the gate's state."""

    task: Task
    spec: TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """One task before and after one decision, with what goes with it.

    ``unknown_settled_by``: id of the execution audit whose verdict settled this task's unknown
    attempts.
    """

    before: Task
    after: Task
    opened: AttemptOpened | None = None
    closed: AttemptClosed | None = None
    late: LateReport | None = None
    event: ResultEvent | None = None
    unknown_settled_by: str | None = None
