"""RetryStep: a new activation of a task or poll, inside the original budget and deadline (RET-1 to
RET-9). A poll stays in its round.

Order of refusals, after what all commands check: STOP_REQUESTED, DEADLINE_PASSED, those of the
named activation, STEP_NOT_RETRYABLE, NOT_OWNED, EXECUTION_UNSETTLED, INBOX_PENDING,
ROUND_PENDING, STEP_NOT_RETRYABLE (a known success), DEADLINE_PASSED (the task's),
INTEGRITY_MISMATCH, BUDGET_EXHAUSTED, QUOTA_EXCEEDED.

What may never happen: more attempts or activations than the definition's ``max_attempts``; another
deadline, input or key than the first activation's; two successors of one task; a start before
Continue.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pulseweave.core.pulse.change import TaskCreated
from pulseweave.core.pulse.task import Queued, Task, TaskState
from pulseweave.core.recovery.command import RetryStep
from pulseweave.core.recovery.evidence import (
    find_leaf,
    refuse_command,
    refuse_expired,
    refuse_stop,
    refuse_unsettled,
)
from pulseweave.core.recovery.facts import Missing, RecoveryFacts, TaskHistory
from pulseweave.core.recovery.integrity import refuse_history
from pulseweave.core.recovery.ownership import refuse_foreign
from pulseweave.core.recovery.waiting import rearm_final_signal
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import query_node
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.poll import new_query
from pulseweave.core.weave.states import LeafKind, LeafState
from pulseweave.kernel.errors import Rejected, reject

_RETRYABLE = frozenset({LeafState.NEEDS_REVIEW, LeafState.FAILED, LeafState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retryable:
    """A leaf that may be retried, the tasks that share its budget, and what is left of it."""

    leaf: Leaf
    histories: list[TaskHistory]
    attempts_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRetried:
    plan: InstancePlan
    created: TaskCreated
    attempts_left: int


def applies(facts: RecoveryFacts, command: RetryStep, *, now: int) -> Retryable | Rejected:
    """Everything but what only a person can give."""
    refusal = refuse_command(facts, command) or refuse_stop(facts) or refuse_expired(facts, now)
    if refusal is not None:
        return refusal
    leaf = find_leaf(facts, command)
    if isinstance(leaf, Rejected):
        return leaf
    if leaf.state not in _RETRYABLE or leaf.ignored:
        what = "an ignored failure" if leaf.ignored else leaf.state
        return reject("STEP_NOT_RETRYABLE", f"step {leaf.step_key} is {what}", rule="RET-1")
    if leaf.task_id is None:
        return reject(
            "STEP_NOT_RETRYABLE",
            f"step {leaf.step_key} never had a task: there is nothing to repeat",
            rule="WEA-20",
        )
    foreign = refuse_foreign(facts, leaf.step_key)
    if foreign is not None:
        return foreign
    histories = facts.budget_of(leaf)
    return (
        _refuse_executions(facts, leaf, histories)
        or _refuse_instants(histories[0].task, facts.no_earlier(now))
        or refuse_history(facts, leaf)
        or _refuse_budget(facts, leaf, histories)
        or _refuse_quota(facts, histories[0].task)
        or Retryable(leaf=leaf, histories=histories, attempts_left=_left(facts, leaf, histories))
    )


def decide(
    facts: RecoveryFacts,
    command: RetryStep,
    *,
    now: int,
    new_id: Callable[[], str],
    actor: str,
) -> StepRetried | Rejected | Missing:
    retryable = applies(facts, command, now=now)
    if isinstance(retryable, Rejected):
        return retryable
    leaf = retryable.leaf
    draft = Draft(facts.base, now=now, new_id=new_id)
    successor = Leaf(
        id=new_id(),
        namespace=leaf.namespace,
        instance_id=leaf.instance_id,
        step_key=leaf.step_key,
        node_key=leaf.node_key,
        sequence=leaf.sequence + 1,
        within=leaf.within,
        kind=leaf.kind,
        round=leaf.round,
        deadline_at=leaf.deadline_at,
        task_id=new_id(),
        retry_of=leaf.id,
        entered_at=draft.now,
    )
    draft.supersede(leaf, successor)
    created = _successor_task(retryable, successor, now=draft.now)
    draft.tasks.append(created)
    if successor.kind is LeafKind.POLL:
        draft.open_query(new_query(successor, draft.now))
        rearm_final_signal(draft, facts, successor)
    if draft.missing:
        return Missing(frozenset(draft.missing))
    plan = draft.finish(actor=actor, cause=command.OPERATION, control=True)
    return StepRetried(plan=plan, created=plan.tasks[0], attempts_left=retryable.attempts_left)


def _successor_task(retryable: Retryable, successor: Leaf, *, now: int) -> TaskCreated:
    """Same input, keys and instants as the first activation's task; only the rest of its budget
    (RET-4, RET-6).
    """
    first, last = retryable.histories[0], retryable.histories[-1]
    task = Task(
        id=successor.task_id or "",
        namespace=first.task.namespace,
        application=first.task.application,
        queue=first.task.queue,
        partition_id=first.task.partition_id,
        instance_id=first.task.instance_id,
        activation_id=successor.id,
        effect=first.task.effect,
        priority=first.task.priority,
        max_attempts=retryable.attempts_left,
        lease_ms=first.task.lease_ms,
        attempt_timeout_ms=first.task.attempt_timeout_ms,
        deadline_at=first.task.deadline_at,
        start_by=first.task.start_by,
        key=first.task.key,
        phase=Queued(),
    )
    spec = replace(first.spec, task_id=task.id, retry_of=last.task.id, created_at=now)
    return TaskCreated(task=task, spec=spec)


def _refuse_executions(
    facts: RecoveryFacts, leaf: Leaf, histories: list[TaskHistory]
) -> Rejected | None:
    unsettled = refuse_unsettled(facts.histories_of(leaf.step_key))
    if unsettled is not None:
        return unsettled
    if facts.classified(leaf) is Classification.PENDING:
        return reject(
            "ROUND_PENDING",
            f"round {leaf.round} of {leaf.step_key} was answered PENDING: it is not asked again",
            rule="RET-9",
        )
    if any(h.task.state is TaskState.SUCCEEDED for h in histories):
        return reject(
            "STEP_NOT_RETRYABLE",
            f"an execution of {leaf.step_key} is known to have succeeded",
            rule="RET-1",
        )
    return None


def _refuse_instants(first: Task, now: int) -> Rejected | None:
    for name, instant in (("deadline", first.deadline_at), ("latest start", first.start_by)):
        if instant is not None and now >= instant:
            return reject(
                "DEADLINE_PASSED",
                f"the original task's {name} has passed",
                rule="RET-6",
                at=instant,
            )
    return None


def _left(facts: RecoveryFacts, leaf: Leaf, histories: list[TaskHistory]) -> int:
    """What is left of the definition's attempts (RET-4)."""
    original = _budget(facts, leaf)
    return original - sum(history.attempt_rows for history in histories)


def _budget(facts: RecoveryFacts, leaf: Leaf) -> int:
    """The definition's max_attempts; for a poll that of one round."""
    node = query_node(facts.base.definition.leaves[leaf.node_key])
    return node.max_attempts if node is not None else 0


def _refuse_budget(
    facts: RecoveryFacts, leaf: Leaf, histories: list[TaskHistory]
) -> Rejected | None:
    original = _budget(facts, leaf)
    used = original - _left(facts, leaf, histories)
    if used < original and len(histories) < original:
        return None
    return reject(
        "BUDGET_EXHAUSTED",
        f"{used} attempts and {len(histories)} activations are used, of {original} each",
        rule="RET-4" if used >= original else "RET-5",
        attempts_used=used,
        activations=len(histories),
        max_attempts=original,
    )


def _refuse_quota(facts: RecoveryFacts, task: Task) -> Rejected | None:
    """The new task needs room like any other (RET-7)."""
    for kind, name in (("application", task.application), ("queue", task.queue)):
        if facts.room.get((kind, task.namespace, name), 1) < 1:
            return reject(
                "QUOTA_EXCEEDED",
                f"the {kind} {name} has no room for another open task",
                rule="PUL-12",
            )
    return None
