"""Writes of tasks, attempts and late reports: one statement a kind, conditional and counted.

A task row is matched by id, state, revision, holds and lease token as they were when decided; an
attempt is closed only while it is open. What does not match rolls the transaction back (PUL-6).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import bindparam, update

from pulseweave.core.pulse.change import (
    AttemptClosed,
    AttemptOpened,
    LateReport,
    TaskChange,
    TaskCreated,
)
from pulseweave.core.pulse.task import Holds, Outcome, Queued, Task
from pulseweave.kernel.check import invariant
from pulseweave.store import schema as t
from pulseweave.store.guard import Rank
from pulseweave.store.locks import key_stripe
from pulseweave.store.rows_pulse import TASK_MOVING, spec_row, task_moving, task_row
from pulseweave.store.setwise import SetDelete, SetUpdate
from pulseweave.store.tx import Tx

_KEY_RELEASED = SetDelete(t.held_keys, keys=("key_hash",), expect=("task_id",))
_REVIEWED = (
    update(t.attempts)
    .where(
        t.attempts.c.task_id == bindparam("of_task"),
        t.attempts.c.outcome == Outcome.UNKNOWN.value,
        t.attempts.c.reviewed_by.is_(None),
    )
    .values(reviewed_by=bindparam("audit_id"))
)


def insert_tasks(tx: Tx, created: Sequence[TaskCreated]) -> None:
    """New tasks with their specs."""
    tx.insert_many(t.tasks, [task_row(new.task) for new in created])
    tx.insert_many(t.task_specs, [spec_row(new.spec, new.task.namespace) for new in created])
    for new in created:
        _hint_claimable(tx, new.task)


def write_task_changes(tx: Tx, changes: Sequence[TaskChange]) -> None:
    """Everything but the events, which the caller appends last. One change of a task at a time."""
    moved = [change for change in changes if change.after != change.before]
    _move_tasks(tx, moved)
    _hand_keys(tx, moved)
    tx.insert_many(t.attempts, [_opened(c.opened) for c in changes if c.opened is not None])
    _close_attempts(tx, [_closed(c.closed, c.after) for c in changes if c.closed is not None])
    tx.insert_many(t.late_reports, [_late(c.late) for c in changes if c.late is not None])
    for change in changes:
        if change.unknown_settled_by is not None:
            params = {"of_task": change.after.id, "audit_id": change.unknown_settled_by}
            reviewed = tx.execute(_REVIEWED, params)
            invariant(reviewed > 0, "a review settles an unknown attempt", task_id=change.after.id)
        _hint_claimable(tx, change.after)


def _hand_keys(tx: Tx, changes: Sequence[TaskChange]) -> None:
    """Concurrency keys given back and taken; a key is taken only under its stripe (PUL-9)."""
    released = [c for c in changes if c.before.holds_key and not c.after.holds_key]
    taken = [c.after for c in changes if c.after.holds_key and not c.before.holds_key]
    tx.update_many(
        _KEY_RELEASED,
        [{"key_hash": c.before.key, "expect_task_id": c.before.id} for c in released],
    )
    for task in taken:
        held = task.key is not None and tx.guard.holds(Rank.KEY_STRIPE, key_stripe(task.key))
        invariant(held, "a key is taken under its stripe", task_id=task.id)
    rows = [{"key_hash": task.key, "task_id": task.id} for task in taken]
    tx.insert_many(t.held_keys, rows)
    for change in released:
        tx.hint("key", change.before.key)


def _hint_claimable(tx: Tx, task: Task) -> None:
    if isinstance(task.phase, Queued) and task.holds is Holds.NONE:
        tx.hint("queue", (task.namespace, task.queue))


@cache
def _task_update(columns: tuple[str, ...]) -> SetUpdate:
    return SetUpdate(
        t.tasks,
        keys=("id",),
        expect=("state", "revision", "holds", "lease_token"),
        set=columns,
        rank=Rank.TASK,
    )


def _move_tasks(tx: Tx, changes: Sequence[TaskChange]) -> None:
    """One statement that sets the columns of which at least one task's moves: MariaDB, for one,
    pays for every column that is named.
    """
    values = [(task_moving(c.before), task_moving(c.after.check())) for c in changes]
    moving = tuple(name for name in TASK_MOVING if any(b[name] != a[name] for b, a in values))
    rows = [
        {
            "id": change.before.id,
            "expect_state": before["state"],
            "expect_revision": before["revision"],
            "expect_holds": before["holds"],
            "expect_lease_token": before["lease_token"],
            **{name: after[name] for name in moving},
        }
        for change, (before, after) in zip(changes, values, strict=True)
    ]
    if moving:
        tx.update_many(_task_update(moving), rows)


_CLOSING = (
    "outcome",
    "ended_at",
    "closed_by",
    "code",
    "error",
    "result",
    "result_digest",
    "report_digest",
    "task_state",
)


@cache
def _attempt_update(columns: tuple[str, ...]) -> SetUpdate:
    return SetUpdate(t.attempts, keys=("task_id", "number"), expect=("outcome",), set=columns)


def _close_attempts(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    """An open attempt has none of these columns set, so that those without a value stay out."""
    given = tuple(name for name in _CLOSING if any(row[name] is not None for row in rows))
    kept = {"task_id", "number", "expect_outcome", *given}
    told = [{name: value for name, value in row.items() if name in kept} for row in rows]
    if told:
        tx.update_many(_attempt_update(given), told)


def _opened(opened: AttemptOpened) -> dict[str, Any]:
    return {
        "task_id": opened.task_id,
        "number": opened.number,
        "lease_token": opened.lease_token,
        "worker": opened.worker,
        "started_at": opened.started_at,
    }


def _closed(closed: AttemptClosed, after: Task) -> dict[str, Any]:
    return {
        "task_id": closed.task_id,
        "number": closed.number,
        "expect_outcome": None,
        "outcome": closed.outcome.value,
        "ended_at": closed.ended_at,
        "closed_by": closed.closed_by,
        "code": closed.code,
        "error": closed.error,
        "result": closed.result,
        "result_digest": closed.result_digest,
        "report_digest": closed.report_digest,
        "task_state": after.state.value,
    }


def _late(late: LateReport) -> dict[str, Any]:
    return {
        "id": late.id,
        "namespace": late.namespace,
        "task_id": late.task_id,
        "attempt": late.attempt,
        "report_digest": late.report_digest,
        "outcome": late.outcome.value,
        "code": late.code,
        "error": late.error,
        "result": late.result,
        "result_digest": late.result_digest,
        "received_at": late.received_at,
    }
