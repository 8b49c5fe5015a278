"""A database server that is killed in the middle of requests, and is down when a server starts.

Nothing that was answered is lost, nothing is half done, and the same requests settle what was not
answered. Each test has a server of its own, for it kills it.
"""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from pulseweave.kernel.errors import Unavailable
from pulseweave.server.assemble import assemble
from tests.api.conftest import prepare
from tests.api.world import Answer, ApiWorld, Asked, Server
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import DatabaseServer

#: How many requests there are, after how many answers the server dies, and how many come then.
REQUESTS = 16
ANSWERED = 6
TOO_LATE = 2
LOST = {"DATABASE_UNAVAILABLE", "OUTCOME_UNKNOWN"}


@pytest.fixture(params=[PostgresServer, MariadbServer], ids=["postgresql", "mariadb"])
def mortal(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A database server that the test may kill."""
    with request.param(durable=False) as server:
        yield server


def readiness(server: Server) -> tuple[int, str]:
    """What ``/readyz`` says, and that ``/healthz`` is fine whatever it says."""
    alive = server.runner.run(server.http.get("/healthz"))
    assert alive.status_code == 200
    ready = server.runner.run(server.http.get("/readyz"))
    return ready.status_code, ready.text


@pytest.mark.rule("REC-3", "REC-7")
def test_killed_in_the_middle_of_requests(mortal: DatabaseServer, runner: asyncio.Runner) -> None:
    server = Server(prepare(mortal.create_database("weave")), runner, virtual=False)
    world = ApiWorld(server)
    world.flow()
    pauses = [pause(world, world.begin(f"k{n}"), n) for n in range(REQUESTS // 2)]
    tasks = [create(f"t{n}") for n in range(REQUESTS // 2)]
    asked = [request for pair in zip(pauses, tasks, strict=True) for request in pair]
    assert readiness(server)[0] == 200

    first = runner.run(all_at_once(world, asked, mortal))
    assert {answer.code for answer in first} - {None} <= LOST
    assert sum(answer.code is None for answer in first) >= ANSWERED
    assert all(answer.code == "DATABASE_UNAVAILABLE" for answer in first[-TOO_LATE:])
    status, told = readiness(server)
    assert (status, "DATABASE_UNAVAILABLE" in told) == (503, True)
    server.core.forget_beliefs()
    assert world.get("/me").code == "DATABASE_UNAVAILABLE"
    with pytest.raises(Unavailable) as refused:
        assemble(server.url)
    assert mortal.password not in str(refused.value)

    mortal.start()
    assert readiness(server)[0] == 200
    assert world.findings() == []
    again = [world.done(world.send(request)) for request in asked]
    for before, after, request in zip(first, again, asked, strict=True):
        if before.code is None and request.key is not None:
            assert before.body == after, "the first receipt, unchanged"
        elif before.code is None:
            assert before["id"] == after["id"]
    for request in pauses:
        seen = world.look(request.path.split("/")[2])
        assert (seen["paused"], seen["control_revision"]) == (True, "2"), "each once"
    assert len({body["id"] for body in again if "id" in body}) == len(tasks)
    assert world.findings() == []
    assemble(server.url).stop()
    server.close()


def pause(world: ApiWorld, instance_id: str, n: int) -> Asked:
    body = {"expected_control_revision": "1", "reason": f"number {n}"}
    path = f"/instances/{instance_id}/pause"
    return Asked(method="POST", path=path, body=body, key=world.new_key())


def create(task_key: str) -> Asked:
    body = {"queue": "q", "handler": "do", "task_key": task_key, "input": task_key}
    return Asked(method="POST", path="/tasks", body=body)


async def all_at_once(
    world: ApiWorld, asked: Sequence[Asked], mortal: DatabaseServer
) -> list[Answer]:
    """Send all but the last together and kill the database when some have been answered."""
    answered = 0
    enough, dead = asyncio.Event(), asyncio.Event()

    async def send(request: Asked) -> Answer:
        nonlocal answered
        if request in asked[-TOO_LATE:]:
            await dead.wait()
        answer = await world.sending(request)
        answered += 1
        if answered == ANSWERED:
            enough.set()
        return answer

    async def kill() -> None:
        await enough.wait()
        await asyncio.to_thread(mortal.kill)
        dead.set()

    *answers, _ = await asyncio.gather(*(send(request) for request in asked), kill())
    return [answer for answer in answers if answer is not None]
