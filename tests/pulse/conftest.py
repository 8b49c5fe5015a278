"""A world for each test, on each database in turn."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.pulse.world import World
from tests.servers.process import DatabaseServer

_numbers = count(1)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """A database with one namespace, whose time the test moves."""
    made = World(database_url)
    yield made
    made.close()


@pytest.fixture
def real_world(database_url: str) -> Iterator[World]:
    """The same on the database's own clock, for threads and for what the clock itself must do."""
    made = World(database_url, virtual=False)
    yield made
    made.close()


@pytest.fixture(params=["postgresql", "mariadb"])
def server_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world on a server's own clock: where transactions really run beside each other."""
    server: DatabaseServer = request.getfixturevalue(
        {"postgresql": "postgres_server", "mariadb": "mariadb_server"}[request.param]
    )
    name = f"weave_pulse_{next(_numbers)}"
    made = World(server.create_database(name), virtual=False)
    yield made
    made.close()
    server.drop_database(name)
