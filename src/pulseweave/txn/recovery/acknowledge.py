"""Acknowledge a contradiction: a person has seen it (REC-13). It moves nothing; ended instances
too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.recovery.operations import Blocker, blocking
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.kernel import canonical, texts
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource, is_id
from pulseweave.store import locks
from pulseweave.store.changes.audit import WorkflowAudit, insert_audits
from pulseweave.store.changes.weave import NOTHING_LOCKED, apply_plans
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.recovery import load_recovery_facts
from pulseweave.store.tx import Tx
from pulseweave.txn.form import check_form
from pulseweave.txn.identity import read_principal
from pulseweave.txn.receipt import find_receipt, store_receipt
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.held import hold_instance, identity_of

OPERATION = "ACKNOWLEDGE_CONTRADICTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    principal: Principal
    instance_id: str
    idempotency_key: str
    expected_revision: int
    reason: str
    evidence_ref: str

    @property
    def digest(self) -> str:
        body = [str(self.expected_revision), self.reason, self.evidence_ref]
        return canonical.digest_of([OPERATION, self.instance_id, body])


def execute(database: Database, command: Acknowledgement, *, ids: IdSource) -> Mapping[str, Any]:
    """The receipt; raises Rejected, after recording that it was refused (REC-14)."""
    try:
        refusal = command.principal.refuse_permission(Permission.WORKFLOWS_RECOVER)
        if refusal is not None:
            raise refusal
        check_form(
            key=command.idempotency_key, reason=command.reason, evidence_ref=command.evidence_ref
        )
        return run(database, lambda tx: _acknowledge(tx, command, ids))
    except Rejected as rejected:
        run(database, partial(_audit_refusal, command=command, refusal=rejected, ids=ids))
        raise


def _acknowledge(tx: Tx, command: Acknowledgement, ids: IdSource) -> Mapping[str, Any]:
    namespace = command.principal.namespace
    identity = identity_of(tx, namespace, command.instance_id)
    definition = definitions_of(tx, [identity.definition_id])[identity.definition_id]
    locks.lock_operation_stripe(tx, namespace, command.idempotency_key)
    instance = hold_instance(tx, namespace, command.instance_id)
    principal = read_principal(tx, command.principal.credential_id, now=tx.now())
    refusal = principal.refuse_permission(Permission.WORKFLOWS_RECOVER) or principal.refuse_queues(
        definition.queues
    )
    if refusal is not None:
        raise refusal
    stored = find_receipt(
        tx,
        namespace=namespace,
        key=command.idempotency_key,
        operation=OPERATION,
        target_id=command.instance_id,
        digest=command.digest,
    )
    if stored is not None:
        return stored
    if instance.revision != command.expected_revision:
        raise reject(
            "REVISION_CONFLICT",
            f"the instance is at revision {instance.revision}",
            current_revision=str(instance.revision),
            journal_since=facts.journal_since(tx, command.instance_id, command.expected_revision),
        )
    if not instance.contradicted:
        raise reject("NOT_IN_REVIEW", "nothing contradicts what was settled", rule="REC-13")
    known = load_recovery_facts(tx, instance, definition, room={})
    draft = Draft(known.base, now=tx.now(), new_id=ids.next)
    draft.instance = replace(draft.instance, contradicted=False)
    plan = draft.finish(actor=principal.actor, cause=OPERATION)
    seen = replace(known, base=replace(known.base, instance=plan.after))
    receipt = _receipt(plan.after, blocking(seen, now=draft.now), operation_id=ids.next())
    _record(tx, command, principal, plan, receipt=receipt)
    apply_plans(tx, [plan], [], NOTHING_LOCKED)
    return receipt


def _receipt(after: Instance, blockers: Iterable[Blocker], *, operation_id: str) -> dict[str, Any]:
    return {
        "operation": OPERATION,
        "operation_id": operation_id,
        "instance_id": after.id,
        "state_after": after.state.value,
        "gate": "OPEN" if after.gate_open else "CLOSED",
        "paused": after.paused,
        "stop_kind": after.stop.kind.value if after.stop is not None else None,
        "revision": str(after.revision),
        "control_revision": str(after.control_revision),
        "deadline_at": after.deadline_at,
        "blocking": [asdict(blocker) for blocker in blockers],
        "details": {},
        "warnings": [],
        "dry_run": False,
    }


def _record(
    tx: Tx,
    command: Acknowledgement,
    principal: Principal,
    plan: InstancePlan,
    *,
    receipt: Mapping[str, Any],
) -> None:
    after, operation_id = plan.after, receipt["operation_id"]
    audit = WorkflowAudit(
        id=operation_id,
        namespace=after.namespace,
        instance_id=after.id,
        operation=OPERATION,
        idempotency_key=command.idempotency_key,
        outcome="ACCEPTED",
        code=None,
        actor=principal.actor,
        at=after.journal_at,
        command_digest=command.digest,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        prior={"contradicted": True},
        next={"contradicted": False},
        execution_audit_id=None,
    )
    insert_audits(tx, execution=None, workflow=audit)
    store_receipt(
        tx,
        namespace=after.namespace,
        key=command.idempotency_key,
        operation_id=operation_id,
        operation=OPERATION,
        target_id=after.id,
        digest=command.digest,
        receipt=receipt,
        actor=principal.actor,
        at=after.journal_at,
    )


def _audit_refusal(tx: Tx, *, command: Acknowledgement, refusal: Rejected, ids: IdSource) -> None:
    key = command.idempotency_key
    audit = WorkflowAudit(
        id=ids.next(),
        namespace=command.principal.namespace,
        instance_id=command.instance_id if is_id(command.instance_id) else None,
        operation=OPERATION,
        idempotency_key=None if texts.complain_of_key(key) else key,
        outcome="REFUSED",
        code=refusal.code,
        actor=command.principal.actor,
        at=tx.now(),
        command_digest=command.digest,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        prior=None,
        next=None,
        execution_audit_id=None,
    )
    insert_audits(tx, execution=None, workflow=audit)
