"""A whole engine for each test, on each database in turn."""

from collections.abc import Iterator

import pytest

from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from tests.weave.world import WeaveWorld


@pytest.fixture
def weave_url(database_url: str) -> str:
    """A database with the schema and no rows."""
    database = open_database(database_url)
    upgrade(database)
    database.close()
    return database_url


@pytest.fixture
def world(weave_url: str) -> Iterator[WeaveWorld]:
    """An engine whose time the test moves."""
    made = WeaveWorld(weave_url)
    yield made
    made.close()


@pytest.fixture
def real_world(weave_url: str) -> Iterator[WeaveWorld]:
    """The same on the database's own clock, for threads."""
    made = WeaveWorld(weave_url, virtual=False)
    yield made
    made.close()
