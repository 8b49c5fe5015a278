"""Quotas on open tasks, exact when set: counted from the rows under the owner's lock (PUL-12).

The locks of rank APPLICATION and QUEUE are taken here, before any instance is: which quotas matter
follows from the instances' fixed definitions. Where nothing is limited nothing is locked or
counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pulseweave.core.pulse.task import Task
from pulseweave.core.recovery.facts import Scope
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.store import locks
from pulseweave.store.facts import queues as facts
from pulseweave.store.tx import Tx


@dataclass(slots=True)
class Room:
    """Open tasks that may still be made, by ("application" | "queue", namespace, name). Absent: no
    limit.
    """

    left: dict[Scope, int] = field(default_factory=dict)
    full: Scope | None = None

    def take(self, tasks: Sequence[Task]) -> bool:
        """Take room for all of the tasks or for none; ``full`` names the scope that had none."""
        wanted: Counter[Scope] = Counter()
        for task in tasks:
            wanted["application", task.namespace, task.application] += 1
            wanted["queue", task.namespace, task.queue] += 1
        for scope, count in wanted.items():
            if scope in self.left and self.left[scope] < count:
                self.full = scope
                return False
        for scope, count in wanted.items():
            if scope in self.left:
                self.left[scope] -= count
        return True


@dataclass(frozen=True, slots=True)
class Quotas:
    """What was counted when the locks were taken; each round of decisions starts from it again."""

    counted: dict[Scope, int] = field(default_factory=dict)

    def room(self) -> Room:
        return Room(dict(self.counted))


def lock_quotas(
    tx: Tx,
    applications: Iterable[tuple[str, str]],
    queues: Iterable[tuple[str, str]],
    *,
    between: Callable[[], None] | None = None,
    also: Iterable[tuple[str, str]] = (),
) -> Quotas:
    """Lock the limited ones among these owners, in rank order, and count what is open.

    ``between`` takes the locks that stand between applications and queues (rank STRIPE); ``also``
    are applications to lock for another count.
    """
    limited = facts.open_task_limits(tx, applications, queues)
    for namespace, name in sorted({*limited.applications, *also}):
        locks.lock_application(tx, namespace, name)
    if between is not None:
        between()
    by_namespace: dict[str, list[str]] = {}
    for namespace, name in sorted(limited.queues):
        by_namespace.setdefault(namespace, []).append(name)
    for namespace, names in sorted(by_namespace.items()):
        locks.lock_queues(tx, namespace, names)
    return count_quotas(tx, limited.applications, limited.queues)


def count_quotas(
    tx: Tx, applications: Iterable[tuple[str, str]], queues: Iterable[tuple[str, str]]
) -> Quotas:
    """Count what is open against the limits set; exact for whoever holds the owners' locks."""
    counted: dict[Scope, int] = {}
    limited = facts.open_task_limits(tx, applications, queues)
    for (namespace, name), limit in limited.applications.items():
        used = facts.open_tasks_of_application(tx, namespace, name)
        counted["application", namespace, name] = max(0, limit - used)
    for (namespace, name), limit in limited.queues.items():
        used = facts.open_tasks_of_queue(tx, namespace, name)
        counted["queue", namespace, name] = max(0, limit - used)
    return Quotas(counted)


def quota_refusal(room: Room) -> Rejected:
    """The refusal for what asked at the door; an advance is deferred instead (PUL-12)."""
    kind, _, name = room.full or ("application", "", "")
    return reject(
        "QUOTA_EXCEEDED", f"the {kind} {name} has no room for another open task", rule="PUL-12"
    )
