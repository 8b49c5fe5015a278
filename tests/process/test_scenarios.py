"""S1 and S2 on real processes: server, worker, provider, database; kills at named points."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from examples.demo.processes import Processes
from examples.provider.client import Provider
from examples.provider.process import REPOSITORY
from pulseweave import Client
from pulseweave.store.engine import open_database
from pulseweave.txn.doctor import examine
from pulseweave.wire import sources
from pulseweave.wire.recovery import Operation

WAIT_S = 40
WHY: dict[str, Any] = {"reason": "looked at the provider", "evidence_ref": "provider:ledger"}


class Scene:
    """Everything that runs, and a way to look and to act."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        processes.start()
        self.client = Client(processes.url, processes.token)
        self.provider = Provider(processes.provider.url)
        text = (REPOSITORY / "examples" / "orders" / "order.yaml").read_text(encoding="utf-8")
        short = re.sub(r"effect: at_most_once", "effect: at_most_once\n    lease: 1s", text)
        self.client.definitions.put(sources.parse(short).value)

    def close(self) -> None:
        self.client.close()
        self.provider.close()
        self.processes.close()

    def order(self, order_id: str) -> str:
        value = {"order_id": order_id, "amount": 100, "currency": "EUR"}
        return self.client.instances.start("order", key=order_id, input=value).id

    def state(self, instance_id: str) -> str:
        return self.client.instances.get(instance_id).state

    def until(self, seen: Callable[[], bool], what: str) -> None:
        waited = Event()
        for _ in range(WAIT_S * 20):
            if seen():
                return
            waited.wait(0.05)
        raise AssertionError(f"waited {WAIT_S} s for {what}")

    def ready(self, instance_id: str, name: str) -> Operation | None:
        for item in self.client.instances.get(instance_id).reviews:
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

    def check(self, *charged: str) -> None:
        """Each order was charged exactly once, and nothing in the database contradicts itself."""
        charges = [effect["order_id"] for effect in self.provider.effects(kind="charge")]
        assert sorted(charges) == sorted(charged)
        database = open_database(self.processes.database)
        assert [f for page in examine(database) for f in page.findings] == []
        database.close()


@pytest.fixture
def scene(database_url: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(Processes(tmp_path, database_url))
    yield made
    made.close()


@pytest.fixture
def sqlite_scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(Processes(tmp_path))
    yield made
    made.close()


@pytest.mark.rule("S1")
@pytest.mark.parametrize("point", ["worker.after_start", "worker.after_effect"])
def test_an_unknown_outcome_is_verified_and_the_order_goes_on(scene: Scene, point: str) -> None:
    run = scene.order("o-1")
    scene.processes.start_worker(die_at=f"{point}:1")
    assert scene.processes.worker_has_died(WAIT_S) == -signal.SIGKILL
    scene.processes.start_worker()
    scene.until(lambda: scene.state(run) == "NEEDS_REVIEW", "the review")
    charges = scene.provider.charges("o-1")
    assert len(charges) == (0 if point == "worker.after_start" else 1)
    recovery = scene.client.recovery
    if charges:
        told: dict[str, Any] = {
            "verdict": "SUCCEEDED",
            "result": charges[0],
            "execution_settled": True,
        }
        recovery.review_task(run, **scene.command(run, "REVIEW_TASK"), **told)
        recovery.resolve_step(run, **scene.command(run, "RESOLVE_STEP"), **told)
    else:
        told = {"verdict": "FAILED", "result": "never asked", "execution_settled": True}
        recovery.review_task(run, **scene.command(run, "REVIEW_TASK"), **told)
        recovery.retry_step(run, **scene.command(run, "RETRY_STEP"), safe_to_retry=True)
    detail = scene.client.instances.get(run)
    recovery.continue_instance(run, expected_revision=detail.revision, **WHY, review_resolved=True)
    scene.until(lambda: scene.state(run) == "SUCCEEDED", "the order's end")
    scene.check("o-1")


@pytest.mark.rule("S2")
def test_a_known_failure_is_retried_once_with_its_original_deadline(scene: Scene) -> None:
    scene.provider.set_fault("charge", "refuse", times=1)
    run = scene.order("o-2")
    scene.processes.start_worker()
    command = scene.command(run, "RETRY_STEP")
    first = scene.client.instances.get(run).tasks[0]
    scene.client.recovery.retry_step(run, **command, safe_to_retry=True)
    detail = scene.client.instances.get(run)
    second = detail.tasks[-1]
    assert (second.retry_of, second.deadline_at) == (first.id, first.deadline_at)
    assert second.holds == ["GATE"]
    scene.client.recovery.continue_instance(
        run, expected_revision=detail.revision, **WHY, review_resolved=True
    )
    scene.until(lambda: scene.state(run) == "SUCCEEDED", "the order's end")
    charge = scene.client.instances.get(run).tasks[1]
    assert (charge.id, charge.attempt_count) == (second.id, 1)
    scene.check("o-2")


@pytest.mark.parametrize(
    "point",
    [
        "unit.before_commit:9",
        "unit.after_commit:9",
        "server.before_answer:9",
        "engine.after_pump:2",
    ],
)
def test_a_server_that_dies_loses_nothing_and_repeats_nothing(
    sqlite_scene: Scene, point: str
) -> None:
    scene = sqlite_scene
    scene.processes.start_worker()
    scene.processes.close_server()
    scene.processes.start_server(die_at=point)
    runs = {}
    for n in range(3):
        order_id = f"o-{n}"
        try:
            runs[order_id] = scene.order(order_id)
        except Exception:  # noqa: BLE001  # the server died under it: the same key again
            runs[order_id] = ""
        if not runs[order_id]:
            break
    assert scene.processes.server_has_died(WAIT_S) == -signal.SIGKILL
    scene.processes.start_server()
    runs = {f"o-{n}": scene.order(f"o-{n}") for n in range(3)}
    scene.until(
        lambda: all(scene.state(run) in ("SUCCEEDED", "NEEDS_REVIEW") for run in runs.values()),
        "the orders",
    )
    charged = [effect["order_id"] for effect in scene.provider.effects(kind="charge")]
    assert len(charged) == len(set(charged))
    for run in runs.values():
        if scene.state(run) == "NEEDS_REVIEW":
            assert scene.ready(run, "REVIEW_TASK") is not None
    assert all(scene.state(run) != "FAILED" for run in runs.values())
    scene.check(*charged)
