"""Scenes on each engine, shared by the tests of this folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ENGINES
from tests.process.scene import Scene
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import DatabaseServer

#: Modules whose tests CI plays on SQLite alone; `make long` plays them on the servers too.
LONG = {"test_server_dies.py", "test_waiting.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        on_server = any(f"[{engine}" in item.name for engine in ENGINES if engine != "sqlite")
        if item.path.parent == Path(__file__).parent and item.path.name in LONG and on_server:
            item.add_marker(pytest.mark.long)


@contextmanager
def database_of(request: pytest.FixtureRequest, name: str) -> Iterator[str | None]:
    """The URL of a new database on the engine that ``request.param`` names; None: a file of the
    scene's own.
    """
    fixture = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}.get(request.param)
    if fixture is None:
        yield None
        return
    server: DatabaseServer = request.getfixturevalue(fixture)
    yield server.create_database(name)
    server.drop_database(name)


@pytest.fixture(scope="session", params=ENGINES)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """One scene for each engine in turn, on a database of its own."""
    folder: Path = tmp_path_factory.mktemp(f"scene-{request.param}")
    with database_of(request, "scene") as database:
        made = Scene(folder, database)
        yield made
        made.close()


@pytest.fixture
def scene(stage: Scene) -> Iterator[Scene]:
    """The shared scene, put in order after the test."""
    yield stage
    stage.clear()


@pytest.fixture(scope="module", params=[PostgresServer, MariadbServer], ids=lambda kind: kind.kind)
def mortal(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A database server that the tests of a module may kill."""
    with request.param(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def mortal_stage(
    mortal: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp(f"mortal-{mortal.kind}"), mortal.create_database("scene"))
    yield made
    made.close()


@pytest.fixture
def mortal_scene(mortal: DatabaseServer, mortal_stage: Scene) -> Iterator[Scene]:
    """The scene on the server that may be killed, put in order after the test."""
    yield mortal_stage
    if not mortal.running:
        mortal.start()
    mortal_stage.clear()
