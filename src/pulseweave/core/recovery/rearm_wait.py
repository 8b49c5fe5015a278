"""RearmWait: a signal or timer in review waits again, as it did (REA-1).

Order of refusals, after what all commands check: STOP_REQUESTED, DEADLINE_PASSED (the instance's),
those of the named activation, WAIT_NOT_REARMABLE, DEADLINE_PASSED (the wait's), INTEGRITY_MISMATCH.

It extends nothing, loses no signal and runs nothing again; the review isn't lifted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pulseweave.core.recovery.command import RearmWait
from pulseweave.core.recovery.evidence import (
    find_leaf,
    refuse_command,
    refuse_expired,
    refuse_stop,
)
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.core.recovery.waiting import rearm
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.signal import take_kept
from pulseweave.core.weave.states import CloseReason, LeafKind, LeafState, WaitKind
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel.errors import Rejected, reject

_KINDS = {LeafKind.SIGNAL: WaitKind.SIGNAL, LeafKind.TIMER: WaitKind.TIMER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearmable:
    leaf: Leaf
    last: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRearmed:
    """``taken``: a signal that was kept has been taken at once."""

    plan: InstancePlan
    generation: int
    taken: bool


def applies(facts: RecoveryFacts, command: RearmWait, *, now: int) -> Rearmable | Rejected:
    """Everything but what only a person can give."""
    refusal = refuse_command(facts, command) or refuse_stop(facts) or refuse_expired(facts, now)
    if refusal is not None:
        return refusal
    leaf = find_leaf(facts, command)
    if isinstance(leaf, Rejected):
        return leaf
    kind = _KINDS.get(leaf.kind)
    if kind is None or leaf.state is not LeafState.NEEDS_REVIEW:
        return reject(
            "WAIT_NOT_REARMABLE",
            f"step {leaf.step_key} is {leaf.state}, a {leaf.kind.value.lower()}: "
            "a signal or timer in review can be armed again",
            rule="REA-1",
        )
    if leaf.deadline_at is not None and facts.no_earlier(now) >= leaf.deadline_at:
        return reject(
            "DEADLINE_PASSED",
            f"the time in which {leaf.step_key} waited has passed",
            rule="REA-1",
            deadline_at=leaf.deadline_at,
        )
    last = facts.last_wait(leaf, kind)
    if last is None:
        return reject(
            "INTEGRITY_MISMATCH",
            f"nothing tells what {leaf.step_key} waited for; it can be resolved",
            rule="REA-1",
        )
    return Rearmable(leaf=leaf, last=last)


def decide(
    facts: RecoveryFacts,
    command: RearmWait,
    *,
    now: int,
    new_id: Callable[[], str],
    actor: str,
) -> WaitRearmed | Rejected | Missing:
    rearmable = applies(facts, command, now=now)
    if isinstance(rearmable, Rejected):
        return rearmable
    draft = Draft(facts.base, now=now, new_id=new_id)
    leaf = replace(rearmable.leaf, state=LeafState.ACTIVE, review_cause=None, review_at=None)
    draft.close_waits(rearmable.leaf, CloseReason.RETRY)
    draft.set_leaf(leaf)
    wait = rearm(draft, leaf, rearmable.last)
    if wait.kind is WaitKind.SIGNAL:
        take_kept(draft, wait)
    if draft.missing:
        return Missing(frozenset(draft.missing))
    plan = draft.finish(actor=actor, cause=command.OPERATION, control=True)
    taken = not draft.waits[wait.id].armed
    return WaitRearmed(plan=plan, generation=wait.generation, taken=taken)
