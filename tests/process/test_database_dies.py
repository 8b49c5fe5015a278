"""The database server is killed under work and comes back; nobody else is started again.

Commands meanwhile get a coded 503, and the same command with the same key settles each exactly
once.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Semaphore
from typing import Any

import httpx2
import pytest

from pulseweave import Client
from pulseweave.kernel.errors import OutcomeUnknown, Unavailable, WeaveError
from pulseweave.wire.recovery import Receipt
from tests.process.scene import BRISK, PATIENT, WAIT_S, Scene
from tests.servers.process import DatabaseServer

#: How many commands there are, how many are under way at once, and after how many answers it dies.
COMMANDS, AT_ONCE, ANSWERED = 16, 6, 5
TOLD = {"DATABASE_UNAVAILABLE", "OUTCOME_UNKNOWN"}

Command = Callable[[Client], Any]


def readiness(scene: Scene) -> int:
    """The status of ``/readyz``; the process is alive whatever it says."""
    with httpx2.Client(base_url=scene.processes.url, trust_env=False) as http:
        assert http.get("/healthz").status_code == 200
        return http.get("/readyz").status_code


@contextmanager
def nobody_starts_again(scene: Scene) -> Iterator[None]:
    """Server and worker are the same processes all along."""
    pids = scene.processes.server_pid, scene.processes.worker_pid
    assert None not in pids
    yield
    assert (scene.processes.server_pid, scene.processes.worker_pid) == pids


def impatient(scene: Scene) -> Client:
    """A client that sends once and says what it was told."""
    return Client(scene.processes.url, scene.processes.token, tries=1)


def killed_meanwhile(
    scene: Scene, mortal: DatabaseServer, commands: Sequence[Command]
) -> list[Any]:
    """Send all, kill the database after some answers; each command's answer, or its error."""
    answers = Semaphore(0)

    def send(command: Command) -> Any:
        with impatient(scene) as client:
            try:
                return command(client)
            except (Unavailable, OutcomeUnknown) as error:
                return error
            finally:
                answers.release()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        sent: list[Future[Any]] = [threads.submit(send, command) for command in commands]
        for _ in range(ANSWERED):
            assert answers.acquire(timeout=WAIT_S)
        mortal.kill()
        found = [future.result(WAIT_S) for future in sent]
    lost = [answer.code for answer in found if isinstance(answer, WeaveError)]
    assert set(lost) <= TOLD
    assert len(found) - len(lost) >= ANSWERED - AT_ONCE + 1
    assert lost, "it died before all were answered"
    assert readiness(scene) == 503
    return found


@pytest.mark.rule("PUL-3", "PUL-6")
@pytest.mark.case("B009")
def test_killed_between_effect_and_report(mortal_scene: Scene, mortal: DatabaseServer) -> None:
    """Long leases outlive the outage and the report is accepted; of short ones nobody may guess."""
    scene = mortal_scene
    orders = dict.fromkeys(scene.names(8), PATIENT) | dict.fromkeys(scene.names(8), BRISK)
    scene.provider.set_fault("charge", "hold")
    runs = {order: scene.start(order, name) for order, name in orders.items()}
    scene.processes.start_worker()

    def all_held() -> bool:
        return len(scene.provider.faults()["held"]) == len(orders)

    scene.until(all_held, "every charge to be made and unanswered")
    with nobody_starts_again(scene):
        mortal.kill()
        with impatient(scene) as client, pytest.raises(Unavailable):
            client.instances.get(next(iter(runs.values())))
        assert readiness(scene) == 503
        scene.provider.clear_faults()
        scene.provider.release()
        mortal.start()
        ended = {o: scene.until_state(run, "SUCCEEDED", "NEEDS_REVIEW") for o, run in runs.items()}
        scene.check(*orders)
        for order, run in runs.items():
            assert scene.task(run).attempt_count == 1
            if ended[order] == "NEEDS_REVIEW":
                assert orders[order] == BRISK, "a lease of 30 s outlives the outage"
                scene.end_well(run, order)
    assert readiness(scene) == 200
    scene.check(*orders)


@pytest.mark.rule("WEA-3")
def test_killed_while_starts_come_in(mortal_scene: Scene, mortal: DatabaseServer) -> None:
    scene = mortal_scene
    orders = scene.names(COMMANDS)
    scene.processes.start_worker()

    def start(order: str) -> Command:
        value = {"order_id": order, "amount": 100, "currency": "EUR"}
        return lambda client: client.instances.start(PATIENT, key=order, input=value).id

    commands = [start(order) for order in orders]
    with nobody_starts_again(scene):
        first = killed_meanwhile(scene, mortal, commands)
        mortal.start()
        again = [command(scene.client) for command in commands]
        assert len(set(again)) == len(orders)
        for one, other in zip(first, again, strict=True):
            assert isinstance(one, Exception) or one == other
        for order, run in zip(orders, again, strict=True):
            [found] = scene.client.instances.list(instance_key=order)
            assert found.id == run
            scene.end_well(run, order)
    scene.check(*orders)


@pytest.mark.rule("REC-3", "REC-7", "S2")
def test_killed_while_recovery_commands_are_sent(
    mortal_scene: Scene, mortal: DatabaseServer
) -> None:
    scene = mortal_scene
    orders = scene.names(COMMANDS)
    scene.provider.set_fault("charge", "refuse", times=COMMANDS)
    runs = [scene.start(order, PATIENT) for order in orders]
    scene.processes.start_worker()
    ready = [scene.command(run, "RETRY_STEP") for run in runs]

    def retry(n: int) -> Command:
        def sent(client: Client) -> Receipt:
            return client.recovery.retry_step(
                runs[n], **ready[n], safe_to_retry=True, key=f"retry-{orders[n]}"
            )

        return sent

    commands = [retry(n) for n in range(COMMANDS)]
    with nobody_starts_again(scene):
        first = killed_meanwhile(scene, mortal, commands)
        mortal.start()
        again = [command(scene.client) for command in commands]
        for one, other in zip(first, again, strict=True):
            assert isinstance(one, Exception) or one == other, "the first receipt, unchanged"
        for order, run, receipt in zip(orders, runs, again, strict=True):
            detail = scene.get(run)
            assert [task.id for task in detail.tasks][1:] == [receipt.details["task_id"]]
            assert scene.accepted(run) == ["RETRY_STEP"]
            scene.go_on(run)
            scene.end_well(run, order)
    scene.check(*orders)


def test_down_when_the_server_starts(mortal_scene: Scene, mortal: DatabaseServer) -> None:
    """It is alive, says that it is not ready, takes nothing, and goes on when the database does."""
    scene = mortal_scene
    [order] = scene.names(1)
    scene.processes.start_worker()
    worker = scene.processes.worker_pid
    scene.processes.close_server()
    mortal.kill()

    def answers() -> bool:
        try:
            return readiness(scene) == 503
        except httpx2.TransportError:
            return False

    with ThreadPoolExecutor(1) as threads:
        started = threads.submit(scene.processes.start_server)
        scene.until(answers, "the closed server")
        with impatient(scene) as client:
            with pytest.raises(Unavailable):
                client.instances.start(PATIENT, key=order, input={})
            with pytest.raises(Unavailable):
                client.me()
        assert not started.done()
        mortal.start()
        started.result(WAIT_S)
    assert readiness(scene) == 200
    run = scene.start(order, PATIENT)
    scene.until_state(run, "SUCCEEDED")
    assert scene.processes.worker_pid == worker
    scene.check(order)
    log = (scene.processes.folder / "server.log").read_text(encoding="utf-8")
    assert "does not answer" in log
    assert mortal.password not in log
