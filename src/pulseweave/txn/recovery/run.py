"""The one transaction around every recovery command (REC-1, REC-3, REC-6, REC-7, REC-14).

Locks: application quota → operation → the definition's queues → instance → gate → tasks → result
stream. The credential is read again inside. A receipt for the key answers before anything is
decided. State, audits and receipt commit together or not at all; a refusal is audited afterwards,
in a transaction of its own. A dry run takes the same way and is rolled back: it writes nothing and
leaves the key free.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.recovery.command import Command
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.core.recovery.operations import blocking
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.kernel import texts
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource, is_id
from pulseweave.store import locks
from pulseweave.store.changes.audit import ExecutionAudit, WorkflowAudit, insert_audits
from pulseweave.store.changes.weave import Locked, apply_plans, lock_gates_and_tasks
from pulseweave.store.engine import Database
from pulseweave.store.facts import instances as instance_facts
from pulseweave.store.facts.recovery import load_recovery_facts, with_values
from pulseweave.store.tx import Tx
from pulseweave.txn.form import check_form
from pulseweave.txn.identity import read_principal
from pulseweave.txn.receipt import find_receipt, store_receipt
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.held import hold_instance, identity_of
from pulseweave.txn.weave.quota import Quotas, lock_quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recovery command with who asks, for which instance, under which key."""

    principal: Principal
    instance_id: str
    idempotency_key: str
    command: Command
    digest: str
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an accepted command changes, beside its plan, and what its receipt tells."""

    plan: InstancePlan
    task_change: TaskChange | None = None
    result: str | None = None
    prior: Mapping[str, Any] | None = None
    details: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a decision may use besides facts."""

    now: int
    new_id: Callable[[], str]
    actor: str
    operation_id: str
    execution_audit_id: str


