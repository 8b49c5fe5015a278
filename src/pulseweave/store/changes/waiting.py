"""Writes of waits, signals, scopes and poll rounds: one statement a kind, each conditional."""

from collections.abc import Sequence
from typing import Any

from pulseweave.core.weave.plan import InstancePlan
from pulseweave.store import schema as t
from pulseweave.store.rows_waits import (
    QUERY_MOVING,
    SCOPE_MOVING,
    WAIT_MOVING,
    query_moving,
    query_row,
    scope_moving,
    scope_row,
    wait_moving,
    wait_row,
)
from pulseweave.store.setwise import SetUpdate
from pulseweave.store.tx import Tx

_WAIT = SetUpdate(t.waits, keys=("id",), expect=("state",), set=WAIT_MOVING)
_SCOPE = SetUpdate(t.scopes, keys=("id",), expect=("revision",), set=SCOPE_MOVING)
_QUERY = SetUpdate(t.poll_rounds, keys=("task_id",), expect=("answered_at",), set=QUERY_MOVING)
_TAKEN = SetUpdate(t.signals, keys=("id",), expect=("wait_id",), set=("wait_id", "taken_at"))


def write_waiting(tx: Tx, plans: Sequence[InstancePlan]) -> None:
    """What the plans change about waits, signals, scopes and rounds."""
    waits = [change for plan in plans for change in plan.waits]
    scopes = [change for plan in plans for change in plan.scopes]
    queries = [change for plan in plans for change in plan.queries]
    tx.update_many(
        _WAIT,
        [
            {"id": c.after.id, "expect_state": c.before.state.value, **wait_moving(c.after)}
            for c in waits
            if c.before is not None
        ],
    )
    tx.insert_many(t.waits, [wait_row(c.after) for c in waits if c.before is None])
    tx.update_many(
        _SCOPE,
        [
            {"id": c.after.id, "expect_revision": c.before.revision, **scope_moving(c.after)}
            for c in scopes
            if c.before is not None
        ],
    )
    tx.insert_many(t.scopes, [scope_row(c.after) for c in scopes if c.before is None])
    tx.update_many(
        _QUERY,
        [
            {"task_id": c.after.task_id, "expect_answered_at": None, **query_moving(c.after)}
            for c in queries
            if c.before is not None
        ],
    )
    tx.insert_many(t.poll_rounds, [query_row(c.after) for c in queries if c.before is None])
    tx.update_many(
        _TAKEN,
        [
            {
                "id": taken.signal_id,
                "expect_wait_id": None,
                "wait_id": taken.wait_id,
                "taken_at": taken.at,
            }
            for plan in plans
            for taken in plan.signals
        ],
    )


def insert_signal(tx: Tx, row: dict[str, Any]) -> None:
    """An accepted signal, whoever takes it and when."""
    tx.insert_many(t.signals, [row])
