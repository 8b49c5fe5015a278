"""Values that decisions need: outputs, items, inputs, by the names under which a draft has them.

``INPUT`` is the instance's input; a step key is the output of that leaf; ``items/…`` is a page of a
map's items, ``outputs/…`` all that makes a finished map's output. A value that is not loaded yet is
noted in ``Draft.missing``; the shell loads it and asks again.
"""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from pulseweave.core.weave.definition.model import (
    Around,
    ChoiceNode,
    Definition,
    MapNode,
    Node,
    ParallelNode,
    PollNode,
    SequenceNode,
    SignalNode,
    TaskNode,
    TimerNode,
)
from pulseweave.core.weave.definition.template import Scope, Template
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.place import Path, key_at
from pulseweave.core.weave.scope import ScopeState

#: Step keys are never empty, and have no slash.
INPUT = ""
OUTPUTS = "outputs/"
ITEMS = "items/"
SIGNALS = "signals/"
SIGNAL = "signal/"
#: Items of a map are kept and loaded by pages.
PAGE_ITEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What outputs are made of: leaves' outputs by step key, and what was chosen and counted."""

    values: Mapping[str, object]
    scopes: Mapping[str, ScopeState]

    def with_stored(self, stored: object) -> "Outputs":
        """Together with what is stored of a map; what this decision has come to goes first."""
        if not isinstance(stored, Outputs):
            return self
        values = ChainMap(dict(self.values), dict(stored.values))
        return Outputs(values=values, scopes=ChainMap(dict(self.scopes), dict(stored.scopes)))


def items_name(scope_key: str, index: int) -> str:
    """The page that has an item."""
    return f"{ITEMS}{scope_key}/{index // PAGE_ITEMS}"


def output_of(node: Node, path: Path, known: Outputs) -> object:
    """A complete node's output (WEA-2): a leaf's is its own, a sequence's that of its last child, a
    parallel's an object by branch, a choice's the branch's, a map's the array of its bodies'.
    """
    match node:
        case TaskNode() | PollNode() | SignalNode() | TimerNode():
            return known.values[key_at(node.key, path)]
        case SequenceNode(children=children):
            return output_of(children[-1], path, known)
        case ParallelNode(branches=branches):
            return {name: output_of(branch, path, known) for name, branch in branches}
        case ChoiceNode():
            branch = taken_branch(node, path, known.scopes)
            return None if branch is None else output_of(branch, path, known)
        case MapNode(body=body):
            key = key_at(node.key, path)
            within = known.with_stored(known.values.get(OUTPUTS + key))
            count = within.scopes[key].count
            return [output_of(body, (*path, index), within) for index in range(count)]
        case _:
            assert_never(node)


def taken_branch(
    node: ChoiceNode, path: Path, scopes: Mapping[str, ScopeState]
) -> SequenceNode | None:
    """The branch that a choice took; None for an empty ``else``."""
    taken = scopes[key_at(node.key, path)].taken
    return node.branches[taken] if taken is not None else None


def needed_for(node: Node, path: Path, scopes: Mapping[str, ScopeState]) -> Iterator[str]:
    """Names of the values that a complete node's output is made of."""
    match node:
        case TaskNode() | PollNode() | SignalNode() | TimerNode():
            yield key_at(node.key, path)
        case SequenceNode(children=children):
            yield from needed_for(children[-1], path, scopes)
        case ParallelNode(branches=branches):
            for _, branch in branches:
                yield from needed_for(branch, path, scopes)
        case ChoiceNode():
            taken = taken_branch(node, path, scopes)
            if taken is not None:
                yield from needed_for(taken, path, scopes)
        case MapNode():
            yield OUTPUTS + key_at(node.key, path)
        case _:
            assert_never(node)


def read_outputs(draft: Draft, nodes: Mapping[str, tuple[Node, Path]]) -> dict[str, object] | None:
    """Outputs of complete nodes; None, with the gaps noted, while some values are not loaded."""
    needed = {
        name for node, path in nodes.values() for name in needed_for(node, path, draft.scopes)
    }
    if not has(draft, needed):
        return None
    known = Outputs(values=draft.payloads, scopes=draft.scopes)
    return {key: output_of(node, path, known) for key, (node, path) in nodes.items()}


def has(draft: Draft, names: Iterable[str]) -> bool:
    """Whether all these values are loaded; notes those that are not."""
    gaps = {name for name in names if name not in draft.payloads}
    draft.missing |= gaps
    return not gaps


def scope_for(draft: Draft, templates: Iterable[Template], key: str, path: Path) -> Scope | None:
    """What the templates of the node ``key`` may see at ``path``; None, with the gaps noted, while
    some values are not loaded.
    """
    given = list(templates)
    definition = draft.definition
    reads = sorted({step for template in given for step in template.reads})
    names = {name for template in given for name in template.names}
    steps = read_outputs(draft, {step: _place(definition, step, path) for step in reads})
    around: Around = definition.around.get(key, ())
    loaded = has(draft, [INPUT, *_pages(around, path, names)])
    if steps is None or not loaded:
        return None
    items = dict(_items(draft, around, path, names))
    return Scope(input=draft.payloads[INPUT], steps=steps, names=items)


def _place(definition: Definition, step: str, path: Path) -> tuple[Node, Path]:
    """A step that is read: in the same items as far as both stand in them."""
    return definition.nodes[step], path[: len(definition.around[step])]


def _pages(around: Around, path: Path, names: set[str]) -> Iterator[str]:
    for depth, node in enumerate(around):
        if node.item_name in names:
            yield items_name(key_at(node.key, path[:depth]), path[depth])


def _items(
    draft: Draft, around: Around, path: Path, names: set[str]
) -> Iterator[tuple[str, object]]:
    for depth, node in enumerate(around):
        index = path[depth]
        if node.index_name in names:
            yield node.index_name, index
        if node.item_name in names:
            page = draft.payloads[items_name(key_at(node.key, path[:depth]), index)]
            yield node.item_name, page[index % PAGE_ITEMS] if isinstance(page, list) else None
