"""ReviewTask in its transaction (REV-1, REV-2)."""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.recovery import review_task
from pulseweave.core.recovery.command import ReviewTask
from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.recovery.run import Context, Request, Verdict, recover


def execute(database: Database, request: Request, *, ids: IdSource) -> Mapping[str, Any]:
    command = request.command
    if not isinstance(command, ReviewTask):
        raise TypeError(f"not a ReviewTask: {command!r}")

    def decide(facts: RecoveryFacts, context: Context) -> Verdict | Rejected:
        answer = review_task.decide(
            facts,
            command,
            now=context.now,
            new_id=context.new_id,
            actor=context.actor,
            execution_audit_id=context.execution_audit_id,
        )
        if isinstance(answer, Rejected):
            return answer
        task = answer.change.after
        return Verdict(
            plan=answer.plan,
            task_change=answer.change,
            result=answer.result,
            prior={"task_id": task.id, "task_state": answer.change.before.state.value},
            details={
                "task_id": task.id,
                "task_state": task.state.value,
                "task_revision": str(task.revision),
                "next": "when the result is consumed, read the instance again, then ResolveStep",
            },
        )

    return recover(database, request, decide, ids=ids)
