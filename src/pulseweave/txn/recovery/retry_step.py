"""RetryStep in its transaction (RET-1 to RET-10). Quotas apply; a refusal leaves nothing behind
(RET-7).
"""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.recovery import retry_step
from pulseweave.core.recovery.command import RetryStep
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.core.recovery.operations import RETRY_WARNING
from pulseweave.core.recovery.retry_step import StepRetried
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.recovery.run import Context, Request, Verdict, recover, step_prior


def execute(database: Database, request: Request, *, ids: IdSource) -> Mapping[str, Any]:
    command = request.command
    if not isinstance(command, RetryStep):
        raise TypeError(f"not a RetryStep: {command!r}")

    def decide(facts: RecoveryFacts, context: Context) -> Verdict | Rejected | Missing:
        answer = retry_step.decide(
            facts, command, now=context.now, new_id=context.new_id, actor=context.actor
        )
        if isinstance(answer, Rejected | Missing):
            return answer
        return Verdict(
            plan=answer.plan,
            prior=step_prior(facts, command.step_key),
            details=_details(answer, context.now),
            warnings=(RETRY_WARNING,),
        )

    return recover(database, request, decide, ids=ids)


def _details(answer: StepRetried, now: int) -> dict[str, Any]:
    """The new activation and task, and the seconds left before the original instants (RET-1)."""
    task = answer.created.task
    return {
        "activation_id": task.activation_id,
        "task_id": task.id,
        "retry_of": answer.created.spec.retry_of,
        "max_attempts": task.max_attempts,
        "seconds_to_deadline": _seconds_left(task.deadline_at, now),
        "seconds_to_latest_start": _seconds_left(task.start_by, now),
        "next": "Continue opens the gate; until then the new task can't start",
    }


def _seconds_left(instant: int | None, now: int) -> int | None:
    return None if instant is None else max(0, (instant - now) // 1_000_000)
