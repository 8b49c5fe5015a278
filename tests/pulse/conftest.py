"""An empty world for each test, on each database in turn."""

from collections.abc import Iterator

import pytest

from tests.conftest import ENGINES, SERVERS, EmptyDatabase
from tests.pulse.world import World


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
