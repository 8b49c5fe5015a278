"""An empty world for each test, on each database in turn.

The databases are made once and emptied before each test: making some thirty tables takes longer
than most of these tests do.
"""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import delete

from pulseweave.store import schema as t
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from tests.conftest import ENGINES
from tests.pulse.world import World
from tests.servers.process import DatabaseServer

SERVERS = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}
#: Rows that an upgrade makes and no test changes.
KEPT = {t.stripes.name, t.schema_info.name}

EmptyDatabase = Callable[[str], str]


@pytest.fixture(scope="session")
def empty_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> EmptyDatabase:
    """Engine → URL of its database, which has the schema and no rows."""
    urls: dict[str, str] = {}

    def make(engine: str) -> str:
        if engine not in SERVERS:
            return f"sqlite:///{tmp_path_factory.mktemp('pulse') / 'weave.db'}"
        server: DatabaseServer = request.getfixturevalue(SERVERS[engine])
        return server.create_database("weave_pulse")

    def empty(engine: str) -> str:
        made = engine in urls
        url = urls.setdefault(engine, urls[engine] if made else make(engine))
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


@pytest.fixture(params=ENGINES)
def pulse_url(request: pytest.FixtureRequest, empty_database: EmptyDatabase) -> str:
    """The URL of an empty database on each engine in turn."""
    return empty_database(request.param)


@pytest.fixture
def world(pulse_url: str) -> Iterator[World]:
    """One namespace, whose time the test moves."""
    made = World(pulse_url)
    yield made
    made.close()


@pytest.fixture
def real_world(pulse_url: str) -> Iterator[World]:
    """The same on the database's own clock, for threads and for what the clock itself must do."""
    made = World(pulse_url, virtual=False)
    yield made
    made.close()


@pytest.fixture(params=SERVERS)
def server_world(request: pytest.FixtureRequest, empty_database: EmptyDatabase) -> Iterator[World]:
    """A world on a server's own clock: where transactions really run beside each other."""
    made = World(empty_database(request.param), virtual=False)
    yield made
    made.close()
