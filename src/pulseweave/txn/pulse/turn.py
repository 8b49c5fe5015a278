"""A worker's turn: reports, releases, heartbeats, starts and a claim, in one transaction.

Each entry is answered on its own, in this order: accepted, or refused with a code. A task of
another namespace or of a queue that the credential may not use is not there (TASK_NOT_FOUND).
Locks: limited queues → key stripes → tasks → result partitions. What may never happen: half a
turn; an answer that promises what was not committed (PUL-2 to PUL-11).
"""

from collections import Counter
from collections.abc import Callable, Sequence
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
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.entropy import Entropy
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.events import append_events
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.engine import Database
from pulseweave.store.facts import tasks as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.pulse.claim import (
    PreparedClaim,
    claim_tasks,
    prepare_claim,
    something_claimable,
)
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
    def entries(self) -> int:
        return sum(map(len, (self.reports, self.releases, self.heartbeats, self.starts)))

    @property
    def named(self) -> set[str]:
        """The tasks that the entries name."""
        leases = (*self.releases, *self.heartbeats, *self.starts)
        return {told.task_id for told in self.reports} | {named.task_id for named in leases}


@dataclass(slots=True)
class TurnAnswer:
    """Answers in the order of the entries; ``claimed`` with specs. ``now``: the turn's time."""

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
    """One turn. Raises INVALID_COMMAND, QUEUE_ACCESS_DENIED for the turn as a whole.

    With nothing but a claim and nothing to claim, SQLite's write lock is not taken.
    """
    refusal = _refuse(command, principal)
    if refusal is not None:
        raise refusal

    def probe(tx: Tx) -> bool:
        order = command.claim
        return command.entries > 0 or (
            order is not None and something_claimable(tx, principal.namespace, order.queues)
        )

    return run(
        database,
        lambda tx: _Turn(tx, command, principal, ids=ids, entropy=entropy).take(),
        probe=probe,
    )


def _refuse(command: TurnCommand, principal: Principal) -> Rejected | None:
    """A turn is bounded, and claims only from queues that its credential may use."""
    if command.entries > limits.TURN_ENTRIES_MAX:
        told = f"a turn has at most {limits.TURN_ENTRIES_MAX} entries, not {command.entries}"
        return reject("INVALID_COMMAND", told)
    if command.claim is None:
        return None
    if not 1 <= command.claim.limit <= limits.CLAIM_TASKS_MAX:
        told = f"a claim is for 1 to {limits.CLAIM_TASKS_MAX} tasks, not {command.claim.limit}"
        return reject("INVALID_COMMAND", told, pointer="/claim/limit")
    return principal.refuse_queues(command.claim.queues)


