"""The claim: limits, keys and the order of what can run (PUL-9, PUL-10).

Several queues are taken from in rotation; within a queue by priority, then creation. Paused queues are
skipped. A queue with ``max_running`` is locked and counted. Keyed candidates are seen first without a lock,
so that their key stripes can be locked before any task; one whose key is held gets hold KEY.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.hold import wait_for_key
from pulseweave.core.pulse.lease import claim
from pulseweave.core.pulse.task import Task, TaskState
from pulseweave.store import locks
from pulseweave.store.facts import queues as queue_facts
from pulseweave.store.facts import tasks as facts
from pulseweave.store.tx import Tx


@dataclass(slots=True)
class PreparedClaim:
    """Locks of ranks QUEUE and KEY_STRIPE are held; ``lock`` takes the tasks."""

    namespace: str
    room: dict[str, int]
    limit: int
    keys: dict[str, list[str]] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)

    def lock(self, tx: Tx) -> list[Task]:
        found: list[Task] = []
        left = self.limit
        for queue, room in self.room.items():
            if left <= 0:
                break
            wanted = min(left, room)
            tasks = locks.lock_claimable(
                tx, self.namespace, queue, keys=self.keys.get(queue, []), limit=wanted
            )
            found += tasks
            left -= len(tasks)
        keys = {task.key for task in found if task.key is not None}
        if keys:
            self.holders = facts.key_holders(tx, keys)
        return found


@dataclass(slots=True)
class Claimed:
    changes: list[TaskChange] = field(default_factory=list)
    leased: list[Task] = field(default_factory=list)


def prepare_claim(tx: Tx, namespace: str, queues: Sequence[str], limit: int) -> PreparedClaim:
    """Lock limited queues and the stripes of keys that a claim would meet."""
    settings = queue_facts.queue_settings(tx, namespace, queues)
    limited = [
        name
        for name, found in settings.items()
        if found.max_running is not None and not found.paused
    ]
    locks.lock_queues(tx, namespace, limited)
    room: dict[str, int] = {}
    for queue in queues:
        found = settings.get(queue)
        if found is not None and found.paused:
            continue
        room[queue] = limit
        if found is not None and found.max_running is not None:
            states = [TaskState.LEASED, TaskState.RUNNING]
            if found.reviews_hold_slots:
                states.append(TaskState.NEEDS_REVIEW)
            used = queue_facts.tasks_in_states(tx, namespace, queue, states)
            room[queue] = max(0, min(limit, found.max_running - used))
    prepared = PreparedClaim(namespace, {q: n for q, n in room.items() if n > 0}, limit)
    for queue, wanted in prepared.room.items():
        keys = {c.key for c in facts.peek_claimable(tx, namespace, queue, wanted)} - {None}
        if keys:
            prepared.keys[queue] = sorted(key for key in keys if key is not None)
    locks.lock_key_stripes(tx, {key for keys in prepared.keys.values() for key in keys})
    return prepared


def claim_tasks(
    prepared: PreparedClaim, tasks: Sequence[Task], *, now: int, token: Callable[[], str]
) -> Claimed:
    """Lease what can run; of tasks with the same key the first, the others wait for it."""
    claimed = Claimed()
    taken = dict(prepared.holders)
    for task in tasks:
        holder = taken.get(task.key) if task.key is not None else None
        if holder is not None and holder != task.id:
            claimed.changes.append(wait_for_key(task))
            continue
        change = claim(task, now=now, token=token())
        if task.key is not None:
            taken[task.key] = task.id
        claimed.changes.append(change)
        claimed.leased.append(change.after)
    return claimed
