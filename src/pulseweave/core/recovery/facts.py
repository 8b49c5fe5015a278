"""What recovery decisions are made from: the instance, the whole execution history, and its
sources.

Loaded after every lock was taken (REC-6). Nothing here is believed because a person says so
(REC-11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulseweave.core.pulse.change import LateReport, TaskSpec
from pulseweave.core.pulse.task import Task
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import PollNode
from pulseweave.core.weave.draft import InstanceFacts
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.states import LeafKind, WaitKind
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical

#: ("application" | "queue", namespace, name)
Scope = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """One task with what its rows tell: attempts counted, still running, and of unknown outcome."""

    task: Task
    spec: TaskSpec
    attempt_rows: int
    live_attempts: int
    unknown_attempts: int
    consumed_revision: int | None  # task_revision of its newest PROCESSED inbox record


@dataclass(frozen=True, slots=True)
class Missing:
    """A decision needs these values first (core.weave.values); it is asked again with them."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The state of the instance's inbox and stream (REC-4)."""

    pending: int = 0
    quarantined: int = 0
    unconsumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFacts:
    """``activations``: every activation of the instance; ``foreign``: those of other instances that
    name a task of this one. ``histories``: by id, every task of the instance, every task that its
    activations name, and every direct successor of these, whoever's they are (REC-9). ``queries``
    and ``waits``: all of the instance's, in order. ``results``: canonical texts of the results of
    the queries that polls asked last. ``room``: open tasks that quotas still allow, by scope;
    absent means no limit (PUL-12).
    """

    base: InstanceFacts
    activations: tuple[Leaf, ...]
    histories: Mapping[str, TaskHistory]
    sources: Sources
    foreign: tuple[Leaf, ...] = ()
    queries: tuple[Query, ...] = ()
    waits: tuple[Wait, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    late_reports: Mapping[str, LateReport] = field(default_factory=dict)
    room: Mapping[Scope, int] = field(default_factory=dict)

    def activations_of(self, step_key: str) -> tuple[Leaf, ...]:
        """Activations of one leaf by sequence."""
        found = (a for a in self.activations if a.step_key == step_key)
        return tuple(sorted(found, key=lambda leaf: leaf.sequence))

    def histories_of(self, step_key: str) -> list[TaskHistory]:
        """Every task of one leaf by sequence; their ownership has been checked."""
        return [
            self.histories[task_id]
            for activation in self.activations_of(step_key)
            for task_id in self.task_ids_of(activation)
        ]

    def task_ids_of(self, activation: Leaf) -> list[str]:
        """The tasks that an activation has had: one, or for a poll one in each round."""
        if activation.kind is LeafKind.POLL:
            return [q.task_id for q in self.queries if q.activation_id == activation.id]
        return [activation.task_id] if activation.task_id is not None else []

    def owner_of(self, task_id: str) -> Leaf | None:
        """The activation that says the task is its own."""
        for activation in self.activations:
            if task_id == activation.task_id or task_id in self.task_ids_of(activation):
                return activation
        return None

    def budget_of(self, leaf: Leaf) -> list[TaskHistory]:
        """The tasks that share one budget of attempts, by sequence: those of the leaf, for a poll
        those of its present round (RET-4).
        """
        histories = self.histories_of(leaf.step_key)
        if leaf.kind is not LeafKind.POLL:
            return histories
        same = {
            q.task_id for q in self.queries if (q.step_key, q.round) == (leaf.step_key, leaf.round)
        }
        return [history for history in histories if history.task.id in same]

    def last_wait(self, leaf: Leaf, kind: WaitKind) -> Wait | None:
        """The newest wait of a kind that the leaf had armed, in any of its activations."""
        found = [w for w in self.waits if (w.step_key, w.kind) == (leaf.step_key, kind)]
        return max(found, key=lambda wait: wait.generation, default=None)

    def classified(self, leaf: Leaf) -> Classification | None:
        """What the fixed mapping makes of the answer that a poll got last, by report or verdict."""
        node = self.base.definition.leaves[leaf.node_key]
        text = self.results.get(leaf.task_id or "")
        if text is None or not isinstance(node, PollNode):
            return None
        return node.mapping.classify(canonical.parse(text))

    def no_earlier(self, now: int) -> int:
        """The time to decide at: never before what the journal has told already (PUL-15)."""
        return max(now, self.base.instance.journal_at)
