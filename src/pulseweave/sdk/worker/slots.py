"""The worker's state without I/O: which tasks it holds, and what it has to tell the server next.

A slot: CLAIMED (leased), STARTING (a start is asked for), RUNNING (authorised), DONE (an outcome
waits to be told). A slot is freed when the server has answered about its outcome, or when its lease
is known to be lost before it was started. Claims never ask for more than there are free slots
(B005).

Times are the local monotonic clock in microseconds and durations that the server sent; never a wall
clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Condition

from pulseweave.wire.worker import (
    Claim,
    ClaimedTask,
    HeartbeatAnswer,
    Hold,
    Report,
    StartAnswer,
    TurnRequest,
)

#: A running handler is told to stop when so much of its lease is left and it can't be renewed
#: (B132).
LEASE_MARGIN = 0.2


class Phase(StrEnum):
    CLAIMED = "CLAIMED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DONE = "DONE"


@dataclass(slots=True)
class Slot:
    """One task in hand. ``lease_ends_us``: until when the lease surely lasts."""

    task: ClaimedTask
    lease_ends_us: int
    beat_due_us: int = 0
    phase: Phase = Phase.CLAIMED
    attempt: int | None = None
    cancel: bool = False
    lost: bool = False
    report: Report | None = None
    sent: bool = False


@dataclass(slots=True)
class Slots:
    """All slots of a worker. Guarded by ``changed``, a condition that every change notifies."""

    capacity: int
    changed: Condition = field(default_factory=Condition)
    held: dict[str, Slot] = field(default_factory=dict)
    reserved: int = 0
    starts: list[str] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)
    draining: bool = False

    def free(self) -> int:
        return max(0, self.capacity - len(self.held) - self.reserved)

    def idle(self) -> bool:
        """Nothing in hand, and no claim under way that may still bring something."""
        return not self.held and not self.reserved

    def reserve(self) -> int:
        """Free slots, set aside for a claim under way."""
        count = 0 if self.draining else self.free()
        self.reserved += count
        return count

    def claimed(self, tasks: Iterable[ClaimedTask], *, asked: int, sent_us: int) -> list[Slot]:
        """What a claim brought; its lease counts from when the request was sent, which is surely
        early.
        """
        self.reserved -= asked
        self.changed.notify_all()
        new = []
        for task in tasks:
            slot = Slot(task=task, lease_ends_us=sent_us + task.start_within_ms * 1000)
            self.held[task.token] = slot
            new.append(slot)
        self.changed.notify_all()
        return new

    def ask_start(self, slot: Slot) -> None:
        slot.phase = Phase.STARTING
        self.starts.append(slot.task.token)
        self.changed.notify_all()

    def started(self, answer: StartAnswer, token: str, sent_us: int) -> Slot | None:
        """The server's word on a start; None when the slot is gone."""
        slot = self.held.get(token)
        if slot is None or slot.phase is not Phase.STARTING:
            return None
        if answer.accepted:
            slot.phase = Phase.RUNNING
            slot.attempt = answer.attempt
            slot.lease_ends_us = sent_us + (answer.lease_ms or 0) * 1000
            slot.beat_due_us = sent_us + slot.task.lease_ms * 1000 // 3
        else:
            self.forget(token)
        return slot

    def finish(self, token: str, report: Report) -> None:
        """The handler is done: its outcome waits to be told."""
        slot = self.held.get(token)
        if slot is not None and slot.phase is not Phase.DONE:
            slot.phase = Phase.DONE
            slot.report = report
        self.changed.notify_all()

    def release(self, token: str) -> None:
        self.releases.append(token)
        self.changed.notify_all()

    def forget(self, token: str) -> None:
        self.held.pop(token, None)
        self.changed.notify_all()

    def beat(self, answer: HeartbeatAnswer, token: str, sent_us: int) -> Slot | None:
        """The server's word on a renewal."""
        slot = self.held.get(token)
        if slot is None or slot.phase is not Phase.RUNNING:
            return None
        if not answer.accepted:
            slot.lost = slot.cancel = True
        else:
            slot.cancel = slot.cancel or answer.cancel
            if answer.lease_ms is not None:
                slot.lease_ends_us = sent_us + answer.lease_ms * 1000
        return slot

    def fading(self, now_us: int) -> list[Slot]:
        """Running slots whose lease is nearly over: their handlers are to stop."""
        return [
            slot
            for slot in self.held.values()
            if slot.phase is Phase.RUNNING
            and not slot.cancel
            and slot.lease_ends_us - now_us < slot.task.lease_ms * 1000 * LEASE_MARGIN
        ]

    def has_news(self) -> bool:
        """Whether something waits to be told."""
        return bool(
            self.starts
            or self.releases
            or any(s.report is not None and not s.sent for s in self.held.values())
        )

    def next_turn(self, worker: str, queues: list[str], *, claim: int) -> "Turn":
        """Everything that waits to be told, and a claim for ``claim`` reserved slots."""
        starts = [token for token in self.starts if token in self.held]
        releases = [token for token in self.releases if token in self.held]
        self.starts.clear()
        self.releases.clear()
        reports = [slot for slot in self.held.values() if slot.report is not None and not slot.sent]
        for slot in reports:
            slot.sent = True
        return Turn(
            request=TurnRequest(
                worker=worker,
                reports=[slot.report for slot in reports if slot.report is not None],
                releases=[_hold(self.held[token]) for token in releases],
                starts=[_hold(self.held[token]) for token in starts],
                claim=Claim(queues=queues, limit=claim) if claim else None,
            ),
            reports=[slot.task.token for slot in reports],
            releases=releases,
            starts=starts,
            claim=claim,
        )

    def undelivered(self, turn: "Turn") -> None:
        """The turn was not answered: everything in it is told again."""
        self.starts = [*turn.starts, *self.starts]
        self.releases = [*turn.releases, *self.releases]
        for token in turn.reports:
            if token in self.held:
                self.held[token].sent = False
        self.reserved -= turn.claim
        self.changed.notify_all()

    def beats_due(self, now_us: int) -> list[Slot]:
        """Running slots whose lease is to be renewed now: at a third of its length."""
        due = [
            slot
            for slot in self.held.values()
            if slot.phase is Phase.RUNNING and not slot.lost and slot.beat_due_us <= now_us
        ]
        for slot in due:
            slot.beat_due_us = now_us + slot.task.lease_ms * 1000 // 3
        return due


@dataclass(frozen=True, slots=True)
class Turn:
    """A request with the tokens of its entries, in their order."""

    request: TurnRequest
    reports: list[str]
    releases: list[str]
    starts: list[str]
    claim: int


def _hold(slot: Slot) -> Hold:
    return Hold(task_id=slot.task.task_id, token=slot.task.token)
