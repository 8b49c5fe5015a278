"""The tree of an instance's steps with their states now: what people look at first."""

from collections.abc import Mapping

from pulseweave.app.encode import activation_view
from pulseweave.core.weave.definition.model import Node, ParallelNode, SequenceNode, TaskNode
from pulseweave.core.weave.leaf import Leaf
from pulseweave.txn.weave.detail import Detail
from pulseweave.wire.workflows import StepView


def step_tree(detail: Detail) -> StepView:
    current = {leaf.step_key: leaf for leaf in detail.activations if leaf.current}
    counts: dict[str, int] = {}
    for leaf in detail.activations:
        counts[leaf.step_key] = counts.get(leaf.step_key, 0) + 1
    return _view(detail.definition.root, current, counts, detail.outputs, label=None)


def _view(
    node: Node,
    current: Mapping[str, Leaf],
    counts: Mapping[str, int],
    outputs: Mapping[str, str],
    *,
    label: str | None,
) -> StepView:
    match node:
        case TaskNode(key=key):
            leaf = current.get(key)
            return StepView(
                key=key,
                kind="task",
                state=_leaf_state(leaf),
                label=label,
                activation=activation_view(leaf, outputs) if leaf is not None else None,
                activations_count=counts.get(key, 0),
            )
        case SequenceNode(key=key, children=nodes):
            children = [_view(child, current, counts, outputs, label=None) for child in nodes]
            return StepView(
                key=key, kind="sequence", state=_state(children), label=label, children=children
            )
        case ParallelNode(key=key, branches=branches):
            children = [
                _view(branch, current, counts, outputs, label=name) for name, branch in branches
            ]
            return StepView(
                key=key, kind="parallel", state=_state(children), label=label, children=children
            )


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
    if states <= {"SUCCEEDED", "IGNORED"}:
        return "SUCCEEDED"
    return "WAITING" if states == {"WAITING"} else "ACTIVE"
