"""Arming again: the next generation of a wait, with the name, correlation and instants it had.

Extends nothing and loses no signal: one that is kept is taken at once (WEA-17, REA-1, RET-9).
"""

from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.signal import take_kept
from pulseweave.core.weave.states import WaitKind
from pulseweave.core.weave.wait import Wait


def rearm(draft: Draft, leaf: Leaf, last: Wait) -> Wait:
    """The next generation of ``last``, for the leaf as it is now."""
    return draft.arm(
        leaf,
        last.kind,
        generation=last.generation + 1,
        name=last.name,
        correlation=last.correlation,
        due_at=last.due_at,
        deadline_at=last.deadline_at,
    )


def rearm_final_signal(draft: Draft, facts: RecoveryFacts, leaf: Leaf) -> None:
    """A poll that asks or waits again listens for its final signal again, within its time."""
    last = facts.last_wait(leaf, WaitKind.SIGNAL)
    if last is None or (last.deadline_at is not None and last.deadline_at <= draft.now):
        return
    take_kept(draft, rearm(draft, leaf, last))
