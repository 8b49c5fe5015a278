"""ResolveStep: a person concludes a leaf whose executions are all known (RES-1 to RES-4).

It stores a conclusion and runs nothing; neither review nor stop is cleared. SUCCEEDED is final,
FAILED may still be replaced by SUCCEEDED or by a retry.
"""

from collections.abc import Callable
from dataclasses import replace

from pulseweave.core.recovery.command import ResolveStep
from pulseweave.core.recovery.evidence import find_leaf, refuse_command, refuse_unsettled
from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.core.recovery.ownership import refuse_foreign
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import LeafNode, PollNode, TimerNode
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.plan import Conclusion, InstancePlan
from pulseweave.core.weave.states import CloseReason, LeafState, OutputSource, WaitKind
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject

_RESOLVABLE = frozenset({LeafState.NEEDS_REVIEW, LeafState.FAILED, LeafState.CANCELLED})


def applies(facts: RecoveryFacts, command: ResolveStep) -> Leaf | Rejected:
    """Everything but what only a person can give."""
    refusal = refuse_command(facts, command)
    if refusal is not None:
        return refusal
    leaf = find_leaf(facts, command)
    if isinstance(leaf, Rejected):
        return leaf
    if leaf.state not in _RESOLVABLE or leaf.ignored:
        what = "an ignored failure" if leaf.ignored else leaf.state
        return reject("STEP_NOT_RESOLVABLE", f"step {leaf.step_key} is {what}", rule="RES-1")
    return (
        refuse_foreign(facts, leaf.step_key)
        or refuse_unsettled(facts.histories_of(leaf.step_key))
        or leaf
    )


def decide(
    facts: RecoveryFacts,
    command: ResolveStep,
    *,
    now: int,
    new_id: Callable[[], str],
    actor: str,
    operation_id: str,
) -> InstancePlan | Rejected:
    leaf = applies(facts, command)
    if isinstance(leaf, Rejected):
        return leaf
    text = _result(facts, command, leaf, now)
    if isinstance(text, Rejected):
        return text
    draft = Draft(facts.base, now=now, new_id=new_id)
    conclusion = Conclusion(
        id=new_id(),
        namespace=leaf.namespace,
        instance_id=leaf.instance_id,
        activation_id=leaf.id,
        operation_id=operation_id,
        verdict="SUCCEEDED" if command.succeeded else "FAILED",
        result=text,
        result_digest=canonical.digest(text),
        actor=actor,
        at=draft.now,
    )
    draft.conclusions.append(conclusion)
    draft.close_waits(leaf, CloseReason.SETTLED)
    draft.set_leaf(_concluded(leaf, conclusion, succeeded=command.succeeded, now=draft.now))
    return draft.finish(actor=actor, cause=command.OPERATION, control=True)


def _concluded(leaf: Leaf, conclusion: Conclusion, *, succeeded: bool, now: int) -> Leaf:
    concluded = replace(
        leaf, review_cause=None, review_at=None, conclusion_id=conclusion.id, settled_at=now
    )
    if succeeded:
        output = OutputRef(
            source=OutputSource.CONCLUSION, id=conclusion.id, digest=conclusion.result_digest
        )
        return replace(concluded, state=LeafState.SUCCEEDED, output=output, error=None)
    return replace(concluded, state=LeafState.FAILED, error=conclusion.result)


def _result(facts: RecoveryFacts, command: ResolveStep, leaf: Leaf, now: int) -> str | Rejected:
    """The output or the error that the conclusion keeps, if it is fit for one (RES-2)."""
    if command.result is None:
        return reject(
            "INVALID_COMMAND", "a conclusion needs a result", rule="RES-2", pointer="/result"
        )
    value = canonical.parse(command.result)
    if not command.succeeded:
        return _refuse_error(value) or command.result
    node = facts.base.definition.leaves[leaf.node_key]
    refusal = None
    if isinstance(node, PollNode):
        refusal = _refuse_answer(node, value)
    elif isinstance(node, TimerNode):
        refusal = _refuse_timer(facts, leaf, value, now)
    return refusal or _refuse_output(node, leaf, value) or command.result


def _refuse_answer(node: PollNode, value: object) -> Rejected | None:
    """A poll's output is an answer that its fixed mapping classifies as SUCCEEDED."""
    classification = node.mapping.classify(value)
    if classification is Classification.SUCCEEDED:
        return None
    told = classification.value if classification is not None else "nothing"
    return reject(
        "CLASSIFICATION_MISMATCH",
        f"the mapping of {node.key} makes {told} of this result, not SUCCEEDED",
        rule="RES-2",
        pointer="/result",
    )


def _refuse_timer(facts: RecoveryFacts, leaf: Leaf, value: object, now: int) -> Rejected | None:
    """A timer succeeds with null, and not before its time."""
    if value is not None:
        return reject(
            "INVALID_COMMAND", "a timer's result is null", rule="RES-2", pointer="/result"
        )
    wait = facts.last_wait(leaf, WaitKind.TIMER)
    if wait is None or wait.due_at is None or facts.no_earlier(now) < wait.due_at:
        return reject(
            "TIMER_NOT_DUE",
            f"the time of {leaf.step_key} has not come",
            rule="RES-2",
            due_at=wait.due_at if wait is not None else None,
        )
    return None


def _refuse_output(node: LeafNode, leaf: Leaf, value: object) -> Rejected | None:
    contract = node.output_contract
    problems = contract.check(value) if contract is not None else []
    if not problems:
        return None
    return reject(
        "CONTRACT_VIOLATION",
        f"the result does not meet the output contract of {leaf.step_key}",
        rule="RES-2",
        problems=[{"pointer": f"/result{p.pointer}", "message": p.message} for p in problems],
    )


def _refuse_error(value: object) -> Rejected | None:
    fits = (
        isinstance(value, dict)
        and {"code", "message"} <= value.keys() <= {"code", "message", "details"}
        and isinstance(value["code"], str)
        and bool(value["code"])
        and isinstance(value["message"], str)
    )
    if fits:
        return None
    return reject(
        "INVALID_COMMAND",
        'a FAILED conclusion needs {"code", "message", "details"?} with texts',
        rule="RES-2",
        pointer="/result",
    )
