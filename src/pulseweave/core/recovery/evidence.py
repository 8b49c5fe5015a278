"""The checks that every recovery decision begins with, in their fixed order, and those of step
decisions.

Order: DECLARATION_REQUIRED, REVISION_CONFLICT, INSTANCE_ENDED, NOT_IN_REVIEW, INBOX_QUARANTINED,
INBOX_PENDING; then STOP_REQUESTED and DEADLINE_PASSED where the operation needs neither; then what
is particular to the operation. Which refusal wins is part of the contract (REC-4, REC-11, REC-12).
"""

from collections.abc import Iterable

from pulseweave.core.recovery.command import Command, StepCommand
from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import InstanceState
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject


def refuse_command(facts: RecoveryFacts, command: Command) -> Rejected | None:
    """The checks common to all recovery commands."""
    instance = facts.base.instance
    if not command.declared:
        return reject(
            "DECLARATION_REQUIRED",
            f"{command.DECLARATION} must be literally true",
            rule="REC-11",
            pointer=f"/{command.DECLARATION}",
        )
    if instance.revision != command.expected_revision:
        return reject(
            "REVISION_CONFLICT",
            f"the instance is at revision {instance.revision}, not {command.expected_revision}",
            rule="REC-3",
            current_revision=str(instance.revision),
        )
    if instance.ended:
        return reject("INSTANCE_ENDED", f"the instance has ended: {instance.state}", rule="WEA-4")
    if instance.state is not InstanceState.NEEDS_REVIEW:
        return reject(
            "NOT_IN_REVIEW", f"the instance is {instance.state}, not in review", rule="REC-4"
        )
    return refuse_sources(facts)


def refuse_sources(facts: RecoveryFacts) -> Rejected | None:
    """A declaration never waves through a broken or unread source (REC-4)."""
    sources = facts.sources
    if sources.quarantined:
        return reject(
            "INBOX_QUARANTINED",
            f"{sources.quarantined} record(s) of the instance are quarantined",
            rule="REC-4",
        )
    if sources.pending or sources.unconsumed:
        return reject(
            "INBOX_PENDING",
            "results of the instance are not consumed yet; read it again",
            rule="REC-4",
        )
    return None


def refuse_stop(facts: RecoveryFacts) -> Rejected | None:
    """New work needs an instance without a stop (RET-1)."""
    stop = facts.base.instance.stop
    if stop is None:
        return None
    return reject(
        "STOP_REQUESTED",
        f"a stop was requested: {stop.kind}; no new work may start",
        stop={"kind": stop.kind.value, "error": canonical.parse(stop.error)},
    )


def refuse_expired(facts: RecoveryFacts, now: int) -> Rejected | None:
    if not facts.base.instance.expired(facts.no_earlier(now)):
        return None
    return reject(
        "DEADLINE_PASSED",
        "the instance's deadline has passed; it can still be resolved and cancelled",
        deadline_at=facts.base.instance.deadline_at,
    )


def find_leaf(facts: RecoveryFacts, command: StepCommand) -> Leaf | Rejected:
    """The current activation that the command names, at the revision that it expects."""
    named = next((a for a in facts.activations if a.id == command.activation_id), None)
    if named is None or named.step_key != command.step_key:
        return reject(
            "NOT_OWNED",
            f"step {command.step_key} has no activation {command.activation_id}",
            rule="REC-9",
        )
    if not named.current:
        current = facts.base.leaves[named.step_key]
        return reject(
            "ACTIVATION_NOT_CURRENT",
            f"the current activation of {named.step_key} is {current.id}",
            current_activation_id=current.id,
        )
    if named.revision != command.expected_step_revision:
        return reject(
            "STEP_REVISION_CONFLICT",
            f"step {named.step_key} is at revision {named.revision}",
            current_step_revision=str(named.revision),
        )
    return named


def refuse_unsettled(histories: Iterable[TaskHistory]) -> Rejected | None:
    """Every execution must be known and settled, and its event consumed (RES-1)."""
    known = list(histories)
    for history in known:
        task = history.task
        if not task.settled or history.live_attempts or task.holds_key:
            return reject(
                "EXECUTION_UNSETTLED",
                f"task {task.id} is {task.state}: its execution is not known to have ended",
                task_id=task.id,
                task_state=task.state.value,
            )
    for history in known:
        task = history.task
        if history.consumed_revision is None or history.consumed_revision < task.revision:
            return reject(
                "INBOX_PENDING",
                f"the result of task {task.id} is not consumed yet",
                task_id=task.id,
            )
    return None
