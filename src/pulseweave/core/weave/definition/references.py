"""Whether every step that an expression reads exists and is complete where it is read (WEA-1).

Complete at a step is what certainly ended before it: the earlier siblings in each sequence around
it, with all that is inside them. Not the step itself, nothing around it, nothing later, nothing in
a sibling branch.
"""

from collections.abc import Iterator, Mapping
from typing import assert_never

from pulseweave.core.weave.definition.model import (
    Node,
    ParallelNode,
    SequenceNode,
    TaskNode,
    children_of,
    nodes_of,
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
        checker.check(output, frozenset(checker.paths), (root,))


class _Checker:
    """``paths``: step key → the nodes from the root down to it."""

    def __init__(self, root: SequenceNode, problems: Problems, *, all_built: bool) -> None:
        self.paths: Mapping[str, _Path] = dict(_paths((root,)))
        self._problems = problems
        self._all_built = all_built

    def visit(self, path: _Path, complete: frozenset[str]) -> None:
        """Check the node at the end of ``path``, which is entered when ``complete`` are."""
        node = path[-1]
        match node:
            case TaskNode():
                for template in (node.input, node.concurrency_key, node.business_key):
                    if template is not None:
                        self.check(template, complete, path)
            case SequenceNode(children=children):
                for child in children:
                    self.visit((*path, child), complete)
                    complete |= {found.key for found in nodes_of(child) if found.key}
            case ParallelNode(branches=branches):
                for _, branch in branches:
                    self.visit((*path, branch), complete)
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
        return "it comes later"


def _paths(path: _Path) -> Iterator[tuple[str, _Path]]:
    if path[-1].key:
        yield path[-1].key, path
    for child in children_of(path[-1]):
        yield from _paths((*path, child))
