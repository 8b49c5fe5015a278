"""Audit rows: execution audit (Pulse) and workflow audit (Weave), written once (REC-8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.tx import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionAudit:
    """A person's decision on a task. ``result`` (canonical JSON text) has its home here
    for ever.
    """

    id: str
    namespace: str
    task_id: str
    operation: str
    actor: str
    at: int
    command_digest: str
    reason: str
    evidence_ref: str
    prior: Mapping[str, Any]
    verdict: str | None
    result: str | None
    late_report_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAudit:
    """A command on a workflow, accepted or refused; cites the execution audit where
    there is one.
    """

    id: str
    namespace: str
    instance_id: str | None
    operation: str
    idempotency_key: str | None
    outcome: str
    code: str | None
    actor: str
    at: int
    command_digest: str
    reason: str | None
    evidence_ref: str | None
    prior: Mapping[str, Any] | None
    next: Mapping[str, Any] | None
    execution_audit_id: str | None


def insert_audits(
    tx: Tx, *, execution: ExecutionAudit | None, workflow: WorkflowAudit | None
) -> None:
    if execution is not None:
        tx.insert_many(t.execution_audit, [_execution_row(execution)])
    if workflow is not None:
        tx.insert_many(t.workflow_audit, [_workflow_row(workflow)])


def _execution_row(audit: ExecutionAudit) -> dict[str, Any]:
    return {
        "id": audit.id,
        "namespace": audit.namespace,
        "task_id": audit.task_id,
        "operation": audit.operation,
        "actor": audit.actor,
        "at": audit.at,
        "command_digest": audit.command_digest,
        "reason": canonical.encode(audit.reason),
        "evidence_ref": canonical.encode(audit.evidence_ref),
        "prior": canonical.encode(dict(audit.prior)),
        "verdict": audit.verdict,
        "result": audit.result,
        "result_digest": canonical.digest(audit.result) if audit.result is not None else None,
        "late_report_id": audit.late_report_id,
    }


def _workflow_row(audit: WorkflowAudit) -> dict[str, Any]:
    return {
        "id": audit.id,
        "namespace": audit.namespace,
        "instance_id": audit.instance_id,
        "operation": audit.operation,
        "idempotency_key": audit.idempotency_key,
        "outcome": audit.outcome,
        "code": audit.code,
        "actor": audit.actor,
        "at": audit.at,
        "command_digest": audit.command_digest,
        "reason": _text(audit.reason),
        "evidence_ref": _text(audit.evidence_ref),
        "prior": canonical.encode(dict(audit.prior)) if audit.prior is not None else None,
        "next": canonical.encode(dict(audit.next)) if audit.next is not None else None,
        "execution_audit_id": audit.execution_audit_id,
    }


def _text(text: str | None) -> str | None:
    return canonical.encode(text) if text is not None else None
