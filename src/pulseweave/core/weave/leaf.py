"""The leaf: a node that does work. It *is* its latest activation; a retry makes the next one.

States: ACTIVE (its task or wait is under way), NEEDS_REVIEW, SUCCEEDED, FAILED, CANCELLED. A FAILED
leaf is *undecided* until its ``on_failure`` was applied: ``ignored`` makes the error its output,
``fail`` sets the instance's stop, ``review`` turns it into NEEDS_REVIEW.

What may never happen: an activation that was succeeded by another one changes again; a SUCCEEDED
leaf changes; a leaf leaves NEEDS_REVIEW without a person's command (WEA-17).
"""

from dataclasses import dataclass

from pulseweave.core.pulse.task import TaskState
from pulseweave.core.weave.states import (
    LEAF_TRANSITIONS,
    LeafKind,
    LeafState,
    OutputSource,
    ReviewCause,
)
from pulseweave.kernel.check import invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRef:
    """Where a leaf's output is kept for ever: a settled task, a conclusion, or the leaf's own
    error.
    """

    source: OutputSource
    id: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """Facts of one activation. ``step_key`` is the leaf's path, ``node_key`` its node in the
    definition, ``within`` the item of a map in which it stands, "" outside of maps.

    ``task_revision`` and ``task_state`` tell the newest fact of its task that the inbox has
    consumed. A poll has a task for each ``round``; its ``deadline_at``, like a signal's, is fixed
    with the first activation.
    """

    id: str
    namespace: str
    instance_id: str
    step_key: str
    node_key: str
    sequence: int
    kind: LeafKind
    task_id: str | None
    retry_of: str | None
    entered_at: int
    within: str = ""
    round: int | None = None
    deadline_at: int | None = None
    current: bool = True
    state: LeafState = LeafState.ACTIVE
    revision: int = 1
    task_revision: int | None = None
    task_state: TaskState | None = None
    review_cause: ReviewCause | None = None
    review_at: int | None = None
    ignored: bool = False
    error: str | None = None
    output: OutputRef | None = None
    conclusion_id: str | None = None
    settled_at: int | None = None

    @property
    def done(self) -> bool:
        """Whether the flow may go on behind it."""
        return self.state is LeafState.SUCCEEDED or self.ignored

    @property
    def under_way(self) -> bool:
        return self.state in (LeafState.ACTIVE, LeafState.NEEDS_REVIEW)

    def awaits_superseded(self, task_id: str) -> bool:
        """Whether a signal ended this poll while this query was under way (WEA-9)."""
        settled = self.state in (LeafState.SUCCEEDED, LeafState.FAILED)
        open_query = self.task_state in (None, TaskState.NEEDS_REVIEW)
        by_signal = self.output is not None and self.output.source is OutputSource.SIGNAL
        told = by_signal or self.state is LeafState.FAILED
        return (
            self.kind is LeafKind.POLL
            and settled
            and told
            and open_query
            and self.task_id == task_id
            and self.conclusion_id is None
        )

    @property
    def between_rounds(self) -> bool:
        """Whether a poll's last query was answered and the next one not asked yet."""
        return self.kind is LeafKind.POLL and self.task_state is TaskState.SUCCEEDED

    @property
    def undecided_failure(self) -> bool:
        return self.state is LeafState.FAILED and not self.ignored

    def check(self) -> "Leaf":
        facts = {"activation_id": self.id, "step_key": self.step_key, "state": self.state}
        invariant(self.sequence >= 1, "sequences start at 1", **facts)
        invariant(
            (self.round is not None) == (self.kind is LeafKind.POLL),
            "a poll has rounds, nothing else has",
            **facts,
        )
        invariant(
            (self.state is LeafState.NEEDS_REVIEW) == (self.review_cause is not None),
            "a cause exactly in NEEDS_REVIEW",
            **facts,
        )
        invariant(
            self.state is not LeafState.SUCCEEDED or self.output is not None,
            "a succeeded leaf has an output",
            **facts,
        )
        invariant(
            not self.ignored or self.state is LeafState.FAILED, "only a failure is ignored", **facts
        )
        return self


def check_move(before: Leaf, after: Leaf) -> None:
    """Every change of a leaf's state is in LEAF_TRANSITIONS, by exactly one revision."""
    if before.state is not after.state:
        invariant(
            after.state in LEAF_TRANSITIONS[before.state],
            "the leaf's transition is in the table",
            activation_id=before.id,
            before=before.state,
            after=after.state,
        )
    invariant(
        before.id == after.id
        and before.sequence == after.sequence
        and (before.task_id == after.task_id or before.round != after.round),
        "an activation's identity never changes",
        activation_id=before.id,
    )
