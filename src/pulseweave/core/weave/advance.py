"""Advance: evaluate the graph from its root, set the next leaves to work, or finish the instance
(WEA-16).

Sequences and parallels have no rows: what they are follows from their leaves. A choice or map keeps
what came out when it was entered (``scope``). A leaf that is entered gets its activation, and its
task or wait, in the same plan (``enter``).

What may never happen: a leaf is entered while the gate is closed; a leaf gets a second activation
here (only RetryStep makes one); more than UNSETTLED_TASKS_PER_INSTANCE_MAX leaves are under way
(PUL-16).
"""

from dataclasses import replace
from typing import assert_never

from pulseweave.core.weave.branching import enter_choice, enter_map
from pulseweave.core.weave.definition.model import (
    ChoiceNode,
    LeafNode,
    MapNode,
    Node,
    ParallelNode,
    PollNode,
    SequenceNode,
    SignalNode,
    TaskNode,
    TimerNode,
)
from pulseweave.core.weave.definition.template import ExpressionError
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.enter import enter
from pulseweave.core.weave.order import expression_error
from pulseweave.core.weave.place import Path, item_of, key_at
from pulseweave.core.weave.poll import next_round
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import InstanceState, StopKind
from pulseweave.core.weave.values import read_outputs, scope_for, taken_branch
from pulseweave.kernel import canonical, limits


def advance(draft: Draft) -> None:
    """Move the instance as far as its facts allow. Sets ``draft.missing`` when values must be
    loaded first.
    """
    if not draft.may_advance:
        return
    draft.evaluated()
    walk = _Walk(draft)
    done = walk.visit(draft.definition.root, (), "")
    if not draft.missing:
        draft.touched_items = walk.starved
    if done and _may_finish(draft):
        _finish(draft)


def _may_finish(draft: Draft) -> bool:
    """Nothing stopped the instance on the way, and no query is under way any more (WEA-15)."""
    return draft.may_advance and not draft.missing and not draft.instance.superseded


class _Walk:
    """One evaluation. A draft's first one looks at every open item of its maps, the later ones at
    those that moved since; the others are as open as they were. ``starved``: items in which a leaf
    would have been entered, had there been room.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.touched = draft.touched_items
        self.starved: set[str] = set()

    def visit(self, node: Node, path: Path, within: str) -> bool:
        """Whether the node is done; enters what may be entered on the way."""
        match node:
            case SequenceNode(children=children):
                return all(self.visit(child, path, within) for child in children)
            case ParallelNode(branches=branches):
                done = [self.visit(branch, path, within) for _, branch in branches]
                return all(done)
            case ChoiceNode():
                return self._choice(node, path, within)
            case MapNode():
                return self._map(node, path, within)
            case TaskNode() | PollNode() | SignalNode() | TimerNode():
                return self._leaf(node, path, within)
            case _:
                assert_never(node)

    @property
    def may_enter(self) -> bool:
        room = limits.UNSETTLED_TASKS_PER_INSTANCE_MAX - self.draft.under_way
        return room > 0 and self.draft.may_advance

    def _leaf(self, node: LeafNode, path: Path, within: str) -> bool:
        draft, key = self.draft, key_at(node.key, path)
        if key not in draft.leaves:
            if self.may_enter:
                enter(draft, node, path, within)
            else:
                self._starve(within)
        elif isinstance(node, PollNode) and draft.may_advance:
            next_round(draft, node, draft.leaves.get(key))
        leaf = draft.leaves.get(key)
        return leaf is not None and leaf.done

    def _starve(self, within: str) -> None:
        """Look at the item again as soon as something else moves, with the items around it."""
        while within:
            self.starved.add(within)
            scope_key, _, _ = within.rpartition("[")
            within = self.draft.scopes[scope_key].within

    def _choice(self, node: ChoiceNode, path: Path, within: str) -> bool:
        draft, key = self.draft, key_at(node.key, path)
        if key not in draft.scopes and draft.may_advance:
            enter_choice(draft, node, path, within)
        if key not in draft.scopes:
            return False
        branch = taken_branch(node, path, draft.scopes)
        return branch is None or self.visit(branch, path, within)

    def _map(self, node: MapNode, path: Path, within: str) -> bool:
        draft, key = self.draft, key_at(node.key, path)
        if key not in draft.scopes and draft.may_advance:
            enter_map(draft, node, path, within)
        scope = draft.scopes.get(key)
        if scope is None or scope.done:
            return scope is not None
        moved = self._items(node, path, scope)
        if moved != scope:
            draft.set_scope(moved)
        return moved.done

    def _items(self, node: MapNode, path: Path, scope: ScopeState) -> ScopeState:
        """Visit the open items, then enter the next ones in order, as many as may be under way."""
        touched = self._touched_of(scope)
        still = [
            index
            for index in scope.open
            if (touched is not None and index not in touched)
            or not self.visit(node.body, (*path, index), item_of(scope.scope_key, index))
        ]
        entered = scope.entered
        while (
            entered < scope.count
            and len(still) < node.max_concurrency
            and self.may_enter
            and not self.draft.missing
        ):
            item = item_of(scope.scope_key, entered)
            if not self.visit(node.body, (*path, entered), item):
                still.append(entered)
            entered += 1
        return replace(scope, entered=entered, open=tuple(still))

    def _touched_of(self, scope: ScopeState) -> set[int] | None:
        """Indexes of the scope's items to look at; None: all."""
        if self.touched is None:
            return None
        opening = f"{scope.scope_key}["
        return {
            int(item[len(opening) : -1])
            for item in self.touched
            if item.startswith(opening) and "[" not in item[len(opening) :]
        }


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
    draft.keep["output"] = text
    draft.move(InstanceState.SUCCEEDED)
    draft.instance = replace(
        draft.instance, ended_at=draft.now, output_digest=canonical.digest(text)
    )


def _output(draft: Draft) -> object:
    definition = draft.definition
    if definition.output is not None:
        scope = scope_for(draft, [definition.output], "", ())
        return None if scope is None else definition.output.evaluate(scope)
    found = read_outputs(draft, {"": (definition.root, ())})
    return None if found is None else found[""]
