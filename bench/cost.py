"""What a step costs: transactions, statements and row writes, counted at several batch sizes."""

from dataclasses import dataclass

from bench.definition import STEPS, three_steps
from pulseweave.core.identity import Permission
from pulseweave.core.pulse.report import Report
from pulseweave.core.pulse.task import Outcome
from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.kernel import canonical
from pulseweave.kernel.clock import SystemClock
from pulseweave.kernel.entropy import SystemEntropy
from pulseweave.kernel.ids import IdSource
from pulseweave.runtime.steps import Steps
from pulseweave.store.engine import Database, open_database
from pulseweave.store.migrate import upgrade
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token
from pulseweave.txn.pulse.turn import ClaimOrder, Named, Reported, TurnAnswer, TurnCommand, turn
from pulseweave.txn.weave.define import register
from pulseweave.txn.weave.start import StartRequest, start_instances

_RESULT = canonical.encode({"ok": True})


@dataclass(frozen=True, slots=True)
class Cost:
    """Per step of a workflow, its start included."""

    batch: int
    steps: int
    seconds: float
    transactions: float
    statements: float
    row_writes: float

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds


def measure(url: str, batch: int, rounds: int) -> Cost:
    """``rounds`` times: start ``batch`` instances, run their steps by claims of ``batch``, pump."""
    database = open_database(url)
    upgrade(database)
    driver = _Driver(database)
    driver.round(batch, "warm")
    database.counts.clear()
    commits, began_us = database.commits, driver.clock.monotonic_us()
    for n in range(rounds):
        driver.round(batch, str(n))
    seconds = (driver.clock.monotonic_us() - began_us) / 1e6
    steps = batch * rounds * STEPS
    cost = Cost(
        batch=batch,
        steps=steps,
        seconds=seconds,
        transactions=(database.commits - commits) / steps,
        statements=database.counts["statements"] / steps,
        row_writes=database.counts["rows_written"] / steps,
    )
    database.close()
    return cost


class _Driver:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock, self.entropy = SystemClock(), SystemEntropy()
        self.ids = IdSource(self.clock, self.entropy)
        create_namespace(database, "default")
        order = TokenOrder(
            namespace="default",
            application="default",
            name="bench",
            permissions=frozenset(Permission),
            queues=frozenset(),
            all_queues=True,
            lifetime_ms=None,
        )
        _, credential = create_token(
            database, order, actor="bench", ids=self.ids, entropy=self.entropy
        )
        self.principal = credential.principal
        definition = compile_definition(three_steps())
        register(database, definition, namespace="default", actor="bench", ids=self.ids)
        self.steps = Steps(database, self.ids, self.entropy)

    def round(self, batch: int, label: str) -> None:
        prefix = self.ids.next()
        requests = [
            StartRequest(
                definition="bench",
                version=1,
                instance_key=f"{prefix}-{label}-{n}",
                input="{}",
            )
            for n in range(batch)
        ]
        start_instances(
            self.database,
            requests,
            namespace="default",
            application="default",
            actor="bench",
            ids=self.ids,
        )
        reports: list[Reported] = []
        starts: list[Named] = []
        done = 0
        while done < batch * STEPS:
            answer = self._turn(
                TurnCommand(
                    worker="bench",
                    reports=reports,
                    starts=starts,
                    claim=ClaimOrder(("bench",), batch),
                )
            )
            done += len(reports)
            reports = [Reported(s.task_id, s.token, _succeeded()) for s in starts]
            starts = [Named(task.id, task.token or "") for task, _ in answer.claimed]
            while self.steps.pump():
                pass

    def _turn(self, command: TurnCommand) -> TurnAnswer:
        return turn(
            self.database, command, principal=self.principal, ids=self.ids, entropy=self.entropy
        )


def _succeeded() -> Report:
    digest = canonical.digest(_RESULT)
    return Report(outcome=Outcome.SUCCEEDED, digest=digest, result=_RESULT, result_digest=digest)
