"""A whole server for each test, driven over HTTP in this process. No socket is opened.

A server is made once for each database, and its tables are emptied before each test. ``world`` is
on SQLite; where the database matters a test takes ``each_world``, on each of the three in turn.
"""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from tests.api.world import ApiWorld, Server
from tests.conftest import ENGINES
from tests.servers.process import DatabaseServer

SERVERS = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}

ServerOn = Callable[[str], Server]


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop that the applications run on."""
    with asyncio.Runner() as made:
        yield made


def prepare(url: str) -> str:
    """Give a new database its schema; its URL."""
    database = open_database(url)
    upgrade(database)
    database.close()
    return url


@pytest.fixture(scope="session")
def server_on(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    runner: asyncio.Runner,
) -> Iterator[ServerOn]:
    """Engine → the server on its database."""
    made: dict[str, Server] = {}

    def make(engine: str) -> Server:
        if engine not in SERVERS:
            url = f"sqlite:///{tmp_path_factory.mktemp('api') / 'weave.db'}"
        else:
            of_engine: DatabaseServer = request.getfixturevalue(SERVERS[engine])
            url = of_engine.create_database("weave_api")
        return Server(prepare(url), runner)

    def on(engine: str) -> Server:
        if engine not in made:
            made[engine] = make(engine)
        return made[engine]

    yield on
    for server in made.values():
        server.close()


@pytest.fixture
def world(server_on: ServerOn) -> ApiWorld:
    """An empty server on SQLite, whose time the test moves."""
    return ApiWorld(server_on("sqlite"))


@pytest.fixture(params=ENGINES)
def each_world(request: pytest.FixtureRequest, server_on: ServerOn) -> ApiWorld:
    """The same on each database in turn."""
    return ApiWorld(server_on(request.param))
