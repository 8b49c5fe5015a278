"""Whether what is stored fits together: a step's history before it is built upon (RET-2), and the
whole graph before the instance goes on (CON-1).

Every mismatch refuses, and names the row; nothing is repaired here.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.weave.definition.model import (
    ChoiceNode,
    MapNode,
    Node,
    ParallelNode,
    PollNode,
    SequenceNode,
    SignalNode,
    TaskNode,
    TimerNode,
    query_node,
)
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.order import key_hash
from pulseweave.core.weave.place import Path, key_at
from pulseweave.core.weave.states import LeafKind, LeafState
from pulseweave.core.weave.values import taken_branch
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
    if {history.task.activation_id for history in histories} != {a.id for a in activations}:
        yield "an activation has no task"
    yield from _chain_problems(activations)
    yield from _round_problems(facts, leaf)
    for history in histories:
        yield from _task_problems(history, histories[0])
    for tasks in _rounds(facts, leaf):
        yield from _task_chain_problems(tasks)
        yield from _definition_problems(facts, leaf, tasks)


def _rounds(facts: RecoveryFacts, leaf: Leaf) -> list[list[TaskHistory]]:
    """The tasks that share a budget: all of a task's, for a poll those of each round."""
    if leaf.kind is not LeafKind.POLL:
        return [facts.histories_of(leaf.step_key)]
    last = leaf.round or 0
    return [facts.budget_of(replace(leaf, round=number)) for number in range(1, last + 1)]


def _round_problems(facts: RecoveryFacts, leaf: Leaf) -> Iterator[str]:
    """Rounds follow one another; a retry stays in the round of what it repeats (RET-9)."""
    rounds = [query.round for query in facts.queries if query.step_key == leaf.step_key]
    if leaf.kind is LeafKind.POLL and sorted(set(rounds)) != list(range(1, (leaf.round or 0) + 1)):
        yield f"the rounds of {leaf.step_key} are not contiguous from 1"


def _chain_problems(activations: tuple[Leaf, ...]) -> Iterator[str]:
    if activations[0].retry_of is not None:
        yield f"activation {activations[0].id} is the first and yet a retry"
    for earlier, later in pairwise(activations):
        if later.retry_of != earlier.id:
            yield f"activation {later.id} is not the retry of {earlier.id}"


def _task_chain_problems(histories: list[TaskHistory]) -> Iterator[str]:
    if histories and histories[0].spec.retry_of is not None:
        yield f"task {histories[0].task.id} is the first and yet a retry"
    for before, after in pairwise(histories):
        if after.spec.retry_of != before.task.id:
            yield f"task {after.task.id} is not the retry of {before.task.id}"
        if _instants(after) != _instants(before):
            yield f"task {after.task.id} has another deadline or latest start than its first"


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
    node = query_node(facts.base.definition.leaves[leaf.node_key])
    if node is None or not histories:
        yield f"step {leaf.step_key} has a task that the definition doesn't tell of"
    else:
        yield from _order_problems(node, histories)


def _order_problems(node: TaskNode, histories: list[TaskHistory]) -> Iterator[str]:
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
    )


def _instants(history: TaskHistory) -> tuple[int | None, int | None]:
    """Fixed with the first task of a round, and kept by its retries (RET-6)."""
    return history.task.deadline_at, history.task.start_by


# --- the graph ------------------------------------------------------------------------------------


def _leaf_problems(facts: RecoveryFacts) -> Iterator[str]:
    """A leaf whose task has settled has been told so (the event is consumed), and has moved."""
    armed = {wait.activation_id for wait in facts.waits if wait.armed}
    for leaf in facts.base.leaves.values():
        waits = leaf.id in armed
        if leaf.task_id is None:
            if leaf.state is LeafState.ACTIVE and not waits:
                yield f"step {leaf.step_key} waits for a task or signal that it does not have"
            continue
        task = facts.histories[leaf.task_id].task
        told = (leaf.task_state, leaf.task_revision) == (task.state, task.revision)
        moved = leaf.state is not LeafState.ACTIVE or (leaf.kind is LeafKind.POLL and waits)
        if task.settled and not (moved and told):
            yield f"step {leaf.step_key} is {leaf.state}; its task {task.id} is {task.state}"


def _place_problems(facts: RecoveryFacts) -> Iterator[str]:
    """Nothing has begun behind what is not done."""
    walk = _Walk(facts)
    walk.visit(facts.base.definition.root, ())
    for step_key in sorted(facts.base.leaves.keys() - walk.reached):
        yield f"step {step_key} has begun before what it follows was done"


class _Walk:
    """Goes where the flow may have come to, and notes the leaves there."""

    def __init__(self, facts: RecoveryFacts) -> None:
        self._leaves = facts.base.leaves
        self._scopes = facts.base.scopes
        self.reached: set[str] = set()

    def visit(self, node: Node, path: Path) -> bool:
        """Whether the node is done."""
        match node:
            case SequenceNode(children=children):
                return all(self.visit(child, path) for child in children)
            case ParallelNode(branches=branches):
                done = [self.visit(branch, path) for _, branch in branches]
                return all(done)
            case ChoiceNode():
                if key_at(node.key, path) not in self._scopes:
                    return False
                branch = taken_branch(node, path, self._scopes)
                return branch is None or self.visit(branch, path)
            case MapNode(body=body):
                scope = self._scopes.get(key_at(node.key, path))
                if scope is None:
                    return False
                items = [self.visit(body, (*path, index)) for index in range(scope.entered)]
                return scope.entered == scope.count and all(items)
            case TaskNode() | PollNode() | SignalNode() | TimerNode():
                key = key_at(node.key, path)
                self.reached.add(key)
                leaf = self._leaves.get(key)
                return leaf is not None and leaf.done
            case _:
                assert_never(node)
