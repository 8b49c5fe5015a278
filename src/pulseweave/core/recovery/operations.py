"""Which recovery operations apply to an instance now, and what blocks the others (REC-15, REC-19).

Made by asking the commands' own decision functions with everything filled in that the system knows,
so the answer can't disagree with what the command would say. What only a person can give is left
open.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from pulseweave.core.recovery import (
    continue_instance,
    continue_poll,
    rearm_wait,
    resolve_step,
    retry_step,
    review_task,
)
from pulseweave.core.recovery.command import (
    Continue,
    ContinuePoll,
    RearmWait,
    ResolveStep,
    RetryStep,
    ReviewTask,
)
from pulseweave.core.recovery.continue_instance import is_unresolved
from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.core.recovery.retry_step import Retryable
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import InstanceState, LeafKind
from pulseweave.kernel.errors import Rejected

RETRY_WARNING = (
    "The business key gives no idempotence: the outside operation's identity must be in the fixed "
    "input. A provider's own idempotency key may have expired."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationState:
    """One operation on one item: whether it applies, the refusal if not, and the ready command."""

    operation: str
    path: str
    refusal: Rejected | None
    command: Mapping[str, str | None]
    to_fill: tuple[str, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that needs a person: a leaf, or the instance itself (``leaf`` None)."""

    leaf: Leaf | None
    cause: str
    since: int
    operations: tuple[OperationState, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """What still needs whom before the instance can go on."""

    what: str
    who: str
    step_key: str | None = None
    task_id: str | None = None
    detail: str | None = None


def items(facts: RecoveryFacts, *, now: int) -> list[Item]:
    """The open review items of an instance, oldest first; none when it isn't in review.

    Where no step is unresolved the item is the instance itself: READY_TO_CONTINUE, or the code of
    what still forbids it.
    """
    instance = facts.base.instance
    if instance.state is not InstanceState.NEEDS_REVIEW:
        return []
    found: list[Item] = []
    for leaf in facts.base.leaves.values():
        if not is_unresolved(facts, leaf):
            continue
        cause = leaf.review_cause.value if leaf.review_cause is not None else leaf.state.value
        since = leaf.review_at or leaf.settled_at or leaf.entered_at
        found.append(
            Item(leaf=leaf, cause=cause, since=since, operations=_leaf_operations(facts, leaf, now))
        )
    if not found:
        since = instance.review_at or instance.journal_at
        last = _continue(facts, now)
        cause = last.refusal.code if last.refusal is not None else "READY_TO_CONTINUE"
        found.append(Item(leaf=None, cause=cause, since=since, operations=(last,)))
    return sorted(found, key=lambda item: item.since)


def _leaf_operations(facts: RecoveryFacts, leaf: Leaf, now: int) -> tuple[OperationState, ...]:
    return tuple(
        operation
        for operation in (
            _review(facts, leaf),
            _resolve(facts, leaf),
            _retry(facts, leaf, now),
            _continue_poll(facts, leaf, now),
            _rearm(facts, leaf, now),
            _continue(facts, now),
        )
        if operation is not None
    )


def _base(facts: RecoveryFacts) -> dict[str, str | None]:
    return {
        "expected_revision": str(facts.base.instance.revision),
        "reason": None,
        "evidence_ref": None,
    }


class _Evidence(TypedDict):
    expected_revision: int
    reason: str
    evidence_ref: str
    declared: bool


def _evidence(facts: RecoveryFacts) -> _Evidence:
    return {
        "expected_revision": facts.base.instance.revision,
        "reason": "-",
        "evidence_ref": "-",
        "declared": True,
    }


def _refusal(answer: object) -> Rejected | None:
    return answer if isinstance(answer, Rejected) else None


def _review(facts: RecoveryFacts, leaf: Leaf) -> OperationState | None:
    history = facts.histories.get(leaf.task_id or "")
    if history is None:
        return None
    command = ReviewTask(
        **_evidence(facts),
        task_id=history.task.id,
        expected_task_revision=history.task.revision,
        succeeded=True,
        result=None,
        late_report_id=None,
    )
    return OperationState(
        operation=ReviewTask.OPERATION,
        path="review-task",
        refusal=_refusal(review_task.applies(facts, command)),
        command={
            **_base(facts),
            "task_id": history.task.id,
            "expected_task_revision": str(history.task.revision),
            "execution_settled": None,
            "verdict": None,
            "result": None,
        },
        to_fill=("reason", "evidence_ref", "execution_settled", "verdict", "result"),
    )


def _step(facts: RecoveryFacts, leaf: Leaf) -> dict[str, str | None]:
    return {
        **_base(facts),
        "step_key": leaf.step_key,
        "activation_id": leaf.id,
        "expected_step_revision": str(leaf.revision),
    }


def _resolve(facts: RecoveryFacts, leaf: Leaf) -> OperationState:
    command = ResolveStep(
        **_evidence(facts),
        step_key=leaf.step_key,
        activation_id=leaf.id,
        expected_step_revision=leaf.revision,
        succeeded=True,
        result=None,
    )
    return OperationState(
        operation=ResolveStep.OPERATION,
        path="resolve-step",
        refusal=_refusal(resolve_step.applies(facts, command)),
        command={
            **_step(facts, leaf),
            "execution_settled": None,
            "verdict": None,
            "result": None,
        },
        to_fill=("reason", "evidence_ref", "execution_settled", "verdict", "result"),
        note="SUCCEEDED is final; FAILED may still be replaced by SUCCEEDED or a retry.",
    )


def _retry(facts: RecoveryFacts, leaf: Leaf, now: int) -> OperationState:
    command = RetryStep(
        **_evidence(facts),
        step_key=leaf.step_key,
        activation_id=leaf.id,
        expected_step_revision=leaf.revision,
    )
    answer = retry_step.applies(facts, command, now=now)
    note = RETRY_WARNING
    if isinstance(answer, Retryable):
        note = f"{answer.attempts_left} attempt(s) left. {RETRY_WARNING}"
    return OperationState(
        operation=RetryStep.OPERATION,
        path="retry-step",
        refusal=_refusal(answer),
        command={**_step(facts, leaf), "safe_to_retry": None},
        to_fill=("reason", "evidence_ref", "safe_to_retry"),
        note=note,
    )


def _continue_poll(facts: RecoveryFacts, leaf: Leaf, now: int) -> OperationState | None:
    if leaf.kind is not LeafKind.POLL:
        return None
    command = ContinuePoll(
        **_evidence(facts),
        step_key=leaf.step_key,
        activation_id=leaf.id,
        expected_step_revision=leaf.revision,
    )
    return OperationState(
        operation=ContinuePoll.OPERATION,
        path="continue-poll",
        refusal=_refusal(continue_poll.applies(facts, command, now=now)),
        command={**_step(facts, leaf), "pending_confirmed": None},
        to_fill=("reason", "evidence_ref", "pending_confirmed"),
    )


def _rearm(facts: RecoveryFacts, leaf: Leaf, now: int) -> OperationState | None:
    if leaf.kind not in (LeafKind.SIGNAL, LeafKind.TIMER):
        return None
    command = RearmWait(
        **_evidence(facts),
        step_key=leaf.step_key,
        activation_id=leaf.id,
        expected_step_revision=leaf.revision,
    )
    return OperationState(
        operation=RearmWait.OPERATION,
        path="rearm-wait",
        refusal=_refusal(rearm_wait.applies(facts, command, now=now)),
        command={**_step(facts, leaf), "wait_verified": None},
        to_fill=("reason", "evidence_ref", "wait_verified"),
    )


def _continue(facts: RecoveryFacts, now: int) -> OperationState:
    command = Continue(**_evidence(facts))
    return OperationState(
        operation=Continue.OPERATION,
        path="continue",
        refusal=continue_instance.applies(facts, command, now=now),
        command={**_base(facts), "review_resolved": None},
        to_fill=("reason", "evidence_ref", "review_resolved"),
    )


def blocking(facts: RecoveryFacts, *, now: int) -> list[Blocker]:
    """What keeps the instance from going on, in the order in which it has to be cleared
    (REC-19).
    """
    return list(_blocking(facts, now))


def _blocking(facts: RecoveryFacts, now: int) -> Iterator[Blocker]:
    instance = facts.base.instance
    if instance.ended:
        return
    if facts.sources.quarantined:
        yield Blocker(what="QUARANTINED_RECORD", who="admin", detail="inbox requeue")
    if facts.sources.pending or facts.sources.unconsumed:
        yield Blocker(what="RESULT_NOT_CONSUMED", who="engine")
    if instance.state is InstanceState.NEEDS_REVIEW:
        for leaf in facts.base.leaves.values():
            if is_unresolved(facts, leaf):
                cause = (
                    leaf.review_cause.value if leaf.review_cause is not None else leaf.state.value
                )
                yield Blocker(
                    what="STEP_UNRESOLVED",
                    who="workflows:recover",
                    step_key=leaf.step_key,
                    task_id=leaf.task_id,
                    detail=cause,
                )
        if instance.contradicted:
            yield Blocker(what="CONTRADICTION", who="workflows:recover")
        if instance.stop is None and instance.expired(facts.no_earlier(now)):
            yield Blocker(
                what="DEADLINE_PASSED",
                who="workflows:control",
                detail="cancel: after its deadline nothing else leads on",
            )
        yield Blocker(what="CONTINUE", who="workflows:recover")
    if instance.paused:
        yield Blocker(what="PAUSED", who="workflows:control")
    for history in facts.histories.values():
        if not history.task.settled and history.live_attempts:
            yield Blocker(what="EXECUTION_RUNNING", who="worker", task_id=history.task.id)
