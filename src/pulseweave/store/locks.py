"""The only file with locking reads. The functions stand in lock order, top to bottom (REC-6).

0 cursor · 1 application · 2 stripe · 3 queues · 4 instances · 5 gates · 6 stripes of concurrency
keys · 7 tasks · 8 result partitions. Each tells the guard first, so a wrong order is refused on
every database; SQLite, which has one writer, compiles the locks themselves to nothing. SKIP LOCKED
never excuses a rank.

A locking read must touch no row but the ones that it returns. MariaDB and MySQL lock what they
scan, so every statement is held to the index that leads straight to its rows, however small the
table is.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Table, bindparam, or_, select

from pulseweave.core.pulse.task import Task, TaskState
from pulseweave.store import schema as t
from pulseweave.store.guard import Rank
from pulseweave.store.rows_pulse import task_from_row
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx

STRIPES = 256
OPERATION, KEY = "OPERATION", "KEY"


def stripe_of(*parts: str) -> int:
    """The stripe that stands for a key; the same in every process."""
    raw = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).digest()[0]


def _by_index(statement: Select[Any], table: Table, index: str = "PRIMARY") -> Select[Any]:
    """Hold MariaDB and MySQL to one index."""
    hint = f"FORCE INDEX ({index})"
    return statement.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")


# --- 0: cursors -----------------------------------------------------------------------------------

_CURSORS = _by_index(
    select(t.cursors.c.partition_id, t.cursors.c.seq)
    .where(
        in_keys(t.cursors.c.partition_id, "ids"),
        t.cursors.c.consumer == bindparam("consumer"),
    )
    .order_by(t.cursors.c.partition_id)
    .with_for_update(skip_locked=True),
    t.cursors,
)


def lock_cursors(tx: Tx, partition_ids: Iterable[int], consumer: str) -> dict[int, int]:
    """Partition → the consumer's position, without those that another transaction owns."""
    ordered = sorted(set(partition_ids))
    rows = tx.rows(_CURSORS, {"ids": ordered, "consumer": consumer})
    tx.take(Rank.CURSOR, [(row.partition_id, consumer) for row in rows], skips_locked=True)
    return {row.partition_id: row.seq for row in rows}


# --- 1: applications ------------------------------------------------------------------------------

_APPLICATION = _by_index(
    select(t.applications)
    .where(
        t.applications.c.namespace == bindparam("namespace"),
        t.applications.c.name == bindparam("name"),
    )
    .with_for_update(),
    t.applications,
)


def lock_application(tx: Tx, namespace: str, name: str) -> Row[Any] | None:
    """An application's row, for exact quotas (PUL-12)."""
    tx.take(Rank.APPLICATION, [(namespace, name)])
    rows = tx.rows(_APPLICATION, {"namespace": namespace, "name": name})
    return rows[0] if rows else None


# --- 2: stripes of operation and start keys -------------------------------------------------------

_STRIPES = _by_index(
    select(t.stripes.c.number)
    .where(t.stripes.c.kind == bindparam("kind"), in_keys(t.stripes.c.number, "numbers"))
    .order_by(t.stripes.c.number)
    .with_for_update(),
    t.stripes,
)


def lock_operation_stripe(tx: Tx, namespace: str, key: str) -> None:
    """A command's idempotency key: a key without a row can't be locked, its stripe can."""
    _lock_stripes(tx, Rank.STRIPE, OPERATION, [stripe_of(namespace, key)])


def lock_start_stripes(tx: Tx, namespace: str, keys: Iterable[str]) -> None:
    """Keys under which something may be made for the first time."""
    _lock_stripes(tx, Rank.STRIPE, OPERATION, sorted({stripe_of(namespace, key) for key in keys}))


def _lock_stripes(tx: Tx, rank: Rank, kind: str, numbers: Sequence[int]) -> None:
    if numbers:
        tx.take(rank, numbers)
        if tx.capabilities.row_locks:
            tx.rows(_STRIPES, {"kind": kind, "numbers": list(numbers)})


# --- 3: queues ------------------------------------------------------------------------------------

_QUEUES = _by_index(
    select(t.queues)
    .where(t.queues.c.namespace == bindparam("namespace"), in_keys(t.queues.c.name, "names"))
    .order_by(t.queues.c.name),
    t.queues,
)
_QUEUES_LOCKED = _QUEUES.with_for_update()
_QUEUES_SHARED = _QUEUES.with_for_update(read=True)


def lock_queues(
    tx: Tx, namespace: str, names: Iterable[str], *, shared: bool = False
) -> dict[str, Row[Any]]:
    """Queues by name, for limits and counts; ``shared`` where nothing of them is counted.

    A shared lock is never made an exclusive one in the same transaction.
    """
    ordered = sorted(set(names))
    if not ordered:
        return {}
    tx.take(Rank.QUEUE, [(namespace, name) for name in ordered])
    statement = _QUEUES_SHARED if shared else _QUEUES_LOCKED
    rows = tx.rows(statement, {"namespace": namespace, "names": ordered})
    return {row.name: row for row in rows}


