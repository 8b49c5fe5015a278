"""Everything that Pulse does, at once and by chance, over one small world: what meets, meets often.

Workers, canceller, gatekeeper, reviewer, creator, sweeper and promoter run free on threads until
enough has been committed; then time is let pass and the world is judged as a whole.
"""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from time import monotonic
from typing import Any

from sqlalchemy import select

from pulseweave.core.pulse.policy import Backoff, Effect
from pulseweave.core.pulse.report import Report
from pulseweave.core.pulse.review import verdict
from pulseweave.core.pulse.task import TaskState
from pulseweave.kernel.errors import Rejected
from pulseweave.store import locks
from pulseweave.store import schema as t
from pulseweave.store.changes.events import append_events
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.tx import Tx
from pulseweave.txn.pulse import cancel, declare_lost, review
from pulseweave.txn.pulse.turn import ClaimOrder, Reported
from pulseweave.txn.unit import read, run
from tests.pulse.world import Lease, World, cancelled, failed, succeeded, unknown

QUEUES = ("a", "b", "limited")
KEYS = tuple(f"key-{n}" for n in range(6))
INSTANCES = tuple(f"instance-{n}" for n in range(4))
SECONDS_MAX = 55
DRAIN_SECONDS_MAX = 30
OPEN_TASKS_MAX = 150

_OPEN = select(t.tasks).where(t.UNSETTLED).order_by(t.tasks.c.id)


