"""Reads about tasks for decisions. None of them locks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, select

from pulseweave.core.pulse.change import TaskSpec
from pulseweave.core.pulse.policy import Backoff
from pulseweave.core.pulse.report import ReportedAttempt
from pulseweave.core.pulse.task import Holds, Outcome, SettledBy, Task, TaskState
from pulseweave.store import schema as t
from pulseweave.store.rows_pulse import backoff_from_text, spec_from_row, task_from_row
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx

_t, _s, _a, _e = t.tasks.c, t.task_specs.c, t.attempts.c, t.execution_audit.c
_BY_ID = select(t.tasks).where(in_keys(_t.id, "ids"))
_SPECS = select(t.task_specs).where(in_keys(_s.task_id, "ids"))
_BACKOFFS = select(_s.task_id, _s.policy).where(in_keys(_s.task_id, "ids"))


def tasks_by_id(tx: Tx, task_ids: Iterable[str]) -> dict[str, Task]:
    return {row.id: task_from_row(row) for row in tx.rows(_BY_ID, {"ids": sorted(set(task_ids))})}


def specs(tx: Tx, task_ids: Iterable[str]) -> dict[str, TaskSpec]:
    rows = tx.rows(_SPECS, {"ids": sorted(set(task_ids))})
    return {row.task_id: spec_from_row(row) for row in rows}


def backoffs(tx: Tx, task_ids: Iterable[str]) -> dict[str, Backoff]:
    """The fixed backoff of each task."""
    rows = tx.rows(_BACKOFFS, {"ids": sorted(set(task_ids))})
    return {row.task_id: backoff_from_text(row.policy) for row in rows}


_ATTEMPTS_BY_TOKEN = select(
    _a.task_id, _a.lease_token, _a.number, _a.report_digest, _a.outcome, _a.task_state
).where(in_keys(_a.task_id, "ids"))


def attempts_by_token(tx: Tx, task_ids: Iterable[str]) -> dict[tuple[str, str], ReportedAttempt]:
    """(task id, lease token) → the attempt that carries it."""
    return {
        (row.task_id, row.lease_token): ReportedAttempt(
            number=row.number,
            report_digest=row.report_digest,
            outcome=Outcome(row.outcome) if row.outcome is not None else None,
            task_state=TaskState(row.task_state) if row.task_state is not None else None,
        )
        for row in tx.rows(_ATTEMPTS_BY_TOKEN, {"ids": sorted(set(task_ids))})
    }


_l = t.late_reports.c
_LATE_DIGESTS = select(_l.id, _l.task_id, _l.attempt, _l.report_digest).where(
    in_keys(_l.task_id, "ids")
)


def late_reports_kept(tx: Tx, task_ids: Iterable[str]) -> dict[tuple[str, int | None, str], str]:
    """(task id, attempt, digest of the report) → the late report that was kept of it (PUL-6)."""
    rows = tx.rows(_LATE_DIGESTS, {"ids": sorted(set(task_ids))})
    return {(row.task_id, row.attempt, row.report_digest): row.id for row in rows}


_RESULTS = (
    select(
        _t.id,
        _t.settled_by,
        _a.result,
        _a.result_digest,
        _e.result.label("verdict_result"),
        _e.result_digest.label("verdict_digest"),
    )
    .select_from(
        t.tasks.outerjoin(
            t.attempts,
            and_(
                _a.task_id == _t.id,
                _a.number == _t.attempt_count,
                _t.settled_by == SettledBy.ATTEMPT.value,
            ),
        ).outerjoin(
            t.execution_audit,
            and_(
                _e.task_id == _t.id,
                _e.verdict.is_not(None),
                _t.settled_by == SettledBy.VERDICT.value,
            ),
        )
    )
    .where(in_keys(_t.id, "ids"), _t.settled_at.is_not(None))
)


def task_results(tx: Tx, task_ids: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """Settled task → (result text, digest), from the reporting attempt or from the verdict."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for row in tx.rows(_RESULTS, {"ids": list(task_ids)}):
        if row.settled_by == SettledBy.VERDICT.value:
            found[row.id] = (row.verdict_result, row.verdict_digest)
        else:
            found[row.id] = (row.result, row.result_digest)
    return found


_UNSETTLED_IDS = select(_t.id).where(in_keys(_t.instance_id, "ids"), t.UNSETTLED)
_OF_INSTANCE = select(t.tasks).where(_t.instance_id == bindparam("instance_id")).order_by(_t.id)
_DEADLINES = (
    select(_t.id, _t.deadline_at)
    .where(
        _t.instance_id == bindparam("instance_id"),
        t.UNSETTLED,
        _t.deadline_at.is_not(None),
    )
    .order_by(_t.id)
)


