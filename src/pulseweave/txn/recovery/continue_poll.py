"""ContinuePoll in its transaction (CPO-1)."""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.recovery import continue_poll
from pulseweave.core.recovery.command import ContinuePoll
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.recovery.run import Context, Request, Verdict, recover, step_prior


def execute(database: Database, request: Request, *, ids: IdSource) -> Mapping[str, Any]:
    command = request.command
    if not isinstance(command, ContinuePoll):
        raise TypeError(f"not a ContinuePoll: {command!r}")

    def decide(facts: RecoveryFacts, context: Context) -> Verdict | Rejected | Missing:
        answer = continue_poll.decide(
            facts, command, now=context.now, new_id=context.new_id, actor=context.actor
        )
        if isinstance(answer, Rejected | Missing):
            return answer
        return Verdict(
            plan=answer.plan,
            prior=step_prior(facts, command.step_key),
            details={
                "round": facts.base.leaves[command.step_key].round,
                "next_round_due_at": answer.due_at,
                "next": "Continue opens the gate; the next round starts when it is due",
            },
        )

    return recover(database, request, decide, ids=ids)
