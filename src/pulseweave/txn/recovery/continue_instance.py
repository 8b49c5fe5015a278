"""Continue in its transaction (CON-1 to CON-4)."""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.recovery import continue_instance
from pulseweave.core.recovery.command import Continue
from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.recovery.run import Context, Request, Verdict, recover


def execute(database: Database, request: Request, *, ids: IdSource) -> Mapping[str, Any]:
    command = request.command
    if not isinstance(command, Continue):
        raise TypeError(f"not a Continue: {command!r}")

    def decide(facts: RecoveryFacts, context: Context) -> Verdict | Rejected:
        plan = continue_instance.decide(
            facts, command, now=context.now, new_id=context.new_id, actor=context.actor
        )
        return plan if isinstance(plan, Rejected) else Verdict(plan=plan)

    return recover(database, request, decide, ids=ids)
