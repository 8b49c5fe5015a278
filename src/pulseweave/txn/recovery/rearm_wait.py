"""RearmWait in its transaction (REA-1)."""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.recovery import rearm_wait
from pulseweave.core.recovery.command import RearmWait
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.recovery.run import Context, Request, Verdict, recover, step_prior


def execute(database: Database, request: Request, *, ids: IdSource) -> Mapping[str, Any]:
    command = request.command
    if not isinstance(command, RearmWait):
        raise TypeError(f"not a RearmWait: {command!r}")

    def decide(facts: RecoveryFacts, context: Context) -> Verdict | Rejected | Missing:
        answer = rearm_wait.decide(
            facts, command, now=context.now, new_id=context.new_id, actor=context.actor
        )
        if isinstance(answer, Rejected | Missing):
            return answer
        return Verdict(
            plan=answer.plan,
            prior=step_prior(facts, command.step_key),
            details={
                "generation": answer.generation,
                "signal_taken": answer.taken,
                "next": "Continue lets the flow go on",
            },
        )

    return recover(database, request, decide, ids=ids)
