"""A Pulse world for tests: one database, one namespace, a clock that the test moves.

Everything goes through the transactions of ``pulseweave.txn.pulse``, as the API does. The
database's own clock is put aside by default: an hour passes in an instant on each database alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Table, select

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.change import TaskCreated, TaskSpec
from pulseweave.core.pulse.hold import set_gate
from pulseweave.core.pulse.policy import Backoff, Effect, RetryPolicy
from pulseweave.core.pulse.report import Report
from pulseweave.core.pulse.task import Holds, Outcome, Queued, Task
from pulseweave.core.weave.order import after_ms, key_hash
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.clock import Clock, ManualClock, SystemClock
from pulseweave.kernel.entropy import Entropy, SeededEntropy, SystemEntropy
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store import schema as t
from pulseweave.store.changes.tasks import insert_tasks, write_task_changes
from pulseweave.store.engine import open_database
from pulseweave.store.facts.tasks import tasks_by_id, unsettled_task_ids
from pulseweave.store.locks import stripe_of
from pulseweave.store.tx import Tx
from pulseweave.store.views.tasks import TaskDetail, task_details
from pulseweave.txn.admin.limits import configure_application, configure_queue
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token
from pulseweave.txn.pulse.create import TaskOrder, create_task
from pulseweave.txn.pulse.promote import promote_keys
from pulseweave.txn.pulse.sweep import sweep_tasks
from pulseweave.txn.pulse.turn import (
    ClaimOrder,
    Named,
    Reported,
    TurnAnswer,
    TurnCommand,
    turn,
)
from pulseweave.txn.unit import read, run

#: No growth and no chance: what a test counts on to the microsecond.
PLAIN_BACKOFF = Backoff(initial_ms=1_000, factor=1, max_ms=1_000, jitter=0)
EVERYTHING = frozenset(Permission)


def succeeded(result: Any = None) -> Report:
    text = canonical.encode(result)
    return Report(
        outcome=Outcome.SUCCEEDED,
        digest=canonical.digest_of(["SUCCEEDED", text]),
        result=text,
        result_digest=canonical.digest(text),
    )


def failed(code: str = "NOPE", *, retryable: bool = True) -> Report:
    error = canonical.encode({"message": f"it was {code}"})
    digest = canonical.digest_of(["FAILED", code, error, retryable])
    return Report(
        outcome=Outcome.FAILED, digest=digest, code=code, error=error, retryable=retryable
    )


def unknown(detail: str = "the answer was lost") -> Report:
    error = canonical.encode({"message": detail, "ended": False})
    digest = canonical.digest_of(["UNKNOWN", error])
    return Report(outcome=Outcome.UNKNOWN, digest=digest, code="OUTCOME_UNKNOWN", error=error)


def cancelled() -> Report:
    return Report(
        outcome=Outcome.CANCELLED, digest=canonical.digest_of(["CANCELLED"]), code="CANCELLED"
    )


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker remembers of a claimed task."""

    task_id: str
    token: str

    @property
    def named(self) -> Named:
        return Named(self.task_id, self.token)


