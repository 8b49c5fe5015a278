"""Whether what is stored fits together: a step's history before it is built upon (RET-2), and the
whole graph before the instance goes on (CON-1).

Every mismatch refuses, and names the row; nothing is repaired here.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import assert_never

from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.weave.advance import key_hash
from pulseweave.core.weave.definition.model import Node, ParallelNode, SequenceNode, TaskNode
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import LeafState
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject


def refuse_history(facts: RecoveryFacts, leaf: Leaf) -> Rejected | None:
    """The history must be whole, unbroken and of one kind (RET-2)."""
    return _mismatch(_history_problems(facts, leaf), rule="RET-2", step_key=leaf.step_key)


def refuse_graph(facts: RecoveryFacts) -> Rejected | None:
    """Leaves must be what their tasks have told, and stand where the flow can have come to
    (CON-1).
    """
    problems = [*_leaf_problems(facts), *_place_problems(facts)]
    return _mismatch(iter(problems), rule="CON-1")


def _mismatch(problems: Iterator[str], *, rule: str, **detail: object) -> Rejected | None:
    problem = next(problems, None)
    return reject("INTEGRITY_MISMATCH", problem, rule=rule, **detail) if problem else None


# --- one step's history ---------------------------------------------------------------------------


def _history_problems(facts: RecoveryFacts, leaf: Leaf) -> Iterator[str]:
    activations = facts.activations_of(leaf.step_key)
    histories = facts.histories_of(leaf.step_key)
    if [a.sequence for a in activations] != list(range(1, len(activations) + 1)):
        yield "the sequence of activations is not contiguous from 1"
    if activations[-1].id != leaf.id:
        yield f"activation {activations[-1].id} comes after the current one"
    if len(histories) != len(activations):
        yield "an activation has no task"
    yield from _chain_problems(activations, histories)
    for history in histories:
        yield from _task_problems(history, histories[0])
    yield from _definition_problems(facts, leaf, histories)


def _chain_problems(activations: tuple[Leaf, ...], histories: list[TaskHistory]) -> Iterator[str]:
    if activations[0].retry_of is not None:
        yield f"activation {activations[0].id} is the first and yet a retry"
    if histories[0].spec.retry_of is not None:
        yield f"task {histories[0].task.id} is the first and yet a retry"
    for earlier, later in pairwise(activations):
        if later.retry_of != earlier.id:
            yield f"activation {later.id} is not the retry of {earlier.id}"
    for before, after in pairwise(histories):
        if after.spec.retry_of != before.task.id:
            yield f"task {after.task.id} is not the retry of {before.task.id}"


def _task_problems(history: TaskHistory, first: TaskHistory) -> Iterator[str]:
    task, spec = history.task, history.spec
    if history.attempt_rows != task.attempt_count:
        yield f"attempt rows of {task.id} are not its attempt_count"
    if canonical.digest(spec.input) != spec.input_digest:
        yield f"the input of {task.id} is not what its digest says"
    if key_hash(task.namespace, spec.concurrency_key) != task.key:
        yield f"the concurrency key of {task.id} is not what its hash says"
    if _fixed(history) != _fixed(first):
        yield f"task {task.id} differs in handler, input, queue, priority, keys or policy"


def _definition_problems(
    facts: RecoveryFacts, leaf: Leaf, histories: list[TaskHistory]
) -> Iterator[str]:
    """The tasks are what the fixed definition says, each with what was left of the budget
    (RET-4).
    """
    node = facts.base.definition.leaves[leaf.node_key]
    task, spec = histories[0].task, histories[0].spec
    told = (spec.handler, spec.backoff, task.queue, task.priority, task.effect)
    if told != (node.handler, node.backoff, node.queue, node.priority, node.effect) or (
        (task.lease_ms, task.attempt_timeout_ms) != (node.lease_ms, node.attempt_timeout_ms)
    ):
        yield "the task is not what the definition says"
    left = node.max_attempts
    for history in histories:
        if history.task.max_attempts != left:
            yield f"task {history.task.id} has a budget of {history.task.max_attempts}, not {left}"
        left -= history.attempt_rows


def _fixed(history: TaskHistory) -> tuple[object, ...]:
    task, spec = history.task, history.spec
    return (
        spec.handler,
        spec.input_digest,
        spec.backoff,
        spec.business_key,
        spec.concurrency_key,
        task.application,
        task.partition_id,
        task.queue,
        task.priority,
        task.effect,
        task.lease_ms,
        task.attempt_timeout_ms,
        task.deadline_at,
        task.start_by,
    )


# --- the graph ------------------------------------------------------------------------------------


def _leaf_problems(facts: RecoveryFacts) -> Iterator[str]:
    """A leaf whose task has settled has been told so (the event is consumed), and has moved."""
    for leaf in facts.base.leaves.values():
        if leaf.task_id is None:
            if leaf.state is LeafState.ACTIVE:
                yield f"step {leaf.step_key} waits for a task that it does not have"
            continue
        task = facts.histories[leaf.task_id].task
        told = (leaf.task_state, leaf.task_revision) == (task.state, task.revision)
        if task.settled and (leaf.state is LeafState.ACTIVE or not told):
            yield f"step {leaf.step_key} is {leaf.state}; its task {task.id} is {task.state}"


def _place_problems(facts: RecoveryFacts) -> Iterator[str]:
    """Nothing has begun behind what is not done."""
    leaves = facts.base.leaves
    reached: set[str] = set()
    _walk(facts.base.definition.root, facts, reached)
    for step_key in sorted(leaves.keys() - reached):
        yield f"step {step_key} has begun before what it follows was done"


def _walk(node: Node, facts: RecoveryFacts, reached: set[str]) -> bool:
    """Whether the node is done; notes the leaves that the flow may have come to."""
    match node:
        case SequenceNode(children=children):
            return all(_walk(child, facts, reached) for child in children)
        case ParallelNode(branches=branches):
            done = [_walk(branch, facts, reached) for _, branch in branches]
            return all(done)
        case TaskNode(key=key):
            reached.add(key)
            leaf = facts.base.leaves.get(key)
            return leaf is not None and leaf.done
        case _:
            assert_never(node)
