"""The tree of an instance's steps with their states now: what people look at first.

Of a map with many items only those are shown that are not done, and the first ones.
"""

from typing import assert_never

import msgspec

from pulseweave.app.encode import activation_view, at
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
)
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.place import Path, key_at
from pulseweave.core.weave.scope import ScopeState
from pulseweave.txn.weave.detail import Detail
from pulseweave.wire.workflows import ItemCounts, StepView

ITEMS_SHOWN_MAX = 50

_KINDS = {TaskNode: "task", PollNode: "poll", SignalNode: "signal", TimerNode: "timer"}


def step_tree(detail: Detail) -> StepView:
    return _Tree(detail).view(detail.definition.root, (), None)


class _Tree:
    def __init__(self, detail: Detail) -> None:
        self.detail = detail
        self.current = {leaf.step_key: leaf for leaf in detail.activations if leaf.current}
        self.counts: dict[str, int] = {}
        for leaf in detail.activations:
            self.counts[leaf.step_key] = self.counts.get(leaf.step_key, 0) + 1
        self.waits = {wait.step_key: wait for wait in detail.waits if wait.armed}

    def view(self, node: Node, path: Path, label: str | None) -> StepView:
        match node:
            case TaskNode() | PollNode() | SignalNode() | TimerNode():
                return self._leaf(node, path, label)
            case SequenceNode(key=key, children=nodes):
                children = [self.view(child, path, None) for child in nodes]
                return _composite(key_at(key, path) if key else None, "sequence", children, label)
            case ParallelNode(key=key, branches=branches):
                children = [self.view(branch, path, name) for name, branch in branches]
                return _composite(key_at(key, path), "parallel", children, label)
            case ChoiceNode():
                return self._choice(node, path, label)
            case MapNode():
                return self._map(node, path, label)
            case _:
                assert_never(node)

    def _leaf(
        self, node: TaskNode | PollNode | SignalNode | TimerNode, path: Path, label: str | None
    ) -> StepView:
        key = key_at(node.key, path)
        leaf, wait = self.current.get(key), self.waits.get(key)
        return StepView(
            key=key,
            kind=_KINDS[type(node)],
            state=_leaf_state(leaf),
            label=label,
            activation=activation_view(leaf, self.detail.outputs) if leaf is not None else None,
            activations_count=self.counts.get(key, 0),
            waits_until=at(wait.next_at) if wait is not None else None,
        )

    def _choice(self, node: ChoiceNode, path: Path, label: str | None) -> StepView:
        """Only the branch that was taken has begun; the others are shown as they are written."""
        scope = self.detail.scopes.get(key_at(node.key, path))
        taken = scope.taken if scope is not None else None
        children = []
        for place, branch in enumerate(node.branches):
            name = "else" if place == len(node.conditions) else f"case {place + 1}"
            if branch is not None and taken in (None, place):
                children.append(self.view(branch, path, name))
        made = _composite(key_at(node.key, path), "choice", children, label)
        return made if children else _with_state(made, "SUCCEEDED" if scope else "WAITING")

    def _map(self, node: MapNode, path: Path, label: str | None) -> StepView:
        key = key_at(node.key, path)
        scope = self.detail.scopes.get(key)
        if scope is None:
            return _composite(key, "map", [], label)
        shown = sorted({*scope.open[:ITEMS_SHOWN_MAX], *range(min(scope.entered, ITEMS_SHOWN_MAX))})
        children = [
            self.view(node.body, (*path, index), f"item {index}")
            for index in shown[:ITEMS_SHOWN_MAX]
        ]
        made = _composite(key, "map", children, label, items=_counts(scope))
        if scope.done:
            return _with_state(made, "SUCCEEDED")
        return made if made.state not in ("SUCCEEDED", "WAITING") else _with_state(made, "ACTIVE")


def _counts(scope: ScopeState) -> ItemCounts:
    return ItemCounts(
        count=scope.count,
        entered=scope.entered,
        open=len(scope.open),
        done=scope.entered - len(scope.open),
    )


def _composite(
    key: str | None,
    kind: str,
    children: list[StepView],
    label: str | None,
    *,
    items: ItemCounts | None = None,
) -> StepView:
    return StepView(
        key=key, kind=kind, state=_state(children), label=label, children=children, items=items
    )


def _with_state(view: StepView, state: str) -> StepView:
    return msgspec.structs.replace(view, state=state)


def _leaf_state(leaf: Leaf | None) -> str:
    if leaf is None:
        return "WAITING"
    return "IGNORED" if leaf.ignored else leaf.state.value


_PRECEDENCE = ("NEEDS_REVIEW", "FAILED", "CANCELLED", "ACTIVE")


def _state(children: list[StepView]) -> str:
    """The gravest state among the children; done when all are, waiting when none has begun."""
    states = {child.state for child in children}
    for state in _PRECEDENCE:
        if state in states:
            return state
    if states and states <= {"SUCCEEDED", "IGNORED"}:
        return "SUCCEEDED"
    return "WAITING" if states <= {"WAITING"} else "ACTIVE"
