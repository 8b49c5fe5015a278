"""Advance: evaluate the graph from its root, set the next leaves to work, or finish the instance
(WEA-16).

Composite nodes have no rows: what they are follows from their leaves. A leaf that is entered gets
its activation and its task in the same plan; one whose input can't be evaluated gets an activation
FAILED without a task, then its ``on_failure`` (WEA-20).

What may never happen: a leaf is entered while the gate is closed; a leaf gets a second activation
here (only RetryStep makes one); a task's deadline lies behind its instance's (PUL-7).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from pulseweave.core.pulse.change import TaskCreated, TaskSpec
from pulseweave.core.pulse.task import Queued, Task
from pulseweave.core.weave.definition.model import (
    Definition,
    Node,
    ParallelNode,
    SequenceNode,
    TaskNode,
    output_of,
)
from pulseweave.core.weave.definition.template import ExpressionError, Scope, Template
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import decide_failure
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import InstanceState, LeafKind, LeafState, StopKind
from pulseweave.kernel import canonical, limits

#: Key under which the instance's input stands among a draft's payloads; step keys are never empty.
INPUT = ""


def advance(draft: Draft) -> None:
    """Move the instance as far as its facts allow. Sets ``draft.missing`` when outputs must be
    loaded first.
    """
    if not draft.may_advance:
        return
    draft.evaluated()
    if _evaluate(draft, draft.definition.root) and draft.may_advance:
        _finish(draft)


def _evaluate(draft: Draft, node: Node) -> bool:
    """Whether the node is done; enters what may be entered on the way."""
    match node:
        case SequenceNode(children=children):
            return all(_evaluate(draft, child) for child in children)
        case ParallelNode(branches=branches):
            done = [_evaluate(draft, branch) for _, branch in branches]
            return all(done)
        case TaskNode():
            leaf = draft.leaves.get(node.key)
            if leaf is None and draft.may_advance:
                leaf = _enter(draft, node)
            return leaf is not None and leaf.done
        case _:
            assert_never(node)


def _enter(draft: Draft, node: TaskNode) -> Leaf | None:
    scope = scope_for(draft, node.reads)
    if scope is None:
        return None
    leaf = Leaf(
        id=draft.new_id(),
        namespace=draft.instance.namespace,
        instance_id=draft.instance.id,
        step_key=node.key,
        node_key=node.key,
        sequence=1,
        kind=LeafKind.TASK,
        task_id=draft.new_id(),
        retry_of=None,
        entered_at=draft.now,
    )
    try:
        order = _evaluate_order(node, scope)
    except (ExpressionError, canonical.InvalidJson) as error:
        failed = replace(
            leaf,
            task_id=None,
            state=LeafState.FAILED,
            settled_at=draft.now,
            error=expression_error(error),
        )
        draft.set_leaf(failed)
        decide_failure(draft, failed)
        return draft.leaves[node.key]
    draft.set_leaf(leaf)
    draft.tasks.append(new_task(draft, node, leaf, order))
    return leaf


@dataclass(frozen=True, slots=True)
class _Order:
    """What a task's templates gave: texts in canonical JSON, keys as plain text."""

    input: str
    business_key: str | None
    concurrency_key: str | None


def _evaluate_order(node: TaskNode, scope: Scope) -> _Order:
    """Raises ExpressionError, or InvalidJson for what no payload or key may be (WEA-20)."""
    return _Order(
        input=canonical.encode_payload(node.input.evaluate(scope)),
        business_key=_key_text(node.business_key, scope),
        concurrency_key=_key_text(node.concurrency_key, scope),
    )


def _key_text(template: Template | None, scope: Scope) -> str | None:
    value = template.evaluate(scope) if template is not None else None
    if value is None:  # an expression that gives null gives no key
        return None
    text = value if isinstance(value, str) else canonical.encode(value)
    if len(text) > limits.CONCURRENCY_KEY_CHARS_MAX:
        bound = limits.CONCURRENCY_KEY_CHARS_MAX
        raise canonical.InvalidJson(f"a key has at most {bound} characters, this one {len(text)}")
    return text


