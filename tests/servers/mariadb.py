"""A throw-away MariaDB server (any version from 10.6), for tests."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pymysql
from pymysql.cursors import Cursor

from tests.servers.process import DatabaseServer, ServerError

USER = "weave"
#: Debian keeps servers out of an ordinary user's PATH.
SEARCH = ("/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin")


class MariadbServer(DatabaseServer):
    """MariaDB in a temporary folder."""

    kind: ClassVar[str] = "mariadb"
    accounts: ClassVar[tuple[str, ...]] = ("mysql",)
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def prepare(self, folder: Path) -> None:
        self.run_tool(
            [
                str(find_program("mariadb-install-db", "mysql_install_db")),
                "--no-defaults",
                f"--datadir={folder / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-name-resolve",
                "--skip-test-db",
            ],
            folder,
        )
        # Run at every start, before the first connection; one statement a line. Only we get in.
        account = f"'{USER}'@'127.0.0.1'"
        self.write_private(
            folder / "init.sql",
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n"
            "DROP USER IF EXISTS 'root'@'localhost', 'root'@'127.0.0.1', 'root'@'::1';\n",
        )

    def command(self, folder: Path) -> Sequence[str]:
        settings = {
            "datadir": str(folder / "data"),
            "socket": str(folder / "socket"),
            "pid-file": str(folder / "pid"),
            "init-file": str(folder / "init.sql"),
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "max-connections": "200",
            "innodb-buffer-pool-size": "256M",
        }
        if not self.durable:
            # 2: written at each commit, so that kill() loses nothing, but flushed once a second.
            settings |= {"innodb-flush-log-at-trx-commit": "2", "innodb-doublewrite": "0"}
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [str(find_server()), "--no-defaults", "--skip-name-resolve", *options]

    def ping(self) -> None:
        with self._cursor() as cursor:
            cursor.execute("SELECT 1")

    def url(self, name: str) -> str:
        where = f"{USER}:{self.password}@127.0.0.1:{self.port}"
        return f"mysql+pymysql://{where}/{name}?charset=utf8mb4"

    def create_database(self, name: str) -> str:
        with self._cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {_quoted(name)} CHARACTER SET utf8mb4")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        with self._cursor() as cursor:
            # An open transaction's metadata locks would make DROP DATABASE wait for it.
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [name])
            for (connection_id,) in cursor.fetchall():
                cursor.execute(f"KILL {int(connection_id)}")
            cursor.execute(f"DROP DATABASE {_quoted(name)}")

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self.password,
            autocommit=True,
            connect_timeout=10,
        )
        with connection, connection.cursor() as cursor:
            yield cursor


def find_program(*names: str, search: Sequence[str] = SEARCH) -> Path:
    """The first of the named programs on the PATH or in ``search``.

    Raises ServerError that names what to install.
    """
    path = os.pathsep.join(search)
    if search == SEARCH:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), path])
    for name in names:
        found = shutil.which(name, path=path)
        if found is not None:
            return Path(found)
    raise ServerError(
        f"MariaDB's {' or '.join(names)} was not found on the PATH nor in {', '.join(search)}. "
        "Debian: apt-get install mariadb-server"
    )


def find_server() -> Path:
    """The server program. Raises ServerError if there is none, or if it is another product's."""
    program = find_program("mariadbd", "mysqld")
    said = subprocess.run(
        [str(program), "--version"], check=True, capture_output=True, text=True
    ).stdout
    if "mariadb" not in said.lower():
        raise ServerError(f"{program} is not MariaDB: {said.strip()}")
    return program


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
