"""Receipts: the frozen answer of a management command, found again by its idempotency key (REC-3).

The caller holds the stripe of the key, so that two first uses of one key can't meet.
"""

from collections.abc import Mapping
from typing import Any

from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject
from pulseweave.store import schema as t
from pulseweave.store.facts.receipts import receipt_row
from pulseweave.store.tx import Tx


def find_receipt(
    tx: Tx, *, namespace: str, key: str, operation: str, target_id: str, digest: str
) -> Mapping[str, Any] | None:
    """The first receipt of the same command; raises IDEMPOTENCY_CONFLICT for another one."""
    row = receipt_row(tx, namespace, key)
    if row is None:
        return None
    if (row.operation, row.target_id, row.command_digest) != (operation, target_id, digest):
        raise reject(
            "IDEMPOTENCY_CONFLICT",
            f"the key was used before, for {row.operation} on {row.target_id}",
            rule="REC-3",
            used_for={"operation": row.operation, "target_id": row.target_id},
        )
    receipt: Mapping[str, Any] = canonical.parse(row.receipt)
    return receipt


def store_receipt(
    tx: Tx,
    *,
    namespace: str,
    key: str,
    operation_id: str,
    operation: str,
    target_id: str,
    digest: str,
    receipt: Mapping[str, Any],
    actor: str,
    at: int,
) -> None:
    row = {
        "namespace": namespace,
        "idempotency_key": key,
        "id": operation_id,
        "operation": operation,
        "target_id": target_id,
        "command_digest": digest,
        "receipt": canonical.encode(dict(receipt)),
        "actor": actor,
        "at": at,
    }
    tx.insert_many(t.operations, [row])
