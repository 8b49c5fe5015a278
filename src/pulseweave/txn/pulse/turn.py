"""A worker's turn: reports, releases, heartbeats, starts and a claim, in one transaction (PUL-2 to PUL-10).

Each entry is answered on its own: accepted, or refused with a code. A task of another namespace or of a
queue that the credential may not use is not there (TASK_NOT_FOUND). Locks: limited queues → key stripes →
tasks → result partitions.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pulseweave.core.identity import Principal
from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.change import TaskChange, TaskSpec
from pulseweave.core.pulse.lease import give_back, heartbeat, start
from pulseweave.core.pulse.outcome import Chance
from pulseweave.core.pulse.policy import DEFAULT_BACKOFF, Backoff
from pulseweave.core.pulse.report import Report, ReportedAttempt, report
from pulseweave.core.pulse.task import Outcome, Task
from pulseweave.kernel import canonical
from pulseweave.kernel.entropy import Entropy
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.events import append_events
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.engine import Database
from pulseweave.store.facts import tasks as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.pulse.claim import claim_tasks, prepare_claim
from pulseweave.txn.unit import run


@dataclass(frozen=True, slots=True)
class Named:
    """A lease, by its task and token."""

    task_id: str
    token: str


@dataclass(frozen=True, slots=True)
class Reported:
    task_id: str
    token: str
    report: Report


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    queues: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCommand:
    """``worker``: a label for people."""

    worker: str
    reports: Sequence[Reported] = ()
    releases: Sequence[Named] = ()
    heartbeats: Sequence[Named] = ()
    starts: Sequence[Named] = ()
    claim: ClaimOrder | None = None

    @property
    def named(self) -> set[str]:
        entries = (*self.reports, *self.releases, *self.heartbeats, *self.starts)
        return {entry.task_id for entry in entries}


@dataclass(slots=True)
class TurnAnswer:
    """Answers in the order of the entries; ``claimed`` with specs. ``now`` is the transaction's time."""

    now: int = 0
    reports: list[Answer] = field(default_factory=list)
    releases: list[Answer] = field(default_factory=list)
    heartbeats: list[Answer] = field(default_factory=list)
    starts: list[Answer] = field(default_factory=list)
    claimed: list[tuple[Task, TaskSpec]] = field(default_factory=list)


def turn(
    database: Database,
    command: TurnCommand,
    *,
    principal: Principal,
    ids: IdSource,
    entropy: Entropy,
) -> TurnAnswer:
    """One turn. With nothing but a claim and nothing to claim, SQLite's write lock is not taken."""

    def probe(tx: Tx) -> bool:
        if command.named:
            return True
        order = command.claim
        return order is not None and any(
            facts.peek_claimable(tx, principal.namespace, queue, 1) for queue in order.queues
        )

    return run(database, lambda tx: _Turn(tx, command, principal, ids, entropy).take(), probe=probe)


class _Turn:
    """The working set of one turn: tasks as they are now, and the changes so far."""

    def __init__(
        self,
        tx: Tx,
        command: TurnCommand,
        principal: Principal,
        ids: IdSource,
        entropy: Entropy,
    ) -> None:
        self.tx = tx
        self.command = command
        self.principal = principal
        self.ids = ids
        self.entropy = entropy
        self.tasks: dict[str, Task] = {}
        self.changes: list[TaskChange] = []
        self.backoffs: dict[str, Backoff] = {}

    def take(self) -> TurnAnswer:
        command, tx = self.command, self.tx
        order = command.claim
        prepared = None
        if order is not None:
            prepared = prepare_claim(tx, self.principal.namespace, order.queues, order.limit)
        self.tasks = locks.lock_tasks(tx, command.named)
        attempts = facts.attempts_by_token(tx, self._stale()) if command.reports else {}
        failing = [r.task_id for r in command.reports if r.report.outcome is not Outcome.SUCCEEDED]
        self.backoffs = facts.backoffs(tx, failing) if failing else {}
        answer = TurnAnswer()
        claimed = prepared.lock(tx) if prepared is not None else []
        now = answer.now = tx.now()
        answer.reports = [
            self._each(told.task_id, partial(self._report, told, attempts, now))
            for told in command.reports
        ]
        answer.releases = [
            self._each(named.task_id, partial(give_back, token=named.token))
            for named in command.releases
        ]
        answer.heartbeats = [
            self._each(named.task_id, partial(heartbeat, token=named.token, now=now))
            for named in command.heartbeats
        ]
        worker = canonical.encode(command.worker)
        answer.starts = [
            self._each(named.task_id, partial(start, token=named.token, worker=worker, now=now))
            for named in command.starts
        ]
        if prepared is not None:
            changes = claim_tasks(prepared, claimed, now=now, token=self.entropy.token)
            self.changes += changes.changes
            specs = facts.specs(tx, [task.id for task in changes.leased]) if changes.leased else {}
            answer.claimed = [(task, specs[task.id]) for task in changes.leased]
        self._write()
        return answer

    def _report(
        self,
        told: Reported,
        attempts: Mapping[tuple[str, str], ReportedAttempt],
        now: int,
        task: Task,
    ) -> Answer:
        return report(
            task,
            attempts.get((task.id, told.token)),
            told.report,
            token=told.token,
            now=now,
            chance=self._chance(task),
            late_id=self.ids.next(),
        )

    def _stale(self) -> list[str]:
        """Reports whose token does not stand on the row: was it an attempt once?"""
        return [
            told.task_id
            for told in self.command.reports
            if told.task_id in self.tasks and self.tasks[told.task_id].token != told.token
        ]

    def _chance(self, task: Task) -> Chance:
        backoff = self.backoffs.get(task.id, DEFAULT_BACKOFF)
        return Chance(backoff=backoff, uniform=self.entropy.uniform())

    def _each(self, task_id: str, decide: Callable[[Task], Answer]) -> Answer:
        task = self.tasks.get(task_id)
        known = (
            task is not None
            and task.namespace == self.principal.namespace
            and self.principal.may_use(task.queue)
        )
        if task is None or not known:
            return Answer(rejected=reject("TASK_NOT_FOUND", f"there is no task {task_id}"))
        answer = decide(task)
        if answer.change is not None:
            self.tasks[task_id] = answer.change.after
            self.changes.append(answer.change)
        return answer

    def _write(self) -> None:
        """Changes of one task follow each other; written round by round, events last."""
        events = [change.event for change in self.changes if change.event is not None]
        for changes in _rounds(self.changes):
            write_task_changes(self.tx, changes)
        append_events(self.tx, events)


def _rounds(changes: Sequence[TaskChange]) -> list[list[TaskChange]]:
    """The first change of every task, then the second of those that have one, and so on."""
    rounds: list[list[TaskChange]] = []
    seen: Counter[str] = Counter()
    for change in changes:
        nth = seen[change.before.id]
        seen[change.before.id] += 1
        if nth == len(rounds):
            rounds.append([])
        rounds[nth].append(change)
    return rounds