_IDS_OF = select(_t.id).where(in_keys(_t.instance_id, "ids"))


def task_ids_of(tx: Tx, instance_ids: Sequence[str]) -> list[str]:
    """Every task of the instances."""
    return sorted(row.id for row in tx.rows(_IDS_OF, {"ids": list(instance_ids)}))


def unsettled_task_ids(tx: Tx, instance_ids: Sequence[str]) -> list[str]:
    return sorted(row.id for row in tx.rows(_UNSETTLED_IDS, {"ids": list(instance_ids)}))


def tasks_of_instance(tx: Tx, instance_id: str) -> list[tuple[Task, TaskSpec]]:
    """Every task of the instance with its spec, in order of creation."""
    tasks = [task_from_row(row) for row in tx.rows(_OF_INSTANCE, {"instance_id": instance_id})]
    known = specs(tx, [task.id for task in tasks]) if tasks else {}
    return [(task, known[task.id]) for task in tasks]


def running_deadlines(tx: Tx, instance_id: str) -> list[dict[str, object]]:
    """Deadlines of unsettled tasks, which a pause does not stop (WEA-12)."""
    rows = tx.rows(_DEADLINES, {"instance_id": instance_id})
    return [{"task_id": row.id, "deadline_at": row.deadline_at} for row in rows]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claimable task seen without a lock. ``holder``: who holds its key, if anyone does."""

    id: str
    key: str | None
    holder: str | None

    @property
    def blocked(self) -> bool:
        """Whether its key is another task's."""
        return self.holder is not None and self.holder != self.id


_h = t.held_keys.c
_PEEK = (
    select(
        _t.id,
        _t.key_hash,
        select(_h.task_id).where(_h.key_hash == _t.key_hash).scalar_subquery().label("holder"),
    )
    .where(
        _t.namespace == bindparam("namespace"),
        _t.queue == bindparam("queue"),
        _t.state == TaskState.QUEUED.value,
        _t.holds == 0,
        t.UNSETTLED,
    )
    .order_by(_t.priority_order, _t.id)
    .limit(bindparam("limit"))
)


def peek_claimable(tx: Tx, namespace: str, queue: str, limit: int) -> list[Candidate]:
    """What a claim would find first; keys among it must be locked before the claim."""
    rows = tx.rows(_PEEK, {"namespace": namespace, "queue": queue, "limit": limit})
    return [Candidate(row.id, row.key_hash, row.holder) for row in rows]


_HOLDERS = select(t.held_keys).where(in_keys(_h.key_hash, "keys"))


def key_holders(tx: Tx, key_hashes: Iterable[str]) -> dict[str, str]:
    """Held concurrency key → the task that holds it."""
    rows = tx.rows(_HOLDERS, {"keys": sorted(set(key_hashes))})
    return {row.key_hash: row.task_id for row in rows}


_DUE = (
    select(_t.id)
    .where(_t.sweep_at <= bindparam("now"))
    .order_by(_t.sweep_at)
    .limit(bindparam("limit"))
)
_NEXT_DUE = select(_t.sweep_at).where(_t.sweep_at.is_not(None)).order_by(_t.sweep_at).limit(1)


def due_task_ids(tx: Tx, now: int, limit: int) -> list[str]:
    """Tasks that time has something to do with, most overdue first."""
    return [row.id for row in tx.rows(_DUE, {"now": now, "limit": limit})]


def next_sweep_at(tx: Tx) -> int | None:
    rows = tx.rows(_NEXT_DUE, {})
    return int(rows[0].sweep_at) if rows else None


_WAITERS = (
    select(_t.waiting_key, _t.id)
    .where(_t.waiting_key > bindparam("after"), _t.holds == int(Holds.KEY))
    .order_by(_t.waiting_key, _t.priority_order, _t.id)
    .limit(bindparam("limit"))
)


def waited_keys(tx: Tx, *, after: str, limit: int) -> dict[str, str]:
    """Keys behind ``after`` that tasks wait for → the first of those that wait for nothing else.

    Reads ``limit`` waiters, hence a bounded number of rows; no key found means there is none.
    """
    found: dict[str, str] = {}
    for row in tx.rows(_WAITERS, {"after": after, "limit": limit}):
        found.setdefault(row.waiting_key, row.id)
    return found


_BY_KEY = (
    select(t.tasks)
    .select_from(t.tasks.join(t.task_specs, _s.task_id == _t.id))
    .where(_s.namespace == bindparam("namespace"), _s.task_key == bindparam("task_key"))
)


def stand_alone_by_key(tx: Tx, namespace: str, task_key: str) -> Task | None:
    rows = tx.rows(_BY_KEY, {"namespace": namespace, "task_key": task_key})
    return task_from_row(rows[0]) if rows else None