class Decide(Protocol):
    def __call__(self, facts: RecoveryFacts, context: Context) -> Verdict | Rejected | Missing: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What the transaction holds when a decision is made."""

    definition: Definition
    instance: Instance
    quotas: Quotas
    locked: Locked


class _DryRun(Exception):
    """Carries the answer out of a transaction that must be rolled back."""

    def __init__(self, receipt: Mapping[str, Any]) -> None:
        super().__init__("dry run")
        self.receipt = receipt


def recover(
    database: Database, request: Request, decide: Decide, *, ids: IdSource
) -> Mapping[str, Any]:
    """The receipt; raises Rejected, after recording that it was refused (REC-14)."""
    try:
        _admit(request)
        return run(database, lambda tx: _recover(tx, request, decide, ids))
    except _DryRun as dry:
        return dry.receipt
    except Rejected as refusal:
        if not request.dry_run:
            run(database, partial(_audit_refusal, request=request, refusal=refusal, ids=ids))
        raise


def _admit(request: Request) -> None:
    """What can be refused without the database: permission, then form (REC-1, REC-2)."""
    command = request.command
    refusal = request.principal.refuse_permission(Permission.WORKFLOWS_RECOVER)
    if refusal is not None:
        raise refusal
    check_form(
        key=request.idempotency_key, reason=command.reason, evidence_ref=command.evidence_ref
    )


def _recover(tx: Tx, request: Request, decide: Decide, ids: IdSource) -> Mapping[str, Any]:
    held = _lock(tx, request)
    stored = find_receipt(
        tx,
        namespace=request.principal.namespace,
        key=request.idempotency_key,
        operation=request.command.OPERATION,
        target_id=request.instance_id,
        digest=request.digest,
    )
    if stored is not None:
        return stored
    facts = load_recovery_facts(tx, held.instance, held.definition, room=held.quotas.counted)
    context = Context(
        now=facts.no_earlier(tx.now()),
        new_id=ids.next,
        actor=request.principal.actor,
        operation_id=ids.next(),
        execution_audit_id=ids.next(),
    )
    verdict = decide(facts, context)
    while isinstance(verdict, Missing):
        facts = with_values(tx, facts, verdict.names)
        verdict = decide(facts, context)
    if isinstance(verdict, Rejected):
        raise _with_journal(tx, request, verdict)
    receipt = _receipt(facts, request, context, verdict)
    if request.dry_run:
        raise _DryRun({**receipt, "operation_id": None, "dry_run": True})
    _write(tx, request, context, held, verdict=verdict, receipt=receipt)
    return receipt


def _lock(tx: Tx, request: Request) -> _Held:
    """Every lock of a recovery command, in rank order (REC-6), and the authority as it is now."""
    namespace = request.principal.namespace
    identity = identity_of(tx, namespace, request.instance_id)
    definition = definitions_of(tx, [identity.definition_id])[identity.definition_id]
    quotas = lock_quotas(
        tx,
        [(namespace, identity.application)],
        [(namespace, queue) for queue in definition.queues],
        between=lambda: locks.lock_operation_stripe(tx, namespace, request.idempotency_key),
    )
    instance = hold_instance(tx, namespace, request.instance_id)
    locked = lock_gates_and_tasks(tx, [request.instance_id])
    _authorise(tx, request, definition.queues)
    return _Held(definition=definition, instance=instance, quotas=quotas, locked=locked)


def _authorise(tx: Tx, request: Request, queues: tuple[str, ...]) -> None:
    """Credential, permission and queues as they are now, not as they were at the door (REC-1,
    REC-3).
    """
    principal = read_principal(tx, request.principal.credential_id, now=tx.now())
    refusal = principal.refuse_permission(Permission.WORKFLOWS_RECOVER) or principal.refuse_queues(
        queues
    )
    if refusal is not None:
        raise refusal


def _with_journal(tx: Tx, request: Request, refusal: Rejected) -> Rejected:
    """A revision conflict carries the journal since the expected revision (REC-12)."""
    if refusal.code != "REVISION_CONFLICT":
        return refusal
    since = instance_facts.journal_since(tx, request.instance_id, request.command.expected_revision)
    return refusal.with_detail(journal_since=since)


def _receipt(
    facts: RecoveryFacts, request: Request, context: Context, verdict: Verdict
) -> dict[str, Any]:
    after = verdict.plan.after
    leaves = dict(facts.base.leaves)
    leaves |= {c.after.step_key: c.after for c in verdict.plan.leaves if c.after.current}
    histories = dict(facts.histories)
    change = verdict.task_change
    sources = facts.sources
    if change is not None:
        history = histories[change.after.id]
        histories[change.after.id] = replace(history, task=change.after, unknown_attempts=0)
        sources = replace(sources, unconsumed=True)
    seen = replace(
        facts,
        base=replace(facts.base, instance=after, leaves=leaves),
        histories=histories,
        sources=sources,
    )
    return {
        "operation": request.command.OPERATION,
        "operation_id": context.operation_id,
        "instance_id": after.id,
        "state_after": after.state.value,
        "gate": "OPEN" if after.gate_open else "CLOSED",
        "paused": after.paused,
        "stop_kind": after.stop.kind.value if after.stop is not None else None,
        "revision": str(after.revision),
        "control_revision": str(after.control_revision),
        "deadline_at": after.deadline_at,
        "blocking": [asdict(blocker) for blocker in blocking(seen, now=context.now)],
        "details": dict(verdict.details or {}),
        "warnings": list(verdict.warnings),
        "dry_run": False,
    }


def _write(
    tx: Tx,
    request: Request,
    context: Context,
    held: _Held,
    *,
    verdict: Verdict,
    receipt: Mapping[str, Any],
) -> None:
    """Everything of an accepted command; the result stream is written last (REC-7)."""
    command, actor = request.command, request.principal.actor
    before = held.instance
    execution = None
    if verdict.task_change is not None:
        execution = ExecutionAudit(
            id=context.execution_audit_id,
            namespace=before.namespace,
            task_id=verdict.task_change.after.id,
            operation=command.OPERATION,
            actor=actor,
            at=context.now,
            command_digest=request.digest,
            reason=command.reason,
            evidence_ref=command.evidence_ref,
            prior=_task_prior(verdict.task_change),
            verdict=verdict.task_change.after.state.value,
            result=verdict.result,
            late_report_id=getattr(command, "late_report_id", None),
        )
    workflow = WorkflowAudit(
        id=context.operation_id,
        namespace=before.namespace,
        instance_id=before.id,
        operation=command.OPERATION,
        idempotency_key=request.idempotency_key,
        outcome="ACCEPTED",
        code=None,
        actor=actor,
        at=context.now,
        command_digest=request.digest,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        prior={**_instance_state(before), **(verdict.prior or {})},
        next={**_instance_state(verdict.plan.after), **(verdict.details or {})},
        execution_audit_id=execution.id if execution is not None else None,
    )
    insert_audits(tx, execution=execution, workflow=workflow)
    store_receipt(
        tx,
        namespace=before.namespace,
        key=request.idempotency_key,
        operation_id=context.operation_id,
        operation=command.OPERATION,
        target_id=before.id,
        digest=request.digest,
        receipt=receipt,
        actor=actor,
        at=context.now,
    )
    changes = [verdict.task_change] if verdict.task_change is not None else []
    apply_plans(tx, [verdict.plan], [], held.locked, extra=changes)


def step_prior(facts: RecoveryFacts, step_key: str) -> dict[str, Any]:
    """What the audit keeps of a step before the decision."""
    leaf = facts.base.leaves[step_key]
    return {
        "step_key": leaf.step_key,
        "activation_id": leaf.id,
        "step_state": leaf.state.value,
        "step_revision": leaf.revision,
        "task_id": leaf.task_id,
    }


def _instance_state(instance: Instance) -> dict[str, Any]:
    return {
        "state": instance.state.value,
        "revision": instance.revision,
        "control_revision": instance.control_revision,
        "paused": instance.paused,
        "stop": instance.stop.kind.value if instance.stop is not None else None,
    }


def _task_prior(change: TaskChange) -> dict[str, Any]:
    task = change.before
    return {
        "state": task.state.value,
        "revision": task.revision,
        "attempt_count": task.attempt_count,
        "tainted": task.tainted,
    }


def _audit_refusal(tx: Tx, *, request: Request, refusal: Rejected, ids: IdSource) -> None:
    command, key = request.command, request.idempotency_key
    workflow = WorkflowAudit(
        id=ids.next(),
        namespace=request.principal.namespace,
        instance_id=request.instance_id if is_id(request.instance_id) else None,
        operation=command.OPERATION,
        idempotency_key=None if texts.complain_of_key(key) else key,
        outcome="REFUSED",
        code=refusal.code,
        actor=request.principal.actor,
        at=tx.now(),
        command_digest=request.digest,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        prior=None,
        next=None,
        execution_audit_id=None,
    )
    insert_audits(tx, execution=None, workflow=workflow)
