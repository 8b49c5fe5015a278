"""The throw-away servers do what the other tests take for granted."""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tests.servers import mariadb, postgres
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import DatabaseServer, ServerError

KINDS: list[type[DatabaseServer]] = [PostgresServer, MariadbServer]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.kind)
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    kind: type[DatabaseServer] = request.param
    with kind() as server:
        yield server


def engine_for(url: str) -> Engine:
    return create_engine(url, poolclass=NullPool)


def write(url: str, value: int) -> None:
    with engine_for(url).begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (:value)"), {"value": value})


def values(url: str) -> list[int]:
    with engine_for(url).connect() as connection:
        return list(connection.scalars(text("SELECT v FROM t ORDER BY v")))


def table_in(server: DatabaseServer, name: str) -> str:
    url = server.create_database(name)
    with engine_for(url).begin() as connection:
        connection.execute(text("CREATE TABLE t (v INTEGER PRIMARY KEY)"))
    return url


def test_commits_survive_kill_and_stop(server: DatabaseServer) -> None:
    url = table_in(server, "survivor")
    write(url, 1)
    killed = server.pid
    server.kill()
    assert not server.running
    with pytest.raises(ProcessLookupError):
        os.kill(killed, 0)
    with pytest.raises(DBAPIError):
        values(url)
    server.restart()
    assert server.pid != killed
    assert values(url) == [1]
    write(url, 2)
    server.stop()
    server.start()
    assert values(url) == [1, 2]
    server.drop_database("survivor")


def test_an_open_transaction_is_lost_with_the_server(server: DatabaseServer) -> None:
    url = table_in(server, "open_transaction")
    with engine_for(url).connect() as connection:
        connection.execute(text("INSERT INTO t VALUES (7)"))
        server.kill()
        with pytest.raises(DBAPIError):
            connection.commit()
        connection.invalidate()
    server.restart()
    assert values(url) == []
    server.drop_database("open_transaction")


def test_drop_ends_open_connections(server: DatabaseServer) -> None:
    url = table_in(server, "in_use")
    with engine_for(url).connect() as connection:
        connection.execute(text("INSERT INTO t VALUES (7)"))
        server.drop_database("in_use")
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT v FROM t"))
        connection.invalidate()
    with pytest.raises(DBAPIError):
        values(url)


def test_only_the_password_opens_it(server: DatabaseServer) -> None:
    url = server.create_database("closed")
    with pytest.raises(DBAPIError):
        engine_for(url.replace(server.password, "guess")).connect()
    server.drop_database("closed")


def test_it_does_not_run_as_root(server: DatabaseServer) -> None:
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0


def test_starting_twice_is_refused(server: DatabaseServer) -> None:
    with pytest.raises(ServerError, match=f"already running with pid {server.pid}"):
        server.start()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_exit_leaves_neither_process_nor_folder(kind: type[DatabaseServer]) -> None:
    with kind(durable=False) as server:
        pid, folder = server.pid, server._folder
        assert folder is not None
        assert folder.exists()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_server_that_ends_at_once_shows_its_log(
    kind: type[DatabaseServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "prepare", lambda _self, _folder: None)
    with pytest.raises(ServerError, match=r"ended with \d+ while starting(.|\n)*data"), kind():
        pytest.fail("there was nothing to serve")


def test_a_killed_test_run_takes_its_servers_along() -> None:
    script = (
        "from tests.servers.postgres import PostgresServer as S\n"
        "import sys\n"
        "server = S(durable=False).start()\n"
        "print(server.pid, server._folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        watch = os.pidfd_open(int(pid))
        run.send_signal(signal.SIGKILL)
    try:
        ended = _await_pidfd(watch, seconds=10)
    finally:
        os.close(watch)
    assert ended
    shutil.rmtree(folder)


def _await_pidfd(watch: int, *, seconds: float) -> bool:
    return bool(select.select([watch], [], [], seconds)[0])


def test_missing_programs_say_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="apt-get install postgresql"):
        postgres.find_programs([str(tmp_path)])
    with pytest.raises(ServerError, match="apt-get install mariadb-server"):
        mariadb.find_program("mariadbd", search=[str(tmp_path)])


def test_a_new_database_is_empty(database_url: str) -> None:
    with engine_for(database_url).begin() as connection:
        connection.execute(text("CREATE TABLE t (v INTEGER PRIMARY KEY)"))
    write(database_url, 1)
    assert values(database_url) == [1]
