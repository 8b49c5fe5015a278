"""Whether every step that an expression reads exists and is complete where it is read (WEA-1).

Complete at a step is what certainly ended before it: the earlier siblings in each sequence around
it, with all that is inside them. Not the step itself, nothing around it, nothing later, nothing in
a sibling branch. From outside a choice or map nothing in it is read but its own output: which of
its steps ran, and how often, is not fixed.
"""

from collections.abc import Iterator, Mapping
from typing import assert_never

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
    children_of,
    templates_of,
)
from pulseweave.core.weave.definition.problems import ProblemCode, Problems, did_you_mean
from pulseweave.core.weave.definition.template import Template

_Path = tuple[Node, ...]


def check_references(
    root: SequenceNode, output: Template | None, problems: Problems, *, all_built: bool
) -> None:
    """Note each reading of a step that is unknown or need not be complete there.

    Where not ``all_built``, a step that is unknown may be one that could not be built, so nothing
    is said of it.
    """
    checker = _Checker(root, problems, all_built=all_built)
    checker.visit((root,), frozenset())
    if output is not None:
        checker.check(output, frozenset(_readable(root)), (root,))


class _Checker:
    """``paths``: step key → the nodes from the root down to it."""

    def __init__(self, root: SequenceNode, problems: Problems, *, all_built: bool) -> None:
        self.paths: Mapping[str, _Path] = dict(_paths((root,)))
        self._problems = problems
        self._all_built = all_built

    def visit(self, path: _Path, complete: frozenset[str]) -> None:
        """Check the node at the end of ``path``, which is entered when ``complete`` are."""
        node = path[-1]
        for template in templates_of(node):
            self.check(template, complete, path)
        match node:
            case TaskNode() | PollNode() | SignalNode() | TimerNode():
                pass
            case SequenceNode(children=children):
                for child in children:
                    self.visit((*path, child), complete)
                    complete |= set(_readable(child))
            case ParallelNode() | ChoiceNode() | MapNode():
                for body in children_of(node):
                    self.visit((*path, body), complete)
            case _:
                assert_never(node)

    def check(self, template: Template, complete: frozenset[str], reading: _Path) -> None:
        """Check what a template reads; ``reading`` leads to the node that it belongs to."""
        for placed in template.expressions:
            for key in sorted(placed.expression.reads - complete):
                if key in self.paths:
                    message = f"{key!r} need not be complete here: {self._reason(key, reading)}"
                    self._problems.add(placed.place, ProblemCode.NOT_COMPLETE_HERE, message)
                elif self._all_built:
                    message = f"no step has the key {key!r}{did_you_mean(key, self.paths)}"
                    self._problems.add(placed.place, ProblemCode.UNKNOWN_STEP, message)

    def _reason(self, key: str, reading: _Path) -> str:
        read = self.paths[key]
        if read[-1] is reading[-1]:
            return "a step can't read its own output"
        if any(node is read[-1] for node in reading):
            return "it is complete only when this step is"
        shared = [one for one, other in zip(read, reading, strict=False) if one is other]
        if isinstance(shared[-1], ParallelNode):
            return f"it stands in another branch of {shared[-1].key!r}; read it behind that step"
        if isinstance(shared[-1], ChoiceNode):
            return f"it stands in another case of {shared[-1].key!r}"
        inside = next(
            (n for n in read[len(shared) : -1] if isinstance(n, ChoiceNode | MapNode)), None
        )
        if inside is not None:
            return f"it is inside of {inside.key!r}, whose own output can be read"
        return "it comes later"


def _readable(node: Node) -> Iterator[str]:
    """Keys that can be read once the node is complete."""
    if node.key:
        yield node.key
    if not isinstance(node, ChoiceNode | MapNode):
        for child in children_of(node):
            yield from _readable(child)


def _paths(path: _Path) -> Iterator[tuple[str, _Path]]:
    if path[-1].key:
        yield path[-1].key, path
    for child in children_of(path[-1]):
        yield from _paths((*path, child))
