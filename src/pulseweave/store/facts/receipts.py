"""Stored receipts by idempotency key."""

from typing import Any

from sqlalchemy import bindparam, select

from pulseweave.store import schema as t
from pulseweave.store.tx import Tx

_o = t.operations.c
_BY_KEY = select(t.operations).where(
    _o.namespace == bindparam("namespace"), _o.idempotency_key == bindparam("key")
)


def receipt_row(tx: Tx, namespace: str, key: str) -> Any | None:
    rows = tx.rows(_BY_KEY, {"namespace": namespace, "key": key})
    return rows[0] if rows else None
