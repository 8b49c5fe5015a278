"""Limits and what counts against them. Exact under the owner's lock (PUL-9, PUL-12)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, not_, select

from pulseweave.core.pulse.task import TaskState
from pulseweave.core.weave.states import ENDED
from pulseweave.store import schema as t
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx
from pulseweave.store.types import one_of


@dataclass(frozen=True, slots=True)
class OpenTaskLimits:
    """Limits on open tasks that are set, by (namespace, name)."""

    applications: dict[tuple[str, str], int]
    queues: dict[tuple[str, str], int]


_q, _p, _t = t.queues.c, t.applications.c, t.tasks.c
_QUEUE_LIMITS = select(_q.namespace, _q.name, _q.max_open).where(
    in_keys(_q.namespace, "namespaces"), in_keys(_q.name, "names"), _q.max_open.is_not(None)
)
_APPLICATION_LIMITS = select(_p.namespace, _p.name, _p.max_open_tasks).where(
    in_keys(_p.namespace, "namespaces"), in_keys(_p.name, "names"), _p.max_open_tasks.is_not(None)
)


def open_task_limits(
    tx: Tx, applications: Iterable[tuple[str, str]], queues: Iterable[tuple[str, str]]
) -> OpenTaskLimits:
    """The limits set among these owners; nothing set, nothing to lock."""
    found = OpenTaskLimits({}, {})
    wanted = set(applications)
    if wanted:
        params = {
            "namespaces": sorted({namespace for namespace, _ in wanted}),
            "names": sorted({name for _, name in wanted}),
        }
        for row in tx.rows(_APPLICATION_LIMITS, params):
            if (row.namespace, row.name) in wanted:
                found.applications[row.namespace, row.name] = row.max_open_tasks
    wanted = set(queues)
    if wanted:
        params = {
            "namespaces": sorted({namespace for namespace, _ in wanted}),
            "names": sorted({name for _, name in wanted}),
        }
        for row in tx.rows(_QUEUE_LIMITS, params):
            if (row.namespace, row.name) in wanted:
                found.queues[row.namespace, row.name] = row.max_open
    return found


_OPEN_OF_APPLICATION = select(func.count()).where(
    _t.namespace == bindparam("namespace"),
    _t.application == bindparam("name"),
    t.UNSETTLED,
)
_OPEN_OF_QUEUE = select(func.count()).where(
    _t.namespace == bindparam("namespace"),
    _t.queue == bindparam("name"),
    t.UNSETTLED,
)
_IN_STATES = select(func.count()).where(
    _t.namespace == bindparam("namespace"),
    _t.queue == bindparam("name"),
    in_keys(_t.state, "states"),
    t.UNSETTLED,
)


def open_tasks_of_application(tx: Tx, namespace: str, name: str) -> int:
    return int(tx.rows(_OPEN_OF_APPLICATION, {"namespace": namespace, "name": name})[0][0])


def open_tasks_of_queue(tx: Tx, namespace: str, name: str) -> int:
    return int(tx.rows(_OPEN_OF_QUEUE, {"namespace": namespace, "name": name})[0][0])


def tasks_in_states(tx: Tx, namespace: str, queue: str, states: Sequence[TaskState]) -> int:
    """How many of a queue's tasks are in the states, of which none is a settled one."""
    params = {"namespace": namespace, "name": queue, "states": [s.value for s in states]}
    return int(tx.rows(_IN_STATES, params)[0][0])


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How a queue may be claimed from. ``max_running`` None: without limit."""

    paused: bool
    max_running: int | None
    reviews_hold_slots: bool

    @property
    def counted_states(self) -> tuple[TaskState, ...]:
        """The states that take one of the queue's slots (PUL-9)."""
        running = (TaskState.LEASED, TaskState.RUNNING)
        return (*running, TaskState.NEEDS_REVIEW) if self.reviews_hold_slots else running


def settings_from_row(row: Any) -> QueueSettings:
    return QueueSettings(bool(row.paused), row.max_running, bool(row.reviews_hold_slots))


_SETTINGS = select(t.queues).where(
    _q.namespace == bindparam("namespace"), in_keys(_q.name, "names")
)


def queue_settings(tx: Tx, namespace: str, names: Iterable[str]) -> dict[str, QueueSettings]:
    """Settings of the queues that have any; a queue never configured is unlimited."""
    rows = tx.rows(_SETTINGS, {"namespace": namespace, "names": sorted(set(names))})
    return {row.name: settings_from_row(row) for row in rows}


_INSTANCE_LIMIT = select(_p.max_open_instances).where(
    _p.namespace == bindparam("namespace"), _p.name == bindparam("name")
)
_OPEN_INSTANCES = select(func.count()).where(
    t.instances.c.namespace == bindparam("namespace"),
    t.instances.c.application == bindparam("name"),
    not_(one_of(t.instances.c.state, ENDED)),
)


def open_instance_limit(tx: Tx, namespace: str, application: str) -> int | None:
    rows = tx.rows(_INSTANCE_LIMIT, {"namespace": namespace, "name": application})
    return rows[0].max_open_instances if rows else None


def open_instances(tx: Tx, namespace: str, application: str) -> int:
    return int(tx.rows(_OPEN_INSTANCES, {"namespace": namespace, "name": application})[0][0])
