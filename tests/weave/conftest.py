"""A whole engine for each test, on each database in turn."""

from collections.abc import Iterator

import pytest

from tests.weave.world import WeaveWorld


@pytest.fixture
def world(database_url: str) -> Iterator[WeaveWorld]:
    """An engine whose time the test moves."""
    made = WeaveWorld(database_url)
    yield made
    made.close()


@pytest.fixture
def real_world(database_url: str) -> Iterator[WeaveWorld]:
    """The same on the database's own clock, for threads."""
    made = WeaveWorld(database_url, virtual=False)
    yield made
    made.close()