# --- 4: instances ---------------------------------------------------------------------------------

_INSTANCES = _by_index(
    select(t.instances).where(in_keys(t.instances.c.id, "ids")).order_by(t.instances.c.id),
    t.instances,
)
_INSTANCES_LOCKED = _INSTANCES.with_for_update()
_INSTANCES_SKIPPING = _INSTANCES.with_for_update(skip_locked=True)


def lock_instances(
    tx: Tx, instance_ids: Sequence[str], *, skip_locked: bool = False
) -> Sequence[Row[Any]]:
    """Instances, sorted. Whoever holds one owns its activations, conclusions, inbox and journal."""
    ordered = sorted(set(instance_ids))
    tx.take(Rank.INSTANCE, ordered)
    statement = _INSTANCES_SKIPPING if skip_locked else _INSTANCES_LOCKED
    return tx.rows(statement, {"ids": ordered})


# --- 5: gates -------------------------------------------------------------------------------------

_GATES = _by_index(
    select(t.gates)
    .where(in_keys(t.gates.c.instance_id, "ids"))
    .order_by(t.gates.c.instance_id)
    .with_for_update(),
    t.gates,
)


def lock_gates(tx: Tx, instance_ids: Sequence[str]) -> Sequence[Row[Any]]:
    ordered = sorted(set(instance_ids))
    tx.take(Rank.GATE, ordered)
    return tx.rows(_GATES, {"ids": ordered})


# --- 6: stripes of concurrency keys ---------------------------------------------------------------


def key_stripe(key_hash: str) -> int:
    """The stripe that stands for a concurrency key."""
    return int(key_hash[:2], 16)


def lock_key_stripes(tx: Tx, key_hashes: Iterable[str]) -> None:
    """Before a key is taken or handed over: two transactions must not both see it free."""
    numbers = sorted({key_stripe(key_hash) for key_hash in key_hashes})
    _lock_stripes(tx, Rank.KEY_STRIPE, KEY, numbers)


# --- 7: tasks -------------------------------------------------------------------------------------

_t = t.tasks.c
_TASKS = _by_index(select(t.tasks).where(in_keys(_t.id, "ids")).order_by(_t.id), t.tasks)
_TASKS_LOCKED = _TASKS.with_for_update()
_TASKS_SKIPPING = _TASKS.with_for_update(skip_locked=True)


def lock_tasks(tx: Tx, task_ids: Iterable[str], *, skip_locked: bool = False) -> dict[str, Task]:
    """Tasks by primary key, sorted."""
    ordered = sorted(set(task_ids))
    if not ordered:
        return {}
    tx.take(Rank.TASK, ordered, skips_locked=skip_locked)
    statement = _TASKS_SKIPPING if skip_locked else _TASKS_LOCKED
    return {row.id: task_from_row(row) for row in tx.rows(statement, {"ids": ordered})}


def _claimable(*, keyed: bool) -> Select[Any]:
    keys: ColumnElement[bool] = _t.key_hash.is_(None)
    if keyed:
        keys = or_(keys, in_keys(_t.key_hash, "keys"))
    statement = (
        select(t.tasks)
        .where(
            _t.namespace == bindparam("namespace"),
            _t.queue == bindparam("queue"),
            _t.state == TaskState.QUEUED.value,
            _t.holds == 0,
            t.UNSETTLED,
            keys,
        )
        .order_by(_t.priority_order, _t.id)
        .limit(bindparam("limit"))
        .with_for_update(skip_locked=True)
    )
    return _by_index(statement, t.tasks, "ix_tasks_claim")


_CLAIMABLE, _CLAIMABLE_KEYED = _claimable(keyed=False), _claimable(keyed=True)


def lock_claimable(
    tx: Tx, namespace: str, queue: str, *, keys: Sequence[str], limit: int
) -> list[Task]:
    """What can run, by priority, then creation (PUL-10).

    Of keyed tasks only those with one of ``keys``, whose stripes are held.
    """
    params: dict[str, Any] = {"namespace": namespace, "queue": queue, "limit": limit}
    if keys:
        params["keys"] = list(keys)
    rows = tx.rows(_CLAIMABLE_KEYED if keys else _CLAIMABLE, params)
    tasks = [task_from_row(row) for row in rows]
    tx.take(Rank.TASK, [task.id for task in tasks], skips_locked=True)
    return tasks


# --- 8: result partitions, last -------------------------------------------------------------------

_PARTITIONS = _by_index(
    select(t.result_partitions.c.id, t.result_partitions.c.head_seq)
    .where(in_keys(t.result_partitions.c.id, "ids"))
    .order_by(t.result_partitions.c.id)
    .with_for_update(),
    t.result_partitions,
)


def lock_partitions(tx: Tx, partition_ids: Iterable[int]) -> dict[int, int]:
    """Partition → its head. All at once, sorted, last: no row is locked afterwards (PUL-11)."""
    ordered = sorted(set(partition_ids))
    tx.take(Rank.PARTITION, ordered)
    return {row.id: row.head_seq for row in tx.rows(_PARTITIONS, {"ids": ordered})}
