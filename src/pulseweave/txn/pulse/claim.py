"""The claim: limits, keys, and the order of what can run (PUL-9, PUL-10).

In rank order: the limited queues are locked and counted; the candidates are seen without a lock,
so that the stripes of their keys can be locked before any task; the tasks are locked last, by
priority, then creation, skipping what others hold. Several queues are taken from in rotation. A
task whose key is another's gets hold KEY and leaves the index until the promoter clears it; one
that has expired is settled here rather than handed out.

What may never happen: a queue beyond its ``max_running``, two holders of one key.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.expire import expire
from pulseweave.core.pulse.hold import wait_for_key
from pulseweave.core.pulse.lease import claim
from pulseweave.core.pulse.task import Task
from pulseweave.store import locks
from pulseweave.store.facts import queues as queue_facts
from pulseweave.store.facts import tasks as facts
from pulseweave.store.facts.queues import QueueSettings
from pulseweave.store.facts.tasks import Candidate
from pulseweave.store.tx import Tx

#: Candidates seen beyond what is wanted, once some of the first are found blocked by their keys.
BLOCKED_SEEN_MAX = 100


@dataclass(slots=True)
class _Seen:
    """One queue's candidates. ``room``: how many may be leased; None: no limit is set."""

    candidates: list[Candidate]
    free: int
    room: int | None


@dataclass(slots=True)
class PreparedClaim:
    """Locks of ranks QUEUE and KEY_STRIPE are held; ``lock`` takes the tasks."""

    namespace: str
    limit: int
    settings: Mapping[str, QueueSettings]
    seen: dict[str, _Seen]
    holders: dict[str, str] = field(default_factory=dict)

    def lock(self, tx: Tx) -> list[Task]:
        """The tasks to decide on, in the order in which the claim wants them."""
        shares = _shares({queue: seen.free for queue, seen in self.seen.items()}, self.limit)
        found: list[Task] = []
        for queue, share in shares.items():
            candidates = self.seen[queue].candidates
            keys = sorted({c.key for c in candidates if c.key is not None})
            limit = _reach(candidates, share) if self.seen[queue].free else len(candidates)
            if limit:
                found += locks.lock_claimable(tx, self.namespace, queue, keys=keys, limit=limit)
        held = {task.key for task in found if task.key is not None}
        if held:
            self.holders = facts.key_holders(tx, held)
        return found

    def room_after(self, changes: Sequence[TaskChange]) -> dict[str, int]:
        """Leases that each queue has room for, with the slots that the changes give back."""
        freed: Counter[str] = Counter()
        for change in changes:
            settings = self.settings.get(change.before.queue)
            if settings is not None:
                states = settings.counted_states
                freed[change.before.queue] += change.before.state in states
                freed[change.before.queue] -= change.after.state in states
        return {
            queue: self.limit if seen.room is None else seen.room + freed[queue]
            for queue, seen in self.seen.items()
        }


@dataclass(slots=True)
class Claimed:
    """``short``: fewer than wanted, for reasons that looking again would overcome."""

    changes: list[TaskChange] = field(default_factory=list)
    leased: list[Task] = field(default_factory=list)
    short: bool = False


def prepare_claim(
    tx: Tx, namespace: str, queues: Iterable[str], limit: int, *, freeable: int = 0
) -> PreparedClaim:
    """Lock limited queues and the stripes of keys that a claim would meet.

    The queues are taken from in rotation, in the order in which they are given; ``freeable``:
    slots that the same turn may give back before it claims.
    """
    names = list(dict.fromkeys(queues))
    settings = _locked_settings(tx, namespace, names)
    prepared = PreparedClaim(namespace, limit, settings, {})
    for queue in names:
        found = settings.get(queue)
        if found is not None and found.paused:
            continue
        room, wanted = None, limit
        if found is not None and found.max_running is not None:
            used = queue_facts.tasks_in_states(tx, namespace, queue, found.counted_states)
            room = found.max_running - used
            wanted = max(0, min(limit, room + freeable))
        if wanted:
            candidates, free = _see(tx, namespace, queue, wanted)
            prepared.seen[queue] = _Seen(candidates, free, room)
    every = [c for seen in prepared.seen.values() for c in seen.candidates]
    locks.lock_key_stripes(tx, {c.key for c in every if c.key is not None})
    return prepared


