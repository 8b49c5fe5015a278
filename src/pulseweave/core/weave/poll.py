"""A poll's rounds: what an answer means, when to ask again, when there is no use in it (WEA-9).

Classification first, limits second. States of a poll between its activation and its end: asking
(its task is under way), or waiting for the next round (an armed wait). What may never happen: a
round begins while the gate is closed; a round is asked again after its answer was PENDING; an
answer that the mapping doesn't classify moves the flow.
"""

from dataclasses import replace

from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import OnExhausted, PollNode, templates_of
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import fail
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.order import evaluate_order, new_task
from pulseweave.core.weave.place import path_of
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.states import (
    CloseReason,
    LeafState,
    ReviewCause,
    WaitKind,
    WaitState,
)
from pulseweave.core.weave.values import scope_for
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical

_ANSWER_CHARS_MAX = 2000


def collect_answer(
    draft: Draft, leaf: Leaf, value: object, *, output: OutputRef, answered_at: int
) -> Classification | None:
    """An answer, by a query or by the final signal, reaches its poll; tells what it means."""
    node = poll_node(draft, leaf)
    classification = node.mapping.classify(value)
    match classification:
        case Classification.SUCCEEDED:
            _succeed(draft, leaf, value, output)
        case Classification.FAILED:
            fail(draft, leaf, _answered_failed(value))
        case Classification.PENDING:
            pending(draft, leaf, answered_at=answered_at)
        case None:
            draft.review(leaf, ReviewCause.UNCLASSIFIED)
    return classification


def poll_node(draft: Draft, leaf: Leaf) -> PollNode:
    node = draft.definition.leaves[leaf.node_key]
    if not isinstance(node, PollNode):
        raise TypeError(f"{leaf.step_key} is no poll")
    return node


def _succeed(draft: Draft, leaf: Leaf, value: object, output: OutputRef) -> None:
    contract = draft.definition.leaves[leaf.node_key].output_contract
    if contract is not None and contract.check(value):
        draft.review(leaf, ReviewCause.OUTPUT_CONTRACT)
        return
    draft.close_waits(leaf, CloseReason.SETTLED)
    draft.set_leaf(replace(leaf, state=LeafState.SUCCEEDED, output=output, settled_at=draft.now))
    draft.payloads = {**draft.payloads, leaf.step_key: value}


def _answered_failed(value: object) -> str:
    error: dict[str, object] = {"code": "POLL_FAILED", "message": "the answer means FAILED"}
    if len(canonical.encode(value)) <= _ANSWER_CHARS_MAX:
        error["details"] = value
    return canonical.encode(error)


def pending(draft: Draft, leaf: Leaf, *, answered_at: int) -> None:
    """Not final: the next round is due an interval after the answer, if there is one (WEA-7)."""
    node = poll_node(draft, leaf)
    due_at = answered_at + node.interval_ms * 1000
    if draft.instance.stop is not None:
        draft.close_waits(leaf, CloseReason.STOP)
        draft.set_leaf(replace(leaf, state=LeafState.CANCELLED, settled_at=draft.now))
        return
    limit = limit_reached(node, leaf, due_at)
    if limit is not None:
        exhausted(draft, node, leaf, limit)
        return
    draft.set_leaf(leaf)
    draft.arm(leaf, WaitKind.ROUND, due_at=due_at)


def limit_reached(node: PollNode, leaf: Leaf, due_at: int) -> ReviewCause | None:
    """Why there is no next round, if there is none."""
    if (leaf.round or 0) >= node.max_rounds:
        return ReviewCause.ROUNDS_EXHAUSTED
    if leaf.deadline_at is not None and due_at >= leaf.deadline_at:
        return ReviewCause.QUERY_DEADLINE
    return None


def exhausted(draft: Draft, node: PollNode, leaf: Leaf, cause: ReviewCause) -> None:
    """Out of rounds or time: ``on_exhausted``."""
    if node.on_exhausted is OnExhausted.REVIEW:
        draft.review(leaf, cause)
        return
    message = f"still pending after round {leaf.round} of {node.max_rounds}"
    fail(draft, leaf, canonical.encode({"code": cause.value, "message": message}))


def next_round(draft: Draft, node: PollNode, leaf: Leaf | None) -> None:
    """Ask again, if the next round is due. The same input as in every round (RET-6)."""
    wait = _due_round(draft, leaf)
    if leaf is None or wait is None:
        return
    if leaf.deadline_at is not None and draft.now >= leaf.deadline_at:
        exhausted(draft, node, leaf, ReviewCause.QUERY_DEADLINE)
        return
    scope = scope_for(draft, templates_of(node), node.key, path_of(leaf.step_key))
    if scope is None:
        return
    order = evaluate_order(node.query, scope)
    draft.close_wait(wait, WaitState.FIRED)
    asked = replace(
        leaf,
        task_id=draft.new_id(),
        round=(leaf.round or 0) + 1,
        task_revision=None,
        task_state=None,
    )
    draft.set_leaf(asked)
    draft.tasks.append(new_task(draft, node.query, asked, order))
    draft.open_query(new_query(asked, draft.now))


def _due_round(draft: Draft, leaf: Leaf | None) -> Wait | None:
    if leaf is None or leaf.state is not LeafState.ACTIVE:
        return None
    for wait in draft.armed_of(leaf):
        if wait.kind is WaitKind.ROUND and wait.due_at is not None and wait.due_at <= draft.now:
            return wait
    return None


def new_query(leaf: Leaf, now: int) -> Query:
    """The row of the query that the leaf's task asks."""
    return Query(
        task_id=leaf.task_id or "",
        namespace=leaf.namespace,
        instance_id=leaf.instance_id,
        activation_id=leaf.id,
        step_key=leaf.step_key,
        round=leaf.round or 1,
        opened_at=now,
    )


def classify_result(
    draft: Draft,
    leaf: Leaf,
    query: Query | None,
    value: object,
    *,
    output: OutputRef,
    at: int,
) -> None:
    """A query's result: classified, kept with its round, and applied."""
    classification = collect_answer(draft, leaf, value, output=output, answered_at=at)
    if query is not None:
        close_query(draft, query, classification, at=at)


def close_query(
    draft: Draft, query: Query, classification: Classification | None, *, at: int
) -> None:
    draft.answer_query(query, replace(query, answered_at=at, classification=classification))
