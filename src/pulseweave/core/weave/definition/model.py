"""A compiled definition: what the engine reads while instances run.

Pure, immutable and safe to share between threads. A node that does work is a *leaf*; the others
arrange. What may never happen: two nodes with one key; a step that reads what need not be complete
where it stands (``compile.py`` sees to both).
"""

from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias, assert_never

from pulseweave.core.pulse.policy import Backoff, Effect, RetryPolicy
from pulseweave.core.weave.definition.contract import Contract
from pulseweave.core.weave.definition.mapping import Mapping
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

    ``place`` is the JSON Pointer of the step in the document. ``deadline_ms`` and
    ``start_within_ms`` count from its first activation.
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

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            attempt_timeout_ms=self.attempt_timeout_ms,
            lease_ms=self.lease_ms,
            effect=self.effect,
        )


class OnExhausted(StrEnum):
    """What it means that a poll ran out of rounds or time (WEA-7)."""

    REVIEW = "review"
    FAIL = "fail"  # the leaf fails, then its ``on_failure``


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalSignal:
    """A signal that is armed while a poll polls; its payload is classified like a result."""

    name: str
    correlation: Template | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollNode:
    """A leaf that asks until the answer is final (WEA-9).

    ``query`` says how to ask: its key and place are the poll's, its ``max_attempts`` are those of
    one round. ``query_deadline_ms`` counts from the first activation.
    """

    query: TaskNode
    interval_ms: int
    max_rounds: int
    query_deadline_ms: int | None
    mapping: Mapping
    on_exhausted: OnExhausted
    final_signal: FinalSignal | None

    @property
    def key(self) -> str:
        return self.query.key

    @property
    def place(self) -> str:
        return self.query.place

    @property
    def queue(self) -> str:
        return self.query.queue

    @property
    def output_contract(self) -> Contract | None:
        return self.query.output_contract

    @property
    def on_failure(self) -> OnFailure:
        return self.query.on_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalNode:
    """A leaf that waits for a signal (WEA-10). ``timeout_ms`` counts from its activation."""

    key: str
    place: str
    name: str
    correlation: Template | None
    output_contract: Contract | None
    timeout_ms: int | None
    on_timeout: OnFailure
    on_failure: OnFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerNode:
    """A leaf that waits for a time (WEA-11): ``for_ms`` after its activation, or the instant that
    ``until`` gives. One of them is None.
    """

    key: str
    place: str
    for_ms: int | None
    until: Template | None
    on_failure: OnFailure
    output_contract: ClassVar[None] = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceNode:
    """The first case whose condition holds, else ``otherwise``. Decided once (WEA-2).

    ``branches`` has the bodies of the cases, then that of ``else`` where there is one; None is an
    empty ``else``: nothing to do, output null.
    """

    key: str
    place: str
    conditions: tuple[Template, ...]
    branches: tuple[SequenceNode | None, ...]

    @property
    def has_else(self) -> bool:
        return len(self.branches) > len(self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    """The body once for each item, at most ``max_concurrency`` at a time (WEA-2).

    Expressions in the body read the item as ``item_name`` and its index as ``index_name``.
    """

    key: str
    place: str
    items: Template
    item_name: str
    max_concurrency: int
    body: SequenceNode

    @property
    def index_name(self) -> str:
        return f"{self.item_name}_index"


LeafNode: TypeAlias = TaskNode | PollNode | SignalNode | TimerNode
Node: TypeAlias = LeafNode | SequenceNode | ParallelNode | ChoiceNode | MapNode

#: What the leaves of each place are called: the maps around a step, outermost first.
Around: TypeAlias = tuple[MapNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of a workflow, addressed by the digest of its document as it was given (WEA-1).

    ``leaves`` and ``nodes`` are by step key; ``around`` has the maps around each keyed node.
    ``waits`` tells whether any of its leaves may wait for a time or a signal, ``scoped`` whether
    it has choices or maps.
    """

    name: str
    version: int
    description: str | None
    digest: str
    document_text: str
    input_contract: Contract | None
    output: Template | None
    root: SequenceNode
    leaves: Map[str, LeafNode]
    nodes: Map[str, Node]
    around: Map[str, Around]
    queues: tuple[str, ...]
    deadline_ms: int | None
    on_failure: OnFailure
    waits: bool
    scoped: bool

    @property
    def document(self) -> object:
        """The document as a new JSON value, so that nobody can change this one."""
        value: object = canonical.parse(self.document_text)
        return value


def children_of(node: Node) -> tuple[Node, ...]:
    match node:
        case TaskNode() | PollNode() | SignalNode() | TimerNode():
            return ()
        case SequenceNode(children=children):
            return children
        case ParallelNode(branches=branches):
            return tuple(branch for _, branch in branches)
        case ChoiceNode(branches=bodies):
            return tuple(body for body in bodies if body is not None)
        case MapNode(body=body):
            return (body,)
        case _:
            assert_never(node)


def query_node(leaf: LeafNode) -> TaskNode | None:
    """What Pulse executes for a leaf: a task's own node, a poll's query, nothing for what waits."""
    match leaf:
        case TaskNode():
            return leaf
        case PollNode(query=query):
            return query
        case SignalNode() | TimerNode():
            return None
        case _:
            assert_never(leaf)


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and everything in it, in the order of the document."""
    yield node
    for child in children_of(node):
        yield from nodes_of(child)


def leaves_of(node: Node) -> tuple[LeafNode, ...]:
    """The leaves in a node, in the order of the document."""
    return tuple(found for found in nodes_of(node) if isinstance(found, LeafNode))


def around_of(node: Node, outer: Around = ()) -> Iterator[tuple[str, Around]]:
    """Each keyed node in a node with the maps around it, outermost first."""
    if node.key:
        yield node.key, outer
    inner = (*outer, node) if isinstance(node, MapNode) else outer
    for child in children_of(node):
        yield from around_of(child, inner)


def templates_of(node: Node) -> tuple[Template, ...]:
    """The templates that are evaluated when a node is entered."""
    found: tuple[Template | None, ...] = ()
    match node:
        case TaskNode():
            found = (node.input, node.concurrency_key, node.business_key)
        case PollNode(query=query, final_signal=final):
            correlation = final.correlation if final is not None else None
            found = (*templates_of(query), correlation)
        case SignalNode(correlation=correlation):
            found = (correlation,)
        case TimerNode(until=until):
            found = (until,)
        case ChoiceNode(conditions=conditions):
            found = conditions
        case MapNode(items=items):
            found = (items,)
        case SequenceNode() | ParallelNode():
            pass
        case _:
            assert_never(node)
    return tuple(template for template in found if template is not None)


def output_leaves_of(node: Node) -> frozenset[str]:
    """Keys of the leaves that may make the node's output."""
    match node:
        case TaskNode() | PollNode() | SignalNode() | TimerNode():
            return frozenset({node.key})
        case SequenceNode(children=children):
            return output_leaves_of(children[-1])
        case ParallelNode() | ChoiceNode() | MapNode():
            return frozenset().union(*map(output_leaves_of, children_of(node)))
        case _:
            assert_never(node)
