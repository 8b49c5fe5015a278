"""Continue: the only way out of NEEDS_REVIEW (CON-1 to CON-4).

It never unpauses, extends no deadline and withdraws no stop. The declaration is not believed: the
tasks, the source events and the graph are checked, in this order after what all commands check:
CONTRADICTED, DEADLINE_PASSED (without a stop), NOT_OWNED, EXECUTION_UNSETTLED, INBOX_PENDING,
UNRESOLVED_STEPS, INTEGRITY_MISMATCH.
"""

from collections.abc import Callable

from pulseweave.core.pulse.task import TaskState
from pulseweave.core.recovery.command import Continue
from pulseweave.core.recovery.evidence import refuse_command, refuse_expired, refuse_unsettled
from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.core.recovery.integrity import refuse_graph
from pulseweave.core.recovery.ownership import refuse_foreign
from pulseweave.core.weave.definition.model import OnFailure
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import ignore, policy_of, stop_for
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.states import InstanceState, LeafState
from pulseweave.kernel.errors import Rejected, reject


def applies(facts: RecoveryFacts, command: Continue, *, now: int) -> Rejected | None:
    refusal = refuse_command(facts, command)
    if refusal is not None:
        return refusal
    instance = facts.base.instance
    if instance.contradicted:
        return reject(
            "CONTRADICTED",
            "a late report contradicts what was settled; acknowledge it first",
            rule="REC-13",
        )
    if instance.stop is None:
        refusal = refuse_expired(facts, now)
        if refusal is not None:
            return refusal
    return (
        refuse_foreign(facts)
        or _refuse_executions(facts)
        or _refuse_unresolved(facts)
        or refuse_graph(facts)
    )


def _refuse_executions(facts: RecoveryFacts) -> Rejected | None:
    """Nothing may be unknown, and whatever settled must have been consumed; what runs for a leaf
    that waits for it may go on running.
    """
    unknown = [
        h.task.id for h in facts.histories.values() if h.task.state is TaskState.NEEDS_REVIEW
    ]
    if unknown:
        return reject(
            "EXECUTION_UNSETTLED",
            f"the outcome of {len(unknown)} execution(s) is unknown",
            rule="CON-1",
            task_ids=unknown,
        )
    waiting = {
        leaf.task_id
        for leaf in facts.base.leaves.values()
        if leaf.state is LeafState.ACTIVE or leaf.awaits_superseded(leaf.task_id or "")
    }
    over = [h for h in facts.histories.values() if h.task.settled or h.task.id not in waiting]
    return refuse_unsettled(over)


def _refuse_unresolved(facts: RecoveryFacts) -> Rejected | None:
    unresolved = sorted(
        leaf.step_key for leaf in facts.base.leaves.values() if is_unresolved(facts, leaf)
    )
    if not unresolved:
        return None
    return reject(
        "UNRESOLVED_STEPS",
        f"unresolved: {', '.join(unresolved)}",
        rule="CON-1",
        steps=unresolved,
    )


def is_unresolved(facts: RecoveryFacts, leaf: Leaf) -> bool:
    """NEEDS_REVIEW; without a stop also a failure that stops or asks, or a cancellation, not
    concluded.
    """
    if leaf.state is LeafState.NEEDS_REVIEW:
        return True
    if facts.base.instance.stop is not None or leaf.conclusion_id is not None:
        return False
    if leaf.state is LeafState.CANCELLED:
        return True
    if not leaf.undecided_failure:
        return False
    return policy_of(facts.base.definition, leaf) is not OnFailure.IGNORE


def decide(
    facts: RecoveryFacts,
    command: Continue,
    *,
    now: int,
    new_id: Callable[[], str],
    actor: str,
) -> InstancePlan | Rejected:
    refusal = applies(facts, command, now=now)
    if refusal is not None:
        return refusal
    draft = Draft(facts.base, now=now, new_id=new_id)
    if draft.instance.stop is not None:
        draft.leave_review(InstanceState.CANCELLING)
    else:
        draft.leave_review(InstanceState.RUNNING)
        _decide_failures(draft)
    draft.order_continuation()
    return draft.finish(actor=actor, cause=command.OPERATION, control=True)


def _decide_failures(draft: Draft) -> None:
    """Failures that were concluded, or came, during the review, in the order in which they settled;
    none any more after the first that stops the instance (WEA-16).
    """
    failed = [leaf for leaf in draft.leaves.values() if leaf.undecided_failure]
    for leaf in sorted(failed, key=lambda leaf: (leaf.settled_at or 0, leaf.step_key)):
        if policy_of(draft.definition, leaf) is not OnFailure.IGNORE:
            stop_for(draft, leaf)  # for a FAILED conclusion the policy `review` counts as `fail`
            return
        ignore(draft, leaf)
