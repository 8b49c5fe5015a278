"""What recovery decisions are made from: the instance, the whole execution history, and its
sources.

Loaded after every lock was taken (REC-6). Nothing here is believed because a person says so
(REC-11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulseweave.core.pulse.change import LateReport, TaskSpec
from pulseweave.core.pulse.task import Task
from pulseweave.core.weave.draft import InstanceFacts
from pulseweave.core.weave.leaf import Leaf

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
    activations name, and every direct successor of these, whoever's they are (REC-9). ``room``:
    open tasks that quotas still allow, by scope; absent means no limit (PUL-12).
    """

    base: InstanceFacts
    activations: tuple[Leaf, ...]
    histories: Mapping[str, TaskHistory]
    sources: Sources
    foreign: tuple[Leaf, ...] = ()
    late_reports: Mapping[str, LateReport] = field(default_factory=dict)
    room: Mapping[Scope, int] = field(default_factory=dict)

    def activations_of(self, step_key: str) -> tuple[Leaf, ...]:
        """Activations of one leaf by sequence."""
        found = (a for a in self.activations if a.step_key == step_key)
        return tuple(sorted(found, key=lambda leaf: leaf.sequence))

    def histories_of(self, step_key: str) -> list[TaskHistory]:
        """Every task of one leaf by sequence; their ownership has been checked."""
        named = (a.task_id for a in self.activations_of(step_key))
        return [self.histories[task_id] for task_id in named if task_id is not None]

    def no_earlier(self, now: int) -> int:
        """The time to decide at: never before what the journal has told already (PUL-15)."""
        return max(now, self.base.instance.journal_at)
