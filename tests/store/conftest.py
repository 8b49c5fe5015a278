"""An open database with our schema, on each engine in turn."""

from collections.abc import Iterator

import pytest

from pulseweave.store.engine import Database, open_database
from pulseweave.store.migrate import upgrade


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url)
    upgrade(opened)
    yield opened
    opened.close()
