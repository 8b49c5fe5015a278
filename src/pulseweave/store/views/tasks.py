"""Tasks as people and programs read them: with attempts and late reports; the result stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select

from pulseweave.core.pulse.change import TaskSpec
from pulseweave.core.pulse.task import Task
from pulseweave.store import schema as t
from pulseweave.store.facts.tasks import specs, task_results, tasks_by_id
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """``attempts`` and ``late_reports`` are rows; ``result`` is canonical JSON text."""

    task: Task
    spec: TaskSpec
    attempts: list[Any]
    late_reports: list[Any]
    result: str | None


_ATTEMPTS = (
    select(t.attempts)
    .where(in_keys(t.attempts.c.task_id, "ids"))
    .order_by(t.attempts.c.task_id, t.attempts.c.number)
)
_LATE = (
    select(t.late_reports)
    .where(in_keys(t.late_reports.c.task_id, "ids"))
    .order_by(t.late_reports.c.id)
)


def task_details(tx: Tx, task_ids: Sequence[str]) -> list[TaskDetail]:
    """In the order of ids; unknown ids are left out."""
    if not task_ids:
        return []
    ids = {"ids": sorted(task_ids)}
    tasks = tasks_by_id(tx, task_ids)
    known = specs(tx, task_ids)
    attempts: dict[str, list[Any]] = {}
    for row in tx.rows(_ATTEMPTS, ids):
        attempts.setdefault(row.task_id, []).append(row)
    late: dict[str, list[Any]] = {}
    for row in tx.rows(_LATE, ids):
        late.setdefault(row.task_id, []).append(row)
    results = task_results(tx, sorted(task_ids))
    return [
        TaskDetail(
            task=tasks[task_id],
            spec=known[task_id],
            attempts=attempts.get(task_id, []),
            late_reports=late.get(task_id, []),
            result=results.get(task_id, (None, None))[0],
        )
        for task_id in sorted(tasks)
    ]


_e = t.result_events.c
_STREAM = (
    select(t.result_events)
    .where(
        _e.namespace == bindparam("namespace"),
        _e.partition_id == bindparam("partition_id"),
        _e.seq > bindparam("after"),
    )
    .order_by(_e.seq)
    .limit(bindparam("limit"))
)


def stream(tx: Tx, namespace: str, *, partition_id: int, after: int, limit: int) -> Sequence[Any]:
    """Events of one partition behind a position, in order and without gaps (PUL-11)."""
    params = {
        "namespace": namespace,
        "partition_id": partition_id,
        "after": after,
        "limit": limit,
    }
    return tx.rows(_STREAM, params)


_x = t.inbox.c
_INBOX = (
    select(t.inbox)
    .where(
        _x.namespace == bindparam("namespace"),
        _x.state.in_(["PENDING", "QUARANTINED"]),
        (_x.partition_id > bindparam("after_partition"))
        | ((_x.partition_id == bindparam("after_partition")) & (_x.seq > bindparam("after_seq"))),
    )
    .order_by(_x.partition_id, _x.seq)
    .limit(bindparam("limit"))
)


def open_inbox(
    tx: Tx, namespace: str, *, after_partition: int, after_seq: int, limit: int
) -> Sequence[Any]:
    """Records that are not processed: quarantined ones, and those that wait behind them."""
    params = {
        "namespace": namespace,
        "after_partition": after_partition,
        "after_seq": after_seq,
        "limit": limit,
    }
    return tx.rows(_INBOX, params)
