"""A scene: a server, a provider and a database that run, a worker when one is wanted, and the ways
to look, to act and to check.

Scenes are shared by the tests of one engine, each test with orders of its own: its check asks the
ledger for those alone, and the doctor for the whole database.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event
from types import MappingProxyType
from typing import Any

from examples.demo.processes import Processes
from examples.provider.client import Provider
from examples.provider.process import REPOSITORY
from pulseweave import Client
from pulseweave.store.engine import open_database
from pulseweave.txn.doctor import examine
from pulseweave.wire import sources
from pulseweave.wire.recovery import Operation
from pulseweave.wire.workflows import InstanceDetail, TaskView

WAIT_S = 60
LOOK_S = 0.05
WHY: dict[str, Any] = {"reason": "looked at the provider", "evidence_ref": "provider:ledger"}
KILLED = -signal.SIGKILL
#: The order as it is, and one whose charge has the shortest lease: what is lost shows soon.
PATIENT, BRISK = "order", "brisk-order"

_numbers = count(1)


class Scene:
    """Processes and clients. A worker runs only while a test has one."""

    def __init__(
        self,
        folder: Path,
        database: str | None = None,
        *,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.processes = Processes(folder, database, settings=settings)
        try:
            self.processes.start()
        except BaseException:
            self.processes.close()
            raise
        self.client = Client(self.processes.url, self.processes.token)
        self.provider = Provider(self.processes.provider.url)
        self._define()

    def _define(self) -> None:
        text = (REPOSITORY / "examples" / "orders" / "order.yaml").read_text(encoding="utf-8")
        self.client.definitions.put(sources.parse(text).value)
        brisk = re.sub(r"effect: at_most_once", "effect: at_most_once\n    lease: 1s", text)
        brisk = re.sub(r"^name: order$", f"name: {BRISK}", brisk, flags=re.MULTILINE)
        self.client.definitions.put(sources.parse(brisk).value)

    def close(self) -> None:
        self.client.close()
        self.provider.close()
        self.processes.close()

    def clear(self) -> None:
        """After a test: no worker, no fault, nothing held, a server that lives."""
        self.end_worker()
        self.provider.clear_faults()
        self.provider.release()
        if self.processes.server_pid is None:
            self.processes.start_server()

    # --- orders ----------------------------------------------------------------------------------

    @staticmethod
    def names(wanted: int) -> list[str]:
        """New order ids, never given before."""
        return [f"o-{next(_numbers)}" for _ in range(wanted)]

    def start(self, order_id: str, definition: str = BRISK) -> str:
        """Start the order, or find it started; its instance."""
        value = {"order_id": order_id, "amount": 100, "currency": "EUR"}
        return self.client.instances.start(definition, key=order_id, input=value).id

    # --- looking ---------------------------------------------------------------------------------

    def get(self, instance_id: str) -> InstanceDetail:
        return self.client.instances.get(instance_id)

    def state(self, instance_id: str) -> str:
        return self.get(instance_id).state

    def task(self, instance_id: str, handler: str = "payments.charge") -> TaskView:
        """The latest task of a handler."""
        return [task for task in self.get(instance_id).tasks if task.handler == handler][-1]

    def until(self, seen: Callable[[], bool], what: str) -> None:
        """Look until it is so; AssertionError with ``what`` when it takes too long."""
        rest = Event()
        for _ in range(int(WAIT_S / LOOK_S)):
            if seen():
                return
            rest.wait(LOOK_S)
        raise AssertionError(f"waited {WAIT_S} s for {what}")

    def until_state(self, instance_id: str, *states: str) -> str:
        """Wait for one of the states; which it is."""
        self.until(lambda: self.state(instance_id) in states, f"{instance_id} to be {states}")
        return self.state(instance_id)

    def ready(self, instance_id: str, name: str) -> Operation | None:
        for item in self.get(instance_id).reviews:
            for operation in item.operations:
                if operation.operation == name and operation.applies:
                    return operation
        return None

    def command(self, instance_id: str, name: str) -> dict[str, Any]:
        """The ready command, once the operation applies."""
        self.until(lambda: self.ready(instance_id, name) is not None, name)
        operation = self.ready(instance_id, name)
        assert operation is not None
        return {**{k: v for k, v in operation.command.items() if v is not None}, **WHY}

    # --- acting ----------------------------------------------------------------------------------

    def kill_worker(self) -> None:
        self.processes.kill_worker()

    def end_worker(self) -> None:
        """Whatever state it is in: no worker runs after this."""
        pid = self.processes.worker_pid
        if pid is not None:
            self.processes.kill_worker()

    def worker_dies_at(self, point: str) -> None:
        self.processes.start_worker(die_at=point)
        assert self.processes.worker_has_died(WAIT_S) == KILLED

    def freeze_worker(self) -> int:
        """SIGSTOP: it holds all it has, and tells nothing. Its pid."""
        pid = self.processes.worker_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        return pid

    def start_doomed_server(self, point: str) -> None:
        """A server that dies at a point; that may be before it is ready."""
        with suppress(RuntimeError):
            self.processes.start_server(die_at=point)

    def conclude(self, instance_id: str, order_id: str) -> None:
        """Settle an unknown charge by what the ledger says: REVIEW_TASK, consumed, RESOLVE_STEP
        where it was charged, else RETRY_STEP.
        """
        charges = self.provider.charges(order_id)
        told: dict[str, Any] = {"verdict": "FAILED", "result": "never asked"}
        if charges:
            told = {"verdict": "SUCCEEDED", "result": charges[0]}
        told["execution_settled"] = True
        recovery = self.client.recovery
        recovery.review_task(instance_id, **self.command(instance_id, "REVIEW_TASK"), **told)
        if charges:
            recovery.resolve_step(instance_id, **self.command(instance_id, "RESOLVE_STEP"), **told)
        else:
            command = self.command(instance_id, "RETRY_STEP")
            recovery.retry_step(instance_id, **command, safe_to_retry=True)

    def go_on(self, instance_id: str) -> None:
        revision = self.get(instance_id).revision
        self.client.recovery.continue_instance(
            instance_id, expected_revision=revision, **WHY, review_resolved=True
        )

    def end_well(self, instance_id: str, order_id: str) -> None:
        """Wait for the end; an outcome that got lost on the way is verified and concluded."""
        if self.until_state(instance_id, "SUCCEEDED", "NEEDS_REVIEW") == "NEEDS_REVIEW":
            assert self.task(instance_id).attempts[-1].outcome == "UNKNOWN"
            self.conclude(instance_id, order_id)
            self.go_on(instance_id)
            self.until_state(instance_id, "SUCCEEDED")

    # --- checking --------------------------------------------------------------------------------

    def charged(self, order_id: str) -> int:
        return len(self.provider.effects(kind="charge", order_id=order_id))

    def check(self, *order_ids: str, charges: int = 1) -> None:
        """Each order was charged so often, and nothing in the database contradicts itself."""
        assert {o: self.charged(o) for o in order_ids} == dict.fromkeys(order_ids, charges)
        assert self.findings() == []

    def findings(self) -> list[Any]:
        """What the doctor finds in the whole database."""
        database = open_database(self.processes.database)
        try:
            return [found for page in examine(database) for found in page.findings]
        finally:
            database.close()

    def accepted(self, instance_id: str) -> list[str]:
        """The operations of people on an instance in their order, as the workflow's audit has
        them.
        """
        entries = list(self.client.instances.audit(instance_id))
        done = [e for e in entries if e.layer == "workflow" and e.code is None]
        assert all(e.actor and e.command_digest for e in done)
        return [e.operation for e in sorted(done, key=lambda e: (e.at, e.id))]
