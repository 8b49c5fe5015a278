"""The audit entry of an administrative change."""

from collections.abc import Mapping
from typing import Any

from pulseweave.kernel import canonical
from pulseweave.kernel.ids import IdSource
from pulseweave.store.changes.audit import WorkflowAudit
from pulseweave.store.tx import Tx


def admin_audit(
    tx: Tx, namespace: str, operation: str, body: Mapping[str, Any], *, actor: str, ids: IdSource
) -> WorkflowAudit:
    return WorkflowAudit(
        id=ids.next(),
        namespace=namespace,
        instance_id=None,
        operation=operation,
        idempotency_key=None,
        outcome="ACCEPTED",
        code=None,
        actor=actor,
        at=tx.now(),
        command_digest=canonical.digest_of(dict(body)),
        reason=None,
        evidence_ref=None,
        prior=None,
        next=body,
        execution_audit_id=None,
    )
