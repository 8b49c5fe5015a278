"""A world for each test, on each database in turn."""

from collections.abc import Iterator

import pytest

from tests.pulse.world import World


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
