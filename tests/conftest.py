"""What all tests share: the servers, an empty database on each engine, and no silent skips."""

import os
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import delete

from pulseweave.store import schema as t
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import DatabaseServer

settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

ENGINES = ("sqlite", "postgresql", "mariadb")

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for the whole run, started at the first use. Don't kill this one."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """One MariaDB for the whole run, started at the first use. Don't kill this one."""
    with MariadbServer(durable=False) as server:
        yield server


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """SQLAlchemy's URL of a new empty database, on each engine in turn; dropped after the test."""
    fixture = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}.get(request.param)
    if fixture is None:
        yield f"sqlite:///{tmp_path / 'weave.db'}"
        return
    server: DatabaseServer = request.getfixturevalue(fixture)
    name = f"weave_{next(_numbers)}"
    yield server.create_database(name)
    server.drop_database(name)


SERVERS = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}
#: Rows that an upgrade makes and no test changes.
KEPT = {t.stripes.name, t.schema_info.name}

EmptyDatabase = Callable[[str], str]


@pytest.fixture(scope="session")
def empty_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> EmptyDatabase:
    """Engine → URL of its database, which has the schema and no rows.

    It is made once and emptied for each test: making some forty tables takes longer than most tests
    do.
    """
    urls: dict[str, str] = {}

    def make(engine: str) -> str:
        if engine not in SERVERS:
            return f"sqlite:///{tmp_path_factory.mktemp('weave') / 'weave.db'}"
        server: DatabaseServer = request.getfixturevalue(SERVERS[engine])
        return server.create_database("weave_emptied")

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that does not run is a failure: what is missing must be installed, not passed over."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Nor may a whole module skip itself."""
    report = yield
    if report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped: {report.longrepr}"
    return report
