"""Reads of result streams, and of what Pulse knows of the tasks that events name."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, bindparam, select

from pulseweave.core.pulse.task import EventKind, Outcome, SettledBy, TaskState
from pulseweave.core.weave.inbox import StreamEvent, TaskFacts
from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.facts.tasks import task_results
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx

_e, _p = t.result_events.c, t.result_partitions.c
_EVENTS = (
    select(t.result_events, t.late_reports.c.outcome.label("late_outcome"))
    .select_from(
        t.result_events.outerjoin(t.late_reports, t.late_reports.c.id == _e.late_report_id)
    )
    .join(t.cursors, t.cursors.c.partition_id == _e.partition_id)
    .where(
        in_keys(t.cursors.c.partition_id, "ids"),
        t.cursors.c.consumer == bindparam("consumer"),
        _e.seq > t.cursors.c.seq,
        _e.seq <= t.cursors.c.seq + bindparam("share"),
    )
    .order_by(_e.partition_id, _e.seq)
)
_BUSY = (
    select(_p.id, (_p.head_seq - t.cursors.c.seq).label("lag"))
    .select_from(t.result_partitions.join(t.cursors, t.cursors.c.partition_id == _p.id))
    .where(t.cursors.c.consumer == bindparam("consumer"), _p.head_seq > t.cursors.c.seq)
    .order_by(_p.id)
)


def busy_partitions(tx: Tx, consumer: str) -> dict[int, int]:
    """Partition → how many events its stream is ahead of the consumer's position."""
    return {row.id: row.lag for row in tx.rows(_BUSY, {"consumer": consumer})}


def event_from_row(row: Any) -> StreamEvent:
    """A row of the stream, joined with the late report that it may tell of."""
    return StreamEvent(
        partition_id=row.partition_id,
        seq=row.seq,
        namespace=row.namespace,
        task_id=row.task_id,
        task_revision=row.task_revision,
        instance_id=row.instance_id,
        activation_id=row.activation_id or "",
        kind=EventKind(row.kind),
        code=row.code,
        late_outcome=Outcome(row.late_outcome) if row.late_outcome is not None else None,
        at=row.at,
    )


def events_after(
    tx: Tx, partition_ids: Sequence[int], consumer: str, *, share: int
) -> tuple[list[StreamEvent], dict[int, int]]:
    """Up to ``share`` events of each partition behind the consumer's position: those of workflows,
    and each partition's last event read (of anyone).
    """
    params = {"ids": list(partition_ids), "consumer": consumer, "share": share}
    rows = tx.rows(_EVENTS, params)
    events = [event_from_row(row) for row in rows if row.instance_id is not None]
    return events, {row.partition_id: row.seq for row in rows}


_tasks = t.tasks.c
_attempts = t.attempts.c
_TASKS = (
    select(
        _tasks.id,
        _tasks.namespace,
        _tasks.instance_id,
        _tasks.activation_id,
        _tasks.state,
        _tasks.revision,
        _tasks.settled_by,
        _tasks.settled_code,
        _tasks.attempt_count,
        _attempts.error,
    )
    .select_from(
        t.tasks.outerjoin(
            t.attempts,
            and_(_attempts.task_id == _tasks.id, _attempts.number == _tasks.attempt_count),
        )
    )
    .where(in_keys(_tasks.id, "ids"))
)


def task_facts(tx: Tx, events: Sequence[StreamEvent]) -> dict[str, TaskFacts]:
    """task id → what Pulse knows of it now, for the tasks that the events name."""
    ids = sorted({event.task_id for event in events})
    succeeded = {e.task_id for e in events if e.kind is EventKind.SUCCEEDED}
    results = task_results(tx, sorted(succeeded)) if succeeded else {}
    found: dict[str, TaskFacts] = {}
    for row in tx.rows(_TASKS, {"ids": ids}):
        result, digest = results.get(row.id, (None, None))
        found[row.id] = TaskFacts(
            task_id=row.id,
            namespace=row.namespace,
            instance_id=row.instance_id,
            activation_id=row.activation_id,
            state=TaskState(row.state),
            revision=row.revision,
            result=result,
            result_digest=digest,
            error=_error(row),
        )
    return found


def _error(row: Any) -> str | None:
    """The leaf's error: the settlement's code with the reporting attempt's message and details."""
    if row.settled_code is None:
        return None
    told: Any = None
    if row.error is not None and row.settled_by == SettledBy.ATTEMPT.value:
        told = canonical.parse(row.error)
    if not isinstance(told, dict):
        told = {}
    return canonical.encode({"message": "", **told, "code": row.settled_code})