class _Turn:
    """The working set of one turn: tasks as they are by now, and the changes so far."""

    def __init__(
        self,
        tx: Tx,
        command: TurnCommand,
        principal: Principal,
        *,
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
        self.attempts: dict[tuple[str, str], ReportedAttempt] = {}
        self.kept: dict[tuple[str, int | None, str], str] = {}
        self.backoffs: dict[str, Backoff] = {}

    def take(self) -> TurnAnswer:
        prepared = self._prepare()
        self.tasks = locks.lock_tasks(self.tx, self.command.named)
        candidates = prepared.lock(self.tx) if prepared is not None else []
        self._load()
        answer = TurnAnswer(now=self.tx.now())
        self._answer(answer)
        if prepared is not None:
            self._claim(prepared, candidates, answer)
        self._write()
        return answer

    def _prepare(self) -> PreparedClaim | None:
        order = self.command.claim
        if order is None:
            return None
        queues = list(dict.fromkeys(order.queues))
        first = int(self.entropy.uniform() * len(queues))
        return prepare_claim(
            self.tx,
            self.principal.namespace,
            queues[first:] + queues[:first],
            order.limit,
            freeable=len(self.tasks_that_may_end()),
        )

    def tasks_that_may_end(self) -> set[str]:
        """Tasks whose slots this turn may give back before it claims."""
        command = self.command
        named = (*command.releases, *command.starts)
        return {told.task_id for told in command.reports} | {named.task_id for named in named}

    def _load(self) -> None:
        """What the decisions on reports need besides the tasks."""
        reports = self.command.reports
        stale = [told.task_id for told in reports if self._is_stale(told)]
        if stale:
            self.attempts = facts.attempts_by_token(self.tx, stale)
            self.kept = facts.late_reports_kept(self.tx, stale)
        failing = [told.task_id for told in reports if told.report.outcome is not Outcome.SUCCEEDED]
        if failing:
            self.backoffs = facts.backoffs(self.tx, failing)

    def _is_stale(self, told: Reported) -> bool:
        """The token doesn't stand on the row (any more)."""
        task = self.tasks.get(told.task_id)
        return task is not None and task.token != told.token

    def _answer(self, answer: TurnAnswer) -> None:
        now, command = answer.now, self.command
        worker = canonical.encode(command.worker)
        answer.reports = [
            self._each(told.task_id, partial(self._report, told, now)) for told in command.reports
        ]
        answer.releases = [
            self._each(named.task_id, partial(give_back, token=named.token))
            for named in command.releases
        ]
        answer.heartbeats = [
            self._each(named.task_id, partial(heartbeat, token=named.token, now=now))
            for named in command.heartbeats
        ]
        answer.starts = [
            self._each(named.task_id, partial(start, token=named.token, worker=worker, now=now))
            for named in command.starts
        ]

    def _each(self, task_id: str, decide: Callable[[Task], Answer]) -> Answer:
        task = self.tasks.get(task_id)
        if (
            task is None
            or task.namespace != self.principal.namespace
            or not self.principal.may_use(task.queue)
        ):
            return Answer(rejected=reject("TASK_NOT_FOUND", f"there is no task {task_id}"))
        answer = decide(task)
        if answer.change is not None:
            self.tasks[task_id] = answer.change.after
            self.changes.append(answer.change)
        return answer

    def _report(self, told: Reported, now: int, task: Task) -> Answer:
        attempt = self.attempts.get((task.id, told.token))
        number = attempt.number if attempt is not None else None
        backoff = self.backoffs.get(task.id, DEFAULT_BACKOFF)
        answer = report(
            task,
            attempt,
            told.report,
            token=told.token,
            now=now,
            chance=Chance(backoff=backoff, uniform=self.entropy.uniform()),
            late_id=self.ids.next(),
            kept_id=self.kept.get((task.id, number, told.report.digest)),
        )
        self._remember(told, answer)
        return answer

    def _remember(self, told: Reported, answer: Answer) -> None:
        """The same report again in the same turn gets the same answer too (PUL-6)."""
        change = answer.change
        if change is not None and change.closed is not None:
            self.attempts[told.task_id, told.token] = ReportedAttempt(
                number=change.closed.number,
                report_digest=change.closed.report_digest,
                outcome=change.closed.outcome,
                task_state=change.after.state,
            )
        elif change is not None and change.late is not None:
            late = change.late
            self.kept[late.task_id, late.attempt, late.report_digest] = late.id

    def _claim(
        self, prepared: PreparedClaim, candidates: Sequence[Task], answer: TurnAnswer
    ) -> None:
        now, token = answer.now, self.entropy.token
        untouched = [task for task in candidates if task.id not in self.tasks]
        claimed = claim_tasks(prepared, untouched, self.changes, now=now, token=token)
        self.changes += claimed.changes
        if claimed.leased:
            specs = facts.specs(self.tx, [task.id for task in claimed.leased])
            answer.claimed = [(task, specs[task.id]) for task in claimed.leased]
        if claimed.short:
            for queue in prepared.seen:
                self.tx.hint("queue", (prepared.namespace, queue))

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