def new_task(draft: Draft, node: TaskNode, leaf: Leaf, order: _Order) -> TaskCreated:
    """The task of a first activation: its instants are fixed here and never move (PUL-7)."""
    instance, now = draft.instance, draft.now
    task = Task(
        id=leaf.task_id or "",
        namespace=instance.namespace,
        application=instance.application,
        queue=node.queue,
        partition_id=instance.partition_id,
        instance_id=instance.id,
        activation_id=leaf.id,
        effect=node.effect,
        priority=node.priority,
        max_attempts=node.max_attempts,
        lease_ms=node.lease_ms,
        attempt_timeout_ms=node.attempt_timeout_ms,
        deadline_at=earliest(instance.deadline_at, after_ms(now, node.deadline_ms)),
        start_by=earliest(instance.deadline_at, after_ms(now, node.start_within_ms))
        if node.start_within_ms is not None
        else None,
        key=key_hash(instance.namespace, order.concurrency_key),
        phase=Queued(),
    )
    spec = TaskSpec(
        task_id=task.id,
        handler=node.handler,
        input=order.input,
        input_digest=canonical.digest(order.input),
        backoff=node.backoff,
        business_key=order.business_key,
        concurrency_key=order.concurrency_key,
        retry_of=None,
        task_key=None,
        created_at=now,
        created_by=f"instance:{instance.id}",
    )
    return TaskCreated(task=task, spec=spec)


def key_hash(namespace: str, concurrency_key: str | None) -> str | None:
    """Concurrency keys belong to a namespace; the hash is what indexes and locks see."""
    if concurrency_key is None:
        return None
    return canonical.digest_of([namespace, concurrency_key]).removeprefix("sha256:")


def after_ms(now: int, duration_ms: int | None) -> int | None:
    return None if duration_ms is None else now + duration_ms * 1000


def earliest(*instants: int | None) -> int | None:
    known = [instant for instant in instants if instant is not None]
    return min(known) if known else None


def expression_error(error: ExpressionError | canonical.InvalidJson) -> str:
    """The leaf's error: an expression that failed, or what it gave that can't be an input."""
    if isinstance(error, canonical.InvalidJson):
        return canonical.encode({"code": "INPUT_CONTRACT", "message": error.message})
    details = {"pointer": error.pointer, "expression": error.expression, "cause": error.code}
    return canonical.encode(
        {"code": "EXPRESSION_ERROR", "message": error.message, "details": details}
    )


def scope_for(draft: Draft, reads: frozenset[str]) -> Scope | None:
    """The values that an expression may see; None, with the gaps noted, while some are
    not loaded.
    """
    needed = {INPUT, *_leaves_read(draft.definition, reads)}
    gaps = {key for key in needed if key not in draft.payloads}
    if gaps:
        draft.missing |= gaps
        return None
    steps = {key: output_of(draft.definition.nodes[key], draft.payloads) for key in sorted(reads)}
    return Scope(input=draft.payloads[INPUT], steps=steps)


def _leaves_read(definition: Definition, reads: frozenset[str]) -> Iterator[str]:
    for key in sorted(reads):
        yield from sorted(definition.output_leaves[key])


def _finish(draft: Draft) -> None:
    """Everything is done: the output, and the end (WEA-15: every leaf is settled and consumed
    here).
    """
    definition = draft.definition
    try:
        output = _output(draft)
    except ExpressionError as error:
        draft.set_stop(StopKind.FAIL, {**canonical.parse(expression_error(error)), "step": None})
        return
    if draft.missing:
        return
    try:
        text = canonical.encode_payload(output)
    except canonical.InvalidJson as error:
        message = f"the output of {definition.name} can't be kept: {error.message}"
        draft.set_stop(StopKind.FAIL, {"code": "OUTPUT_CONTRACT", "message": message})
        return
    draft.output = text
    draft.move(InstanceState.SUCCEEDED)
    draft.instance = replace(
        draft.instance, ended_at=draft.now, output_digest=canonical.digest(text)
    )


def _output(draft: Draft) -> object:
    definition = draft.definition
    if definition.output is not None:
        scope = scope_for(draft, definition.output.reads)
        return None if scope is None else definition.output.evaluate(scope)
    needed = set(definition.output_leaves[INPUT])
    gaps = needed - draft.payloads.keys()
    if gaps:
        draft.missing |= gaps
        return None
    return output_of(definition.root, draft.payloads)
