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
    """``activations``: every activation of the instance; ``histories``: every task, by id."""

    base: InstanceFacts
    activations: tuple[Leaf, ...]
    histories: Mapping[str, TaskHistory]
    sources: Sources
    late_reports: Mapping[str, LateReport] = field(default_factory=dict)

    def activations_of(self, step_key: str) -> tuple[Leaf, ...]:
        """Activations of one leaf by sequence."""
        found = (a for a in self.activations if a.step_key == step_key)
        return tuple(sorted(found, key=lambda leaf: leaf.sequence))
