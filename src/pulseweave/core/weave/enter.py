"""Entering a leaf: its first activation, with its task or its wait, in one plan (WEA-16).

One whose expressions fail gets an activation FAILED without a task or wait, then its ``on_failure``
(WEA-20). A signal that came before its wait is taken at once (WEA-10); a timer whose time has come
fires at once, none ever fires early (WEA-11).
"""

from dataclasses import replace
from typing import assert_never

from pulseweave.core.weave.definition.model import (
    LeafNode,
    PollNode,
    SignalNode,
    TaskNode,
    TimerNode,
    templates_of,
)
from pulseweave.core.weave.definition.template import ExpressionError, Scope
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.due import fire
from pulseweave.core.weave.failure import decide_failure
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.order import (
    after_ms,
    earliest,
    evaluate_order,
    expression_error,
    key_text,
    new_task,
)
from pulseweave.core.weave.place import Path, key_at
from pulseweave.core.weave.poll import new_query
from pulseweave.core.weave.signal import take_kept
from pulseweave.core.weave.states import LeafKind, LeafState, WaitKind
from pulseweave.core.weave.values import scope_for
from pulseweave.kernel import canonical, instant


def enter(draft: Draft, node: LeafNode, path: Path, within: str) -> None:
    """Set the leaf to work; nothing while ``draft.missing`` has what its expressions read."""
    scope = scope_for(draft, templates_of(node), node.key, path)
    if scope is None:
        return
    leaf = Leaf(
        id=draft.new_id(),
        namespace=draft.instance.namespace,
        instance_id=draft.instance.id,
        step_key=key_at(node.key, path),
        node_key=node.key,
        within=within,
        sequence=1,
        kind=_KINDS[type(node)],
        round=1 if isinstance(node, PollNode) else None,
        task_id=None,
        retry_of=None,
        entered_at=draft.now,
    )
    try:
        _begin(draft, node, leaf, scope)
    except (ExpressionError, canonical.InvalidJson) as error:
        failed = replace(
            leaf, state=LeafState.FAILED, settled_at=draft.now, error=expression_error(error)
        )
        draft.set_leaf(failed)
        decide_failure(draft, failed)


_KINDS = {
    TaskNode: LeafKind.TASK,
    PollNode: LeafKind.POLL,
    SignalNode: LeafKind.SIGNAL,
    TimerNode: LeafKind.TIMER,
}


def _begin(draft: Draft, node: LeafNode, leaf: Leaf, scope: Scope) -> None:
    match node:
        case TaskNode():
            order = evaluate_order(node, scope)
            leaf = replace(leaf, task_id=draft.new_id())
            draft.set_leaf(leaf)
            draft.tasks.append(new_task(draft, node, leaf, order))
        case PollNode():
            _begin_poll(draft, node, leaf, scope)
        case SignalNode():
            deadline_at = earliest(draft.instance.deadline_at, after_ms(draft.now, node.timeout_ms))
            own = deadline_at if node.timeout_ms is not None else None
            correlation = key_text(node.correlation, scope)
            leaf = replace(leaf, deadline_at=own)
            draft.set_leaf(leaf)
            wait = draft.arm(
                leaf,
                WaitKind.SIGNAL,
                name=node.name,
                correlation=correlation,
                deadline_at=own,
            )
            take_kept(draft, wait)
        case TimerNode():
            due_at = _due_at(draft, node, scope)
            draft.set_leaf(leaf)
            wait = draft.arm(leaf, WaitKind.TIMER, due_at=due_at)
            if due_at <= draft.now:
                fire(draft, wait)
        case _:
            assert_never(node)


def _begin_poll(draft: Draft, node: PollNode, leaf: Leaf, scope: Scope) -> None:
    """The final signal is armed first: where it came before, nothing needs to be asked."""
    order = evaluate_order(node.query, scope)
    own = after_ms(draft.now, node.query_deadline_ms)
    deadline_at = earliest(draft.instance.deadline_at, own) if own is not None else None
    leaf = replace(leaf, deadline_at=deadline_at)
    final = node.final_signal
    correlation = key_text(final.correlation, scope) if final is not None else None
    draft.set_leaf(leaf)
    if final is not None:
        wait = draft.arm(
            leaf,
            WaitKind.SIGNAL,
            name=final.name,
            correlation=correlation,
            deadline_at=deadline_at,
        )
        take_kept(draft, wait)
        leaf = draft.leaves[leaf.step_key]
        if leaf.state is not LeafState.ACTIVE or draft.missing:
            return
    leaf = replace(leaf, task_id=draft.new_id())
    draft.set_leaf(leaf)
    draft.tasks.append(new_task(draft, node.query, leaf, order))
    draft.open_query(new_query(leaf, draft.now))


def _due_at(draft: Draft, node: TimerNode, scope: Scope) -> int:
    """Raises InvalidJson for what is no instant."""
    if node.until is None:
        return draft.now + (node.for_ms or 0) * 1000
    told = node.until.evaluate(scope)
    try:
        return instant.read_at(told if isinstance(told, str) else canonical.encode(told))
    except ValueError as error:
        raise canonical.InvalidJson(str(error)) from None
