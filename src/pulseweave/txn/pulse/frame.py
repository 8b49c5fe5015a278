"""The frame around a person's command on one task: key, receipt, audit and event together.

Used by cancel, review and declare-lost. Locks: operation stripe → task → result partition. The
credential is read again inside (REC-1); what is refused leaves nothing (REC-7).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.task import Task
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.audit import ExecutionAudit, insert_audits
from pulseweave.store.changes.events import append_events
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.tx import Tx
from pulseweave.txn.identity import read_principal
from pulseweave.txn.receipt import find_receipt, store_receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommand:
    """What every such command carries. ``evidence_ref`` is empty where none is asked for."""

    operation: str
    permission: Permission
    principal: Principal
    task_id: str
    idempotency_key: str
    reason: str
    evidence_ref: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    change: TaskChange
    verdict: str | None = None
    result: str | None = None
    late_report_id: str | None = None


Decide = Callable[[Task, int, str], Decided | Rejected]


def command_on_task(
    tx: Tx, command: TaskCommand, decide: Decide, *, ids: IdSource
) -> Mapping[str, Any]:
    """The receipt; raises Rejected. ``decide`` gets the locked task, now, and the audit's id."""
    namespace = command.principal.namespace
    locks.lock_operation_stripe(tx, namespace, command.idempotency_key)
    task = locks.lock_tasks(tx, [command.task_id]).get(command.task_id)
    principal = read_principal(tx, command.principal.credential_id, now=tx.now())
    refusal = principal.refuse_permission(command.permission)
    if refusal is not None:
        raise refusal
    if task is None or task.namespace != namespace:
        raise reject("TASK_NOT_FOUND", f"there is no task {command.task_id}")
    refusal = principal.refuse_queues([task.queue])
    if refusal is not None:
        raise refusal
    stored = find_receipt(
        tx,
        namespace=namespace,
        key=command.idempotency_key,
        operation=command.operation,
        target_id=command.task_id,
        digest=command.digest,
    )
    if stored is not None:
        return stored
    now, audit_id = tx.now(), ids.next()
    decided = decide(task, now, audit_id)
    if isinstance(decided, Rejected):
        raise decided
    receipt = _receipt(command, decided.change.after, audit_id)
    _write(tx, command, decided, receipt, now=now)
    return receipt


def _write(
    tx: Tx, command: TaskCommand, decided: Decided, receipt: Mapping[str, Any], *, now: int
) -> None:
    before = decided.change.before
    audit = ExecutionAudit(
        id=receipt["operation_id"],
        namespace=before.namespace,
        task_id=before.id,
        operation=command.operation,
        actor=command.principal.actor,
        at=now,
        command_digest=command.digest,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        prior={"state": before.state.value, "revision": before.revision},
        verdict=decided.verdict,
        result=decided.result,
        late_report_id=decided.late_report_id,
    )
    insert_audits(tx, execution=audit, workflow=None)
    store_receipt(
        tx,
        namespace=before.namespace,
        key=command.idempotency_key,
        operation_id=receipt["operation_id"],
        operation=command.operation,
        target_id=before.id,
        digest=command.digest,
        receipt=receipt,
        actor=command.principal.actor,
        at=now,
    )
    write_task_changes(tx, [decided.change])
    event = decided.change.event
    append_events(tx, [event] if event is not None else [])


def _receipt(command: TaskCommand, task: Task, audit_id: str) -> dict[str, Any]:
    return {
        "operation": command.operation,
        "operation_id": audit_id,
        "instance_id": task.instance_id,
        "state_after": task.state.value,
        "gate": None,
        "paused": False,
        "stop_kind": None,
        "revision": None,
        "control_revision": None,
        "deadline_at": task.deadline_at,
        "blocking": [],
        "details": {
            "task_id": task.id,
            "task_revision": str(task.revision),
            "cancel_requested": task.cancel_requested_at is not None,
        },
        "warnings": [],
        "dry_run": False,
    }
