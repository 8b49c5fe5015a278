"""Facts of one instance as decisions are given them: any state, always lawful, everything known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from pulseweave.core.pulse.change import LateReport, TaskSpec
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import (
    Holds,
    InReview,
    Phase,
    Queued,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskState,
)
from pulseweave.core.recovery.facts import RecoveryFacts, Scope, Sources, TaskHistory
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.draft import Draft, InstanceFacts
from pulseweave.core.weave.instance import Instance, Stop
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.states import (
    ENDED,
    InstanceState,
    LeafKind,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
)
from pulseweave.kernel import canonical
from tests.core.weave.definition.documents import compiled, task, task_of

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
INSTANCE_ID = "instance-1"
NAMESPACE = "acme"
APPLICATION = "shop"
BACKOFF = task_of(compiled(task("charge")), "charge").backoff

CANCEL = Stop(kind=StopKind.CANCEL, error='{"code":"CANCELLED","message":"because"}')
FAIL = Stop(kind=StopKind.FAIL, error='{"code":"BROKEN","message":"no"}')

QUEUED = Queued()
RUNNING = Running(token="token-1", expires_at=NOW + 30 * SECOND, stop_at=None)
IN_REVIEW = InReview()


def settled(state: TaskState, by: SettledBy = SettledBy.ATTEMPT) -> Settled:
    code = None if state is TaskState.SUCCEEDED else "BAD"
    return Settled(state=state, by=by, code=code, at=NOW - SECOND)


SUCCEEDED = settled(TaskState.SUCCEEDED)
FAILED = settled(TaskState.FAILED)
CANCELLED = settled(TaskState.CANCELLED, SettledBy.ENGINE)


def ids(prefix: str = "new") -> Callable[[], str]:
    """Ids in order, the same in every run."""
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"


def charge(**fields: object) -> Definition:
    """One task step ``charge`` and ``ship`` behind it."""
    return compiled(task("charge", **{"max_attempts": 3, **fields}), task("ship"))


def instance(state: InstanceState = InstanceState.RUNNING, **facts: Any) -> Instance:
    """A lawful instance in a state; what the state demands is filled in unless it is given."""
    demanded: dict[str, Any] = {}
    if state in (InstanceState.CANCELLING, InstanceState.CANCELLED):
        demanded["stop"] = CANCEL
    if state is InstanceState.FAILED:
        demanded["stop"] = FAIL
    if state is InstanceState.NEEDS_REVIEW:
        demanded["review_at"] = NOW - 5 * SECOND
    if state in ENDED:
        demanded["ended_at"] = NOW - 5 * SECOND
    plain: dict[str, Any] = {
        "id": INSTANCE_ID,
        "namespace": NAMESPACE,
        "application": APPLICATION,
        "definition_id": "definition-1",
        "definition_name": "order",
        "definition_version": 1,
        "instance_key": "k",
        "partition_id": 3,
        "input_digest": canonical.digest("{}"),
        "deadline_at": None,
        "created_at": NOW - 60 * SECOND,
        "created_by": "someone",
        "state": state,
        "revision": 9,
        "control_revision": 4,
        "journal_at": NOW - 2 * SECOND,
    }
    return Instance(**{**plain, **demanded, **facts}).check()


def leaf(state: LeafState = LeafState.ACTIVE, **facts: Any) -> Leaf:
    """A lawful activation in a state: the first of ``charge`` unless something else is said."""
    step_key = facts.get("step_key", "charge")
    sequence = facts.get("sequence", 1)
    demanded: dict[str, Any] = {}
    if state is LeafState.NEEDS_REVIEW:
        demanded = {"review_cause": ReviewCause.OUTCOME_UNKNOWN, "review_at": NOW - 5 * SECOND}
    if state in (LeafState.SUCCEEDED, LeafState.FAILED, LeafState.CANCELLED):
        demanded["settled_at"] = NOW - 5 * SECOND
    if state is LeafState.FAILED:
        demanded["error"] = '{"code":"BAD","message":"no"}'
    task_id = facts.get("task_id", f"task-{step_key}-{sequence}")
    if state is LeafState.SUCCEEDED:
        demanded["output"] = OutputRef(
            source=OutputSource.TASK, id=task_id or "", digest=canonical.digest('{"ok":true}')
        )
    plain: dict[str, Any] = {
        "id": f"{step_key}-{sequence}",
        "namespace": NAMESPACE,
        "instance_id": INSTANCE_ID,
        "step_key": step_key,
        "node_key": step_key,
        "sequence": sequence,
        "kind": LeafKind.TASK,
        "task_id": task_id,
        "retry_of": f"{step_key}-{sequence - 1}" if sequence > 1 else None,
        "entered_at": NOW - 30 * SECOND,
        "state": state,
        "revision": 3,
    }
    return Leaf(**{**plain, **demanded, **facts}).check()


def history(
    activation: Leaf,
    phase: Phase,
    *,
    attempts: int = 1,
    spec: Mapping[str, Any] | None = None,
    rows: Mapping[str, Any] | None = None,
    **facts: Any,
) -> TaskHistory:
    """The task of an activation and what its rows tell; its newest fact is consumed."""
    if isinstance(phase, Queued):
        attempts = facts.get("attempt_count", 0)
    if isinstance(phase, InReview):
        facts = {"tainted": True, **facts}
    held = Task(
        **{
            "id": activation.task_id,
            "namespace": NAMESPACE,
            "application": APPLICATION,
            "queue": "work",
            "partition_id": 3,
            "instance_id": INSTANCE_ID,
            "activation_id": activation.id,
            "effect": Effect.AT_MOST_ONCE,
            "priority": 0,
            "max_attempts": 3,
            "lease_ms": 30_000,
            "attempt_timeout_ms": None,
            "deadline_at": None,
            "start_by": None,
            "key": None,
            "phase": phase,
            "revision": 5,
            "attempt_count": attempts,
            "holds": Holds.NONE,
            **facts,
        }
    )
    held = replace(held, holds_key=held.needs_key)
    fixed: dict[str, Any] = {
        "task_id": held.id,
        "handler": "work.do",
        "input": "{}",
        "input_digest": canonical.digest("{}"),
        "backoff": BACKOFF,
        "business_key": None,
        "concurrency_key": None,
        "retry_of": None
        if activation.sequence == 1
        else f"task-{activation.step_key}-{activation.sequence - 1}",
        "task_key": None,
        "created_at": NOW - 30 * SECOND,
        "created_by": f"instance:{INSTANCE_ID}",
    }
    told = isinstance(phase, Settled | InReview)
    counted: dict[str, Any] = {
        "attempt_rows": held.attempt_count,
        "live_attempts": 1 if isinstance(phase, Running) else 0,
        "unknown_attempts": 1 if isinstance(phase, InReview) else 0,
        "consumed_revision": held.revision if told else None,
    }
    return TaskHistory(
        task=held, spec=TaskSpec(**{**fixed, **(spec or {})}), **{**counted, **(rows or {})}
    )


def known(
    at: Instance,
    definition: Definition,
    activations: Iterable[Leaf] = (),
    histories: Iterable[TaskHistory] = (),
    *,
    sources: Sources | None = None,
    late_reports: Iterable[LateReport] = (),
    foreign: Iterable[Leaf] = (),
    room: Mapping[Scope, int] | None = None,
) -> RecoveryFacts:
    """All that a recovery decision is made from. Activations know what of their tasks is consumed,
    unless they say something themselves.
    """
    told = {history.task.id: history for history in histories}
    every = tuple(_informed(activation, told) for activation in activations)
    current = {activation.step_key: activation for activation in every if activation.current}
    return RecoveryFacts(
        base=InstanceFacts(definition=definition, instance=at, leaves=current),
        activations=every,
        histories=told,
        sources=sources or Sources(),
        late_reports={report.id: report for report in late_reports},
        foreign=tuple(foreign),
        room=room or {},
    )


def _informed(activation: Leaf, told: Mapping[str, TaskHistory]) -> Leaf:
    history = told.get(activation.task_id or "")
    if history is None or history.consumed_revision is None or activation.task_state is not None:
        return activation
    task = history.task
    return replace(activation, task_state=task.state, task_revision=task.revision)


def draft(
    at: Instance,
    definition: Definition,
    leaves: Iterable[Leaf] = (),
    *,
    payloads: Mapping[str, object] | None = None,
    now: int = NOW,
) -> Draft:
    """A fresh draft of an instance; its input is ``{}`` unless payloads are given."""
    facts = InstanceFacts(
        definition=definition,
        instance=at,
        leaves={activation.step_key: activation for activation in leaves},
        payloads={"": {}} if payloads is None else payloads,
    )
    return Draft(facts, now=now, new_id=ids())
