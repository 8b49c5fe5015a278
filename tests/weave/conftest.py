"""A whole engine for each test, on each database in turn."""

from collections.abc import Iterator

import pytest

from tests.conftest import ENGINES, EmptyDatabase
from tests.weave.world import WeaveWorld


@pytest.fixture(params=ENGINES)
def weave_url(request: pytest.FixtureRequest, empty_database: EmptyDatabase) -> str:
    """A database with the schema and no rows, on each engine in turn."""
    return empty_database(request.param)


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
