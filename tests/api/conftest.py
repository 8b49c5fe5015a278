"""A whole server for each test, driven over HTTP in this process. No socket is opened.

The databases are made once and emptied before each test. ``world`` is on SQLite; where the database
matters a test takes ``each_world``, which is on each of the three in turn.
"""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import delete

from pulseweave.store import schema as t
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from tests.api.world import ApiWorld
from tests.conftest import ENGINES
from tests.servers.process import DatabaseServer

SERVERS = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}
#: Rows that an upgrade makes and no test changes.
KEPT = {t.stripes.name, t.schema_info.name}

EmptyDatabase = Callable[[str], str]


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop that the applications run on."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="session")
def empty_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> EmptyDatabase:
    """Engine → URL of its database, which has the schema and no rows."""
    urls: dict[str, str] = {}

    def make(engine: str) -> str:
        if engine not in SERVERS:
            return f"sqlite:///{tmp_path_factory.mktemp('api') / 'weave.db'}"
        server: DatabaseServer = request.getfixturevalue(SERVERS[engine])
        return server.create_database("weave_api")

    def empty(engine: str) -> str:
        made = engine in urls
        url = urls[engine] if made else urls.setdefault(engine, make(engine))
        database = open_database(url)
        if not made:
            upgrade(database)
        with database.writer.begin() as connection:
            for table in t.metadata.sorted_tables:
                if table.name not in KEPT:
                    connection.execute(delete(table))
        database.close()
        return url

    return empty


@pytest.fixture
def world(empty_database: EmptyDatabase, runner: asyncio.Runner) -> Iterator[ApiWorld]:
    """A server on SQLite, whose time the test moves."""
    made = ApiWorld(empty_database("sqlite"), runner)
    yield made
    made.close()


@pytest.fixture(params=ENGINES)
def each_world(
    request: pytest.FixtureRequest, empty_database: EmptyDatabase, runner: asyncio.Runner
) -> Iterator[ApiWorld]:
    """The same on each database in turn."""
    made = ApiWorld(empty_database(request.param), runner)
    yield made
    made.close()