class World:
    """See the module. ``url``: a database with the schema and no rows.

    ``principal`` is a worker and an operator with every permission and queue.
    """

    def __init__(self, url: str, *, virtual: bool = True, namespace: str = "default") -> None:
        self.clock: Clock = ManualClock() if virtual else SystemClock()
        self.entropy: Entropy = SeededEntropy(7) if virtual else SystemEntropy()
        self.ids = IdSource(self.clock, self.entropy)
        self.database = open_database(url, clock=self.clock, pool_size=16)
        if virtual:
            own_clock = replace(self.database.capabilities, now_sql=None)
            self.database.capabilities = own_clock
        self.namespace = namespace
        create_namespace(self.database, namespace)
        self.principal = self.credential("worker", namespace=namespace)
        self._created = 0

    def close(self) -> None:
        self.database.close()

    # --- who, when, how much ------------------------------------------------------------------

    def credential(
        self,
        name: str,
        *,
        namespace: str | None = None,
        application: str = "default",
        permissions: frozenset[Permission] = EVERYTHING,
        queues: frozenset[str] | None = None,
    ) -> Principal:
        """A new token's principal; ``queues`` None: all."""
        order = TokenOrder(
            namespace=namespace or self.namespace,
            application=application,
            name=name,
            permissions=permissions,
            queues=queues or frozenset(),
            all_queues=queues is None,
            lifetime_ms=None,
        )
        _, credential = create_token(
            self.database, order, actor="test", ids=self.ids, entropy=self.entropy
        )
        return credential.principal

    def pass_ms(self, duration_ms: int) -> None:
        if not isinstance(self.clock, ManualClock):
            raise TypeError("only a virtual world's time can be moved")
        self.clock.advance_ms(duration_ms)

    @property
    def now(self) -> int:
        return self.clock.now()

    def queue(self, name: str = "q", **settings: Any) -> None:
        """Set a queue's limits; what isn't named is unset."""
        plain = {"paused": 0, "max_running": None, "max_open": None, "reviews_hold_slots": 0}
        configure_queue(
            self.database,
            self.namespace,
            name,
            {**plain, **settings},
            actor="test",
            ids=self.ids,
        )

    def application(self, *, max_open_tasks: int | None, name: str = "default") -> None:
        settings = {"max_open_tasks": max_open_tasks, "max_open_instances": None}
        configure_application(
            self.database, self.namespace, name, settings, actor="test", ids=self.ids
        )

    # --- tasks --------------------------------------------------------------------------------

    def order(self, **told: Any) -> TaskOrder:
        """An order with defaults that a test can count with; the key is new each time."""
        self._created += 1
        policy = RetryPolicy(
            max_attempts=told.pop("max_attempts", 3),
            backoff=told.pop("backoff", PLAIN_BACKOFF),
            attempt_timeout_ms=told.pop("attempt_timeout_ms", None),
            lease_ms=told.pop("lease_ms", 30_000),
            effect=told.pop("effect", Effect.AT_MOST_ONCE),
        )
        plain: dict[str, Any] = {
            "queue": "q",
            "handler": "do",
            "task_key": f"task-{self._created}",
            "input": canonical.encode(told.pop("value", 1)),
            "policy": policy,
            "priority": 0,
            "deadline_ms": None,
            "start_within_ms": None,
            "concurrency_key": None,
            "business_key": None,
        }
        return TaskOrder(**{**plain, **told})

    def create(self, principal: Principal | None = None, **told: Any) -> str:
        """Create a stand-alone task; its id."""
        detail, _ = create_task(
            self.database, self.order(**told), principal=principal or self.principal, ids=self.ids
        )
        return detail.task.id

    def task(self, task_id: str) -> Task:
        return read(self.database, lambda tx: tasks_by_id(tx, [task_id]))[task_id]

    def state(self, task_id: str) -> str:
        return self.task(task_id).state.value

    def detail(self, task_id: str) -> TaskDetail:
        return read(self.database, lambda tx: task_details(tx, [task_id]))[0]

    # --- the workers' side --------------------------------------------------------------------

    def turn(self, principal: Principal | None = None, **told: Any) -> TurnAnswer:
        return turn(
            self.database,
            TurnCommand(worker="w", **told),
            principal=principal or self.principal,
            ids=self.ids,
            entropy=self.entropy,
        )

    def claim(
        self,
        limit: int = 1,
        queues: Sequence[str] = ("q",),
        principal: Principal | None = None,
    ) -> list[Lease]:
        answer = self.turn(principal, claim=ClaimOrder(tuple(queues), limit))
        return [Lease(task.id, task.token or "") for task, _ in answer.claimed]

    def start(self, lease: Lease) -> Answer:
        return self.turn(starts=[lease.named]).starts[0]

    def report(self, lease: Lease, told: Report) -> Answer:
        return self.turn(reports=[Reported(lease.task_id, lease.token, told)]).reports[0]

    def heartbeat(self, lease: Lease) -> Answer:
        return self.turn(heartbeats=[lease.named]).heartbeats[0]

    def release(self, lease: Lease) -> Answer:
        return self.turn(releases=[lease.named]).releases[0]

    def running(self, queue: str = "q") -> Lease:
        """Claim one task and start it."""
        (lease,) = self.claim(1, [queue])
        answer = self.start(lease)
        assert answer.rejected is None, answer.rejected
        return lease

    # --- tasks of an instance -----------------------------------------------------------------

    def owned(self, instance_id: str, *, gate_open: bool = True, **told: Any) -> str:
        """A task as a workflow makes them; its id. All of an instance share a partition."""
        order = self.order(**told)
        partition = stripe_of(instance_id) % limits.PARTITIONS_PER_NAMESPACE
        task = Task(
            id=self.ids.next(),
            namespace=self.namespace,
            application="default",
            queue=order.queue,
            partition_id=self.partitions()[partition],
            instance_id=instance_id,
            activation_id=self.ids.next(),
            effect=order.policy.effect,
            priority=order.priority,
            max_attempts=order.policy.max_attempts,
            lease_ms=order.policy.lease_ms,
            attempt_timeout_ms=order.policy.attempt_timeout_ms,
            deadline_at=after_ms(self.now, order.deadline_ms),
            start_by=after_ms(self.now, order.start_within_ms),
            key=key_hash(self.namespace, order.concurrency_key),
            phase=Queued(),
            holds=Holds.NONE if gate_open else Holds.GATE,
        )
        spec = TaskSpec(
            task_id=task.id,
            handler=order.handler,
            input=order.input,
            input_digest=canonical.digest(order.input),
            backoff=order.policy.backoff,
            business_key=None,
            concurrency_key=order.concurrency_key,
            retry_of=None,
            task_key=None,
            created_at=self.now,
            created_by="test",
        )
        run(self.database, lambda tx: insert_tasks(tx, [TaskCreated(task=task, spec=spec)]))
        return task.id

    def set_gate(self, instance_id: str, *, is_open: bool) -> None:
        """Flip the bit on every unsettled task of the instance, as a workflow's decisions do."""

        def work(tx: Tx) -> None:
            tasks = locks.lock_tasks(tx, unsettled_task_ids(tx, [instance_id]))
            unsettled = [task for task in tasks.values() if not task.settled]
            changes = [set_gate(task, closed=not is_open) for task in unsettled]
            write_task_changes(tx, [change for change in changes if change is not None])

        run(self.database, work)

    def partitions(self) -> list[int]:
        return [row.id for row in self.rows(t.result_partitions)]

    # --- what the engine does -----------------------------------------------------------------

    def sweep(self) -> int:
        return sweep_tasks(self.database, entropy=self.entropy)

    def promote(self) -> int:
        return promote_keys(self.database)

    # --- what the database holds --------------------------------------------------------------

    def rows(self, table: Table) -> list[Any]:
        """Every row of a table, by its primary key."""
        ordered = select(table).order_by(*table.primary_key.columns)
        return read(self.database, lambda tx: list(tx.rows(ordered, {})))

    def attempts(self, task_id: str) -> list[Any]:
        return [row for row in self.rows(t.attempts) if row.task_id == task_id]

    def late_reports(self, task_id: str) -> list[Any]:
        return [row for row in self.rows(t.late_reports) if row.task_id == task_id]

    def events(self, task_id: str | None = None) -> list[Any]:
        """Result events in the order of their streams."""
        found = self.rows(t.result_events)
        return [row for row in found if task_id is None or row.task_id == task_id]

    def kinds(self, task_id: str) -> list[str]:
        return [row.kind for row in self.events(task_id)]