@dataclass
class Stress:
    """``commits``: stop after so many. ``seed`` moves the choices; the order stays free."""

    world: World
    commits: int
    seed: int = 1
    stop: Event = field(default_factory=Event)
    did: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        self.world.queue("limited", max_running=4)
        self.world.application(max_open_tasks=OPEN_TASKS_MAX)
        before = self.world.database.commits
        roles: list[Callable[[random.Random], None]] = [
            *[self.worker] * 4,
            self.creator,
            self.canceller,
            self.gatekeeper,
            self.reviewer,
            self.engine,
        ]
        limit = monotonic() + SECONDS_MAX
        with ThreadPoolExecutor(len(roles)) as pool:
            running = [
                pool.submit(self.loop, role, random.Random(f"{self.seed}-{n}"))
                for n, role in enumerate(roles)
            ]
            while self.world.database.commits - before < self.commits and monotonic() < limit:
                if any(future.done() for future in running):
                    break
                self.stop.wait(0.05)
            self.stop.set()
            for future in running:
                future.result()

    def loop(self, role: Callable[[random.Random], None], chance: random.Random) -> None:
        try:
            while not self.stop.is_set():
                role(chance)
        finally:
            self.stop.set()

    # --- roles --------------------------------------------------------------------------------

    def creator(self, chance: random.Random) -> None:
        told: dict[str, Any] = {
            "queue": chance.choice(QUEUES),
            "priority": chance.randrange(3),
            "effect": chance.choice(list(Effect)),
            "concurrency_key": chance.choice([None, *KEYS]),
            "lease_ms": chance.choice([20, 200]),
            "backoff": Backoff(initial_ms=1, factor=2, max_ms=20, jitter=0.5),
            "deadline_ms": chance.choice([None, None, 30, 5_000]),
        }
        try:
            if chance.random() < 0.5:
                self.world.owned(chance.choice(INSTANCES), **told)
            else:
                self.world.create(**told)
            self.did["created"] += 1
        except Rejected as refusal:
            self.did[refusal.code] += 1
            self.stop.wait(0.01)

    def worker(self, chance: random.Random) -> None:
        """Claims, starts some, and ends some of what it started, several tasks a turn."""
        answer = self.world.turn(claim=ClaimOrder(QUEUES, chance.randint(1, 8)))
        leases = [Lease(task.id, task.token or "") for task, _ in answer.claimed]
        chance.shuffle(leases)
        started = leases[: chance.randint(0, len(leases))]
        self.world.turn(
            starts=[lease.named for lease in started],
            releases=[lease.named for lease in leases[len(started) :] if chance.random() < 0.7],
        )
        self.world.turn(
            heartbeats=[lease.named for lease in started if chance.random() < 0.3],
            reports=[
                Reported(lease.task_id, lease.token, told)
                for lease in started
                if (told := self.outcome(chance)) is not None
            ],
            claim=ClaimOrder(("limited",), 2) if chance.random() < 0.3 else None,
        )
        self.did["turns"] += 3

    def outcome(self, chance: random.Random) -> Report | None:
        """None: never reported, so that the lease lapses."""
        return chance.choice(
            [succeeded(), succeeded(), failed(), failed(retryable=False), unknown(), cancelled()]
            + [None] * 2
        )

    def canceller(self, chance: random.Random) -> None:
        tasks = self.open_tasks()
        if not tasks:
            return
        task = chance.choice(tasks)
        told = {
            "principal": self.world.principal,
            "task_id": task.id,
            "idempotency_key": self.world.ids.next(),
            "expected_task_revision": task.revision,
            "reason": "by chance",
        }
        try:
            if task.state == TaskState.RUNNING.value and chance.random() < 0.5:
                lost = declare_lost.DeclareLost(**told, evidence_ref="none")
                world = self.world
                declare_lost.execute(world.database, lost, ids=world.ids, entropy=world.entropy)
            else:
                command = cancel.CancelTask(**told, instance_id=task.instance_id)
                cancel.execute(self.world.database, command, ids=self.world.ids)
            self.did["cancelled or lost"] += 1
        except Rejected as refusal:
            self.did[refusal.code] += 1

    def gatekeeper(self, chance: random.Random) -> None:
        self.world.set_gate(chance.choice(INSTANCES), is_open=chance.random() < 0.6)
        self.did["gates"] += 1

    def reviewer(self, chance: random.Random) -> None:
        """Settles what is in review, while workers still report late."""
        for task in self.open_tasks(TaskState.NEEDS_REVIEW)[:5]:
            self.judge(task.id, chance)

    def judge(self, task_id: str, chance: random.Random) -> None:
        task = self.world.task(task_id)
        if task.instance_id is not None:
            run(self.world.database, lambda tx: self.judge_owned(tx, task_id))
            return
        command = review.ReviewOwnTask(
            principal=self.world.principal,
            task_id=task_id,
            idempotency_key=self.world.ids.next(),
            reason="by chance",
            evidence_ref="none",
            expected_task_revision=task.revision,
            declared=True,
            succeeded=chance.random() < 0.5,
            result="1",
            late_report_id=None,
        )
        try:
            review.execute(self.world.database, command, ids=self.world.ids)
            self.did["reviewed"] += 1
        except Rejected as refusal:
            self.did[refusal.code] += 1

    def judge_owned(self, tx: Tx, task_id: str) -> None:
        """What recovery does to the task of an instance."""
        task = locks.lock_tasks(tx, [task_id])[task_id]
        if task.state is TaskState.NEEDS_REVIEW:
            audit_id = self.world.ids.next()
            change = verdict(task, succeeded=True, now=tx.now(), audit_id=audit_id)
            write_task_changes(tx, [change])
            append_events(tx, [change.event] if change.event is not None else [])
            self.did["recovered"] += 1

    def engine(self, _: random.Random) -> None:
        self.did["swept"] += self.world.sweep()
        self.did["promoted"] += self.world.promote()

    def open_tasks(self, *states: TaskState) -> list[Any]:
        rows = read(self.world.database, lambda tx: list(tx.rows(_OPEN, {})))
        return [row for row in rows if not states or TaskState(row.state) in states]

    # --- afterwards ---------------------------------------------------------------------------

    def drain(self) -> None:
        """Everything settles, once gates are open and workers do nothing but succeed."""
        limit = monotonic() + DRAIN_SECONDS_MAX
        chance = random.Random(self.seed)
        while self.open_tasks():
            if monotonic() > limit:
                raise AssertionError(f"these never settle: {self.open_tasks()}")
            for instance in INSTANCES:
                self.world.set_gate(instance, is_open=True)
            self.engine(chance)
            self.reviewer(chance)
            leases = self.world.claim(50, QUEUES)
            self.world.turn(starts=[lease.named for lease in leases])
            self.world.turn(
                reports=[Reported(lease.task_id, lease.token, succeeded()) for lease in leases]
            )