def something_claimable(tx: Tx, namespace: str, queues: Sequence[str]) -> bool:
    """Whether a claim might find something: for those who would rather not lock for nothing."""
    settings = queue_facts.queue_settings(tx, namespace, queues)
    paused = {queue for queue, found in settings.items() if found.paused}
    return any(
        facts.peek_claimable(tx, namespace, queue, 1) for queue in queues if queue not in paused
    )


def _locked_settings(tx: Tx, namespace: str, names: Sequence[str]) -> dict[str, QueueSettings]:
    """The queues' settings; those of limited queues as they are under the lock."""
    settings = queue_facts.queue_settings(tx, namespace, names)
    limited = [
        name
        for name, found in settings.items()
        if found.max_running is not None and not found.paused
    ]
    rows = locks.lock_queues(tx, namespace, limited)
    locked = {name: queue_facts.settings_from_row(row) for name, row in rows.items()}
    return {**settings, **locked}


def _see(tx: Tx, namespace: str, queue: str, wanted: int) -> tuple[list[Candidate], int]:
    """Candidates enough for what is wanted, and how many of them no key blocks."""
    candidates = facts.peek_claimable(tx, namespace, queue, wanted)
    free = _unblocked(candidates)
    if free < len(candidates) == wanted:
        candidates = facts.peek_claimable(tx, namespace, queue, 2 * wanted + BLOCKED_SEEN_MAX)
        free = _unblocked(candidates)
    return candidates, min(free, wanted)


def _unblocked(candidates: Sequence[Candidate]) -> int:
    """Of tasks with one key the first counts, and none when another task holds the key."""
    return sum(_in_turn(candidates))


def _reach(candidates: Sequence[Candidate], share: int) -> int:
    """How far down the candidates a share of unblocked ones reaches."""
    for at, unblocked in enumerate(_in_turn(candidates)):
        if share == 0:
            return at
        share -= unblocked
    return len(candidates)


def _in_turn(candidates: Sequence[Candidate]) -> list[bool]:
    """For each candidate whether no key stands in its way."""
    keys: set[str] = set()
    found: list[bool] = []
    for candidate in candidates:
        found.append(not candidate.blocked and candidate.key not in keys)
        if candidate.key is not None:
            keys.add(candidate.key)
    return found


def _shares(free: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many to take from each queue, one from each in turn until the limit is reached."""
    shares = dict.fromkeys(free, 0)
    left = min(limit, sum(free.values()))
    while left > 0:
        for queue, found in free.items():
            if left > 0 and shares[queue] < found:
                shares[queue] += 1
                left -= 1
    return shares


def claim_tasks(
    prepared: PreparedClaim,
    tasks: Sequence[Task],
    before: Sequence[TaskChange],
    *,
    now: int,
    token: Callable[[], str],
) -> Claimed:
    """Lease what can run; ``before`` are the changes that this turn has already decided on.

    Of tasks with the same key the first is leased, the others wait for it. A key that this turn
    itself has given back is free only after it: its next task stays where it is.
    """
    claimed = Claimed()
    taken = dict(prepared.holders)
    released = {change.after.id for change in before if not change.after.holds_key}
    room = prepared.room_after(before)
    for task in tasks:
        expired = expire(task, now=now)
        if expired is not None:
            claimed.changes.append(expired)
            continue
        holder = taken.get(task.key) if task.key is not None else None
        if holder is not None and holder != task.id:
            claimed.short = True
            if holder not in released:
                claimed.changes.append(wait_for_key(task))
            continue
        if room[task.queue] <= 0 or len(claimed.leased) >= prepared.limit:
            continue
        room[task.queue] -= 1
        if task.key is not None:
            taken[task.key] = task.id
        change = claim(task, now=now, token=token())
        claimed.changes.append(change)
        claimed.leased.append(change.after)
    claimed.short = claimed.short and len(claimed.leased) < prepared.limit
    return claimed
