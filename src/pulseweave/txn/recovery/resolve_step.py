"""ResolveStep in its transaction (RES-1 to RES-4)."""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.recovery import resolve_step
from pulseweave.core.recovery.command import ResolveStep
from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.recovery.run import Context, Request, Verdict, recover


def execute(database: Database, request: Request, *, ids: IdSource) -> Mapping[str, Any]:
    command = request.command
    if not isinstance(command, ResolveStep):
        raise TypeError(f"not a ResolveStep: {command!r}")

    def decide(facts: RecoveryFacts, context: Context) -> Verdict | Rejected:
        plan = resolve_step.decide(
            facts,
            command,
            now=context.now,
            new_id=context.new_id,
            actor=context.actor,
            operation_id=context.operation_id,
        )
        if isinstance(plan, Rejected):
            return plan
        return Verdict(
            plan=plan,
            prior=_prior(facts, command),
            details=_details(plan, command),
            warnings=("SUCCEEDED is final.",) if command.succeeded else (),
        )

    return recover(database, request, decide, ids=ids)


def _prior(facts: RecoveryFacts, command: ResolveStep) -> dict[str, Any]:
    """The leaf before, its output by the id of the row that never changes (REC-8)."""
    leaf = facts.base.leaves[command.step_key]
    output = leaf.output
    return {
        "step_key": leaf.step_key,
        "activation_id": leaf.id,
        "step_state": leaf.state.value,
        "step_revision": leaf.revision,
        "step_error": leaf.error,
        "task_id": leaf.task_id,
        "output": None
        if output is None
        else {"source": output.source.value, "id": output.id, "digest": output.digest},
    }


def _details(plan: InstancePlan, command: ResolveStep) -> dict[str, Any]:
    conclusion = plan.conclusions[0]
    leaf = next(c.after for c in plan.leaves if c.after.id == command.activation_id)
    return {
        "step_key": leaf.step_key,
        "activation_id": leaf.id,
        "step_state": leaf.state.value,
        "step_revision": str(leaf.revision),
        "conclusion_id": conclusion.id,
        "result_digest": conclusion.result_digest,
    }
