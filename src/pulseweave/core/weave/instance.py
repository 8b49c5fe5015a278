"""The instance: one run of one fixed version of a definition.

``state`` says where it is; ``paused``, ``stop`` and the deadline are facts beside it. Where several
hold: stop before deadline before paused (WEA-6). The gate is no fact of its own: it is open exactly
in RUNNING, not paused, and follows from here.

What may never happen: ``stop`` is replaced or withdrawn; a revision is skipped or reused; an ended
instance changes but by LATE facts and their acknowledgement (WEA-4).
"""

from dataclasses import dataclass

from pulseweave.core.weave.states import ENDED, InstanceState, StopKind, WakeReason
from pulseweave.kernel.check import invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The stop intent. ``error`` is canonical JSON ``{"code", "message", "step"?}``."""

    kind: StopKind
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Facts of one instance. Instants are microseconds UTC, texts canonical JSON.

    ``superseded``: queries that are not settled although a signal has ended their poll (WEA-15).
    """

    id: str
    namespace: str
    application: str
    definition_id: str
    definition_name: str
    definition_version: int
    instance_key: str
    partition_id: int
    input_digest: str
    deadline_at: int | None
    created_at: int
    created_by: str
    state: InstanceState
    revision: int
    control_revision: int
    journal_at: int
    paused: bool = False
    stop: Stop | None = None
    contradicted: bool = False
    quarantined: bool = False
    superseded: int = 0
    review_at: int | None = None
    wake_at: int | None = None
    wake_reason: WakeReason | None = None
    error: str | None = None
    output_digest: str | None = None
    ended_at: int | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def gate_open(self) -> bool:
        """Whether attempts may be authorised (WEA-6)."""
        return self.state is InstanceState.RUNNING and not self.paused

    def expired(self, now: int) -> bool:
        return self.deadline_at is not None and now >= self.deadline_at

    def check(self) -> "Instance":
        """Invariants that hold in every state; asked before a row is written and after
        it is read.
        """
        facts = {"instance_id": self.id, "state": self.state}
        invariant(self.revision >= 1, "revisions start at 1", **facts)
        invariant(
            1 <= self.control_revision <= self.revision,
            "control_revision never runs ahead of revision",
            **facts,
        )
        invariant(
            self.ended == (self.ended_at is not None),
            "ended_at exactly in the ended states",
            **facts,
        )
        invariant(
            self.stop is not None
            or self.state
            not in (InstanceState.CANCELLING, InstanceState.CANCELLED, InstanceState.FAILED),
            "nothing stops without a stop intent",
            **facts,
        )
        invariant(
            (self.review_at is not None) == (self.state is InstanceState.NEEDS_REVIEW),
            "review_at exactly in NEEDS_REVIEW",
            **facts,
        )
        invariant(
            not self.ended or self.wake_at is None, "an ended instance has no continuation", **facts
        )
        return self
