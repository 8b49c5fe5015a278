"""A compiled definition: what the engine reads while instances run.

Pure, immutable and safe to share between threads. A node that does work is a *leaf*; the others
arrange. What may never happen: two nodes with one key; a step that reads what need not be complete
where it stands (``compile.py`` sees to both).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from pulseweave.core.pulse.policy import Backoff, Effect, RetryPolicy
from pulseweave.core.weave.definition.contract import Contract
from pulseweave.core.weave.definition.template import Template
from pulseweave.kernel import canonical


class OnFailure(StrEnum):
    """What a failed leaf means for its instance (WEA-8)."""

    FAIL = "fail"  # the instance is to stop
    REVIEW = "review"  # a person decides
    IGNORE = "ignore"  # the error becomes the output, and the flow goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNode:
    """A leaf that Pulse executes.

    ``place`` is the JSON Pointer of the step in the document; ``reads`` has the keys of the steps
    that any of its templates reads, as written. ``deadline_ms`` and ``start_within_ms`` count from
    its first activation.
    """

    key: str
    place: str
    queue: str
    handler: str
    input: Template
    output_contract: Contract | None
    effect: Effect
    max_attempts: int
    backoff: Backoff
    attempt_timeout_ms: int | None
    lease_ms: int
    deadline_ms: int | None
    start_within_ms: int | None
    priority: int
    concurrency_key: Template | None
    business_key: Template | None
    on_failure: OnFailure
    reads: frozenset[str]

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            attempt_timeout_ms=self.attempt_timeout_ms,
            lease_ms=self.lease_ms,
            effect=self.effect,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceNode:
    """Children one after the other; ``key`` is None for the root and for branches."""

    key: str | None
    place: str
    children: tuple["Node", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelNode:
    """Branches side by side, in the order of their names."""

    key: str
    place: str
    branches: tuple[tuple[str, SequenceNode], ...]


Leaf: TypeAlias = TaskNode
Node: TypeAlias = TaskNode | SequenceNode | ParallelNode

#: Under this key ``Definition.output_leaves`` has the root sequence.
ROOT = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of a workflow, addressed by the digest of its document as it was given (WEA-1).

    ``leaves`` and ``nodes`` are by step key. ``output_leaves`` tells for each
    key (and for ROOT) which leaves' outputs ``output_of`` needs.
    """

    name: str
    version: int
    description: str | None
    digest: str
    document_text: str
    input_contract: Contract | None
    output: Template | None
    root: SequenceNode
    leaves: Mapping[str, Leaf]
    nodes: Mapping[str, Node]
    output_leaves: Mapping[str, frozenset[str]]
    queues: tuple[str, ...]
    deadline_ms: int | None
    on_failure: OnFailure

    @property
    def document(self) -> object:
        """The document as a new JSON value, so that nobody can change this one."""
        value: object = canonical.parse(self.document_text)
        return value


def children_of(node: Node) -> tuple[Node, ...]:
    match node:
        case TaskNode():
            return ()
        case SequenceNode(children=children):
            return children
        case ParallelNode(branches=branches):
            return tuple(branch for _, branch in branches)
        case _:
            assert_never(node)


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and everything in it, in the order of the document."""
    yield node
    for child in children_of(node):
        yield from nodes_of(child)


def leaves_of(node: Node) -> tuple[Leaf, ...]:
    """The leaves in a node, in the order of the document."""
    return tuple(found for found in nodes_of(node) if isinstance(found, TaskNode))


def output_leaves_of(node: Node) -> frozenset[str]:
    """Keys of the leaves whose outputs make the node's output."""
    match node:
        case TaskNode(key=key):
            return frozenset({key})
        case SequenceNode(children=children):
            return output_leaves_of(children[-1])
        case ParallelNode(branches=branches):
            return frozenset().union(*(output_leaves_of(branch) for _, branch in branches))
        case _:
            assert_never(node)


def output_of(node: Node, outputs: Mapping[str, object]) -> object:
    """The node's output, given those of its ``output_leaves`` (WEA-2).

    A task's is its own, a sequence's that of its last child, a parallel's an object by branch name.
    """
    match node:
        case TaskNode(key=key):
            return outputs[key]
        case SequenceNode(children=children):
            return output_of(children[-1], outputs)
        case ParallelNode(branches=branches):
            return {name: output_of(branch, outputs) for name, branch in branches}
        case _:
            assert_never(node)
