"""ContinuePoll: a poll whose last answer is verified PENDING waits for its next round (CPO-1).

Order of refusals, after what all commands check: STOP_REQUESTED, DEADLINE_PASSED, those of the
named activation, POLL_NOT_PENDING (no poll, or not in review), NOT_OWNED, EXECUTION_UNSETTLED,
INBOX_PENDING, POLL_NOT_PENDING (another answer), ROUNDS_EXHAUSTED.

The round isn't asked again, and the review isn't lifted: the next round starts after Continue.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pulseweave.core.pulse.task import Settled
from pulseweave.core.recovery.command import ContinuePoll
from pulseweave.core.recovery.evidence import (
    find_leaf,
    refuse_command,
    refuse_expired,
    refuse_stop,
    refuse_unsettled,
)
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.core.recovery.ownership import refuse_foreign
from pulseweave.core.recovery.waiting import rearm_final_signal
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import PollNode
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.poll import close_query, limit_reached
from pulseweave.core.weave.states import LeafState, WaitKind
from pulseweave.kernel.errors import Rejected, reject


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A poll that may wait again: when its answer came, and when the next round is due."""

    leaf: Leaf
    answered_at: int
    due_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PollContinued:
    plan: InstancePlan
    due_at: int


def applies(facts: RecoveryFacts, command: ContinuePoll, *, now: int) -> Pending | Rejected:
    """Everything but what only a person can give."""
    refusal = refuse_command(facts, command) or refuse_stop(facts) or refuse_expired(facts, now)
    if refusal is not None:
        return refusal
    leaf = find_leaf(facts, command)
    if isinstance(leaf, Rejected):
        return leaf
    node = facts.base.definition.leaves[leaf.node_key]
    if not isinstance(node, PollNode) or leaf.state is not LeafState.NEEDS_REVIEW:
        return _not_pending(f"step {leaf.step_key} is no poll in review")
    return (
        refuse_foreign(facts, leaf.step_key)
        or refuse_unsettled(facts.histories_of(leaf.step_key))
        or _pending(facts, node, leaf, now)
    )


def _not_pending(message: str) -> Rejected:
    return reject("POLL_NOT_PENDING", message, rule="CPO-1")


def _pending(facts: RecoveryFacts, node: PollNode, leaf: Leaf, now: int) -> Pending | Rejected:
    history = facts.histories.get(leaf.task_id or "")
    phase = history.task.phase if history is not None else None
    if facts.classified(leaf) is not Classification.PENDING or not isinstance(phase, Settled):
        return _not_pending(
            f"the last answer of {leaf.step_key} is not one that its mapping makes PENDING"
        )
    due_at = phase.at + node.interval_ms * 1000
    limit = limit_reached(node, leaf, max(due_at, facts.no_earlier(now)))
    if limit is not None or facts.base.instance.expired(due_at):
        return reject(
            "ROUNDS_EXHAUSTED",
            f"there is no round after round {leaf.round} of {node.max_rounds}: "
            f"{'its time is up' if (leaf.round or 0) < node.max_rounds else 'none is left'}",
            rule="CPO-1",
        )
    return Pending(leaf=leaf, answered_at=phase.at, due_at=due_at)


def decide(
    facts: RecoveryFacts,
    command: ContinuePoll,
    *,
    now: int,
    new_id: Callable[[], str],
    actor: str,
) -> PollContinued | Rejected | Missing:
    pending = applies(facts, command, now=now)
    if isinstance(pending, Rejected):
        return pending
    draft = Draft(facts.base, now=now, new_id=new_id)
    leaf = replace(pending.leaf, state=LeafState.ACTIVE, review_cause=None, review_at=None)
    draft.set_leaf(leaf)
    query = next((q for q in facts.queries if q.task_id == leaf.task_id), None)
    if query is not None and query.answered_at is None:
        close_query(draft, query, Classification.PENDING, at=pending.answered_at)
    draft.arm(leaf, WaitKind.ROUND, due_at=pending.due_at)
    rearm_final_signal(draft, facts, leaf)
    if draft.missing:
        return Missing(frozenset(draft.missing))
    plan = draft.finish(actor=actor, cause=command.OPERATION, control=True)
    return PollContinued(plan=plan, due_at=pending.due_at)
