"""Pause, resume and cancel in their transaction: a key, a control revision, a receipt, an audit
(WEA-12).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.recovery.operations import blocking
from pulseweave.core.weave.control import ControlVerb, control
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.audit import WorkflowAudit, insert_audits
from pulseweave.store.engine import Database
from pulseweave.store.facts.recovery import load_recovery_facts
from pulseweave.store.facts.tasks import running_deadlines
from pulseweave.store.facts.waits import armed_waits
from pulseweave.store.tx import Tx
from pulseweave.txn.identity import read_principal
from pulseweave.txn.receipt import find_receipt, store_receipt
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.held import hold_instance, identity_of
from pulseweave.txn.weave.quota import Quotas
from pulseweave.txn.weave.settle import Decided, Make, Work, settle


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    principal: Principal
    instance_id: str
    idempotency_key: str
    verb: ControlVerb
    expected_control_revision: int
    reason: str
    digest: str


def execute(database: Database, request: ControlRequest, *, ids: IdSource) -> Mapping[str, Any]:
    """The receipt; raises Rejected. The receipt of a pause lists the deadlines that keep
    running.
    """
    return run(database, lambda tx: _control(tx, request, ids))


def _control(tx: Tx, request: ControlRequest, ids: IdSource) -> Mapping[str, Any]:
    namespace = request.principal.namespace
    identity = identity_of(tx, namespace, request.instance_id)
    locks.lock_operation_stripe(tx, namespace, request.idempotency_key)
    instance = hold_instance(tx, namespace, request.instance_id)
    principal = read_principal(tx, request.principal.credential_id, now=tx.now())
    refusal = principal.refuse_permission(Permission.WORKFLOWS_CONTROL)
    if refusal is not None:
        raise refusal
    stored = find_receipt(
        tx,
        namespace=namespace,
        key=request.idempotency_key,
        operation=request.verb.value,
        target_id=request.instance_id,
        digest=request.digest,
    )
    if stored is not None:
        return stored

    def decide(make: Make) -> Decided:
        draft = make()
        answer = control(
            draft,
            request.verb,
            expected_control_revision=request.expected_control_revision,
            reason=request.reason,
        )
        return Decided(draft, refusal=answer)

    work = Work(
        instance_id=request.instance_id,
        decide=decide,
        actor=principal.actor,
        cause=request.verb.value,
        control=True,
    )
    instances = {instance.id: instance}
    operation_id = ids.next()
    receipts: list[Mapping[str, Any]] = []

    def record(plan: InstancePlan) -> None:
        definition = definitions_of(tx, [identity.definition_id])[identity.definition_id]
        told = _receipt(tx, request, plan, operation_id=operation_id, definition=definition)
        _record(tx, request, principal, plan, receipt=told)
        receipts.append(told)

    settled = settle(
        tx,
        [work],
        instances,
        quotas=Quotas(),
        new_id=ids.next,
        before_events=record,
    )
    if request.instance_id in settled.refusals:
        raise settled.refusals[request.instance_id]
    return receipts[0]


def _record(
    tx: Tx,
    request: ControlRequest,
    principal: Principal,
    plan: InstancePlan,
    *,
    receipt: Mapping[str, Any],
) -> None:
    """Receipt and audit, written before the result stream is locked (REC-7)."""
    before, after = plan.before, plan.after
    audit = WorkflowAudit(
        id=receipt["operation_id"],
        namespace=after.namespace,
        instance_id=after.id,
        operation=request.verb.value,
        idempotency_key=request.idempotency_key,
        outcome="ACCEPTED",
        code=None,
        actor=principal.actor,
        at=after.journal_at,
        command_digest=request.digest,
        reason=request.reason,
        evidence_ref=None,
        prior={"state": before.state.value, "paused": before.paused} if before else None,
        next={"state": after.state.value, "paused": after.paused},
        execution_audit_id=None,
    )
    insert_audits(tx, execution=None, workflow=audit)
    store_receipt(
        tx,
        namespace=after.namespace,
        key=request.idempotency_key,
        operation_id=receipt["operation_id"],
        operation=request.verb.value,
        target_id=after.id,
        digest=request.digest,
        receipt=receipt,
        actor=principal.actor,
        at=after.journal_at,
    )


def _blocking(tx: Tx, plan: InstancePlan, definition: Definition) -> list[dict[str, Any]]:
    """What still needs whom once the plan is written (REC-19)."""
    facts = load_recovery_facts(tx, plan.before or plan.after, definition, room={})
    leaves = {**facts.base.leaves, **{c.after.step_key: c.after for c in plan.leaves}}
    base = replace(facts.base, instance=plan.after, leaves=leaves)
    seen = replace(facts, base=base)
    return [asdict(blocker) for blocker in blocking(seen, now=plan.after.journal_at)]


def _receipt(
    tx: Tx,
    request: ControlRequest,
    plan: InstancePlan,
    *,
    operation_id: str,
    definition: Definition,
) -> dict[str, Any]:
    after = plan.after
    details: dict[str, Any] = {}
    if request.verb is ControlVerb.PAUSE:
        details = {
            "deadlines_that_keep_running": {
                "instance": after.deadline_at,
                "tasks": running_deadlines(tx, after.id),
                "waits": [
                    {"step_key": wait.step_key, "kind": wait.kind.value, "at": wait.next_at}
                    for wait in armed_waits(tx, [after.id])[after.id].values()
                    if wait.next_at is not None
                ],
            }
        }
    return {
        "operation": request.verb.value,
        "operation_id": operation_id,
        "instance_id": after.id,
        "state_after": after.state.value,
        "gate": "OPEN" if after.gate_open else "CLOSED",
        "paused": after.paused,
        "stop_kind": after.stop.kind.value if after.stop is not None else None,
        "revision": str(after.revision),
        "control_revision": str(after.control_revision),
        "deadline_at": after.deadline_at,
        "blocking": _blocking(tx, plan, definition),
        "details": details,
        "warnings": [],
        "dry_run": False,
    }
