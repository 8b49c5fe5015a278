"""A throw-away PostgreSQL server (any version from 13), for tests."""

import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from tests.servers.process import DatabaseServer, ServerError

USER = "weave"
SEARCH = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
#: The first version whose initdb takes a language's order for the whole cluster.
ICU_SINCE = 15


class PostgresServer(DatabaseServer):
    """PostgreSQL in a temporary folder.

    Where it can, the cluster's default order is a language's, not the bytes': what relies on byte
    order must say so itself.
    """

    kind: ClassVar[str] = "postgresql"
    accounts: ClassVar[tuple[str, ...]] = ("postgres",)
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": ends sessions, then checkpoints

    def prepare(self, folder: Path) -> None:
        programs = find_programs()
        secret = folder / "password"
        self.write_private(secret, self.password)
        language = ["--locale-provider=icu", "--icu-locale=und"]
        self.run_tool(
            [
                str(programs / "initdb"),
                f"--pgdata={folder / 'data'}",
                f"--username={USER}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                *(language if version(programs) >= ICU_SINCE else []),
            ],
            folder,
        )

    def command(self, folder: Path) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        if not self.durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(find_programs() / "postgres"), "-D", str(folder / "data"), *options]

    def ping(self) -> None:
        with self._connect() as connection:
            connection.execute("SELECT 1")

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://{USER}:{self.password}@127.0.0.1:{self.port}/{name}"

    def create_database(self, name: str) -> str:
        with self._connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        with self._connect() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=10,
        )


def find_programs(search: Sequence[str] = SEARCH) -> Path:
    """The folder with ``initdb`` and ``postgres``: the newest that is installed, else the PATH's.

    Raises ServerError that names what to install.
    """
    found = [
        folder
        for pattern in search
        for folder in Path("/").glob(pattern.removeprefix("/"))
        if (folder / "initdb").is_file() and (folder / "postgres").is_file()
    ]
    on_path = shutil.which("initdb") if search == SEARCH else None
    if on_path is not None:
        found.append(Path(on_path).resolve().parent)
    if not found:
        raise ServerError(
            "PostgreSQL's server programs (initdb, postgres) were not found on the PATH nor in "
            f"{', '.join(search)}. Debian: apt-get install postgresql"
        )
    return max(found, key=version)


def version(programs: Path) -> int:
    """The major version of the programs in a folder."""
    said = subprocess.run(
        [str(programs / "postgres"), "--version"], check=True, capture_output=True, text=True
    ).stdout
    number = re.search(r"\d+", said)
    if number is None:
        raise ServerError(f"{programs / 'postgres'} --version said {said!r}")
    return int(number[0])
