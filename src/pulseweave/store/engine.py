"""Opening a database: the right driver with the right settings, checked before it is trusted.

Reads have a pool of their own, so that lists and details never keep reports and starts waiting
(B105). SQLite has one writer: writers of this process queue up first in, first out, before they ask
the file.
"""

import os
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from pulseweave.kernel.clock import Clock, SystemClock
from pulseweave.kernel.errors import Unavailable, WeaveError
from pulseweave.store.dialects import Capabilities, mysql, postgresql, sqlite
from pulseweave.store.errors import classify
from pulseweave.store.tx import register_clock

POOL_SIZE_DEFAULT = 8
POOL_TIMEOUT_S = 15
#: A connection that rested longer is asked whether it still is one before it is used.
REST_US_MAX = 1_000_000


class FifoLock:
    """A fair lock: whoever came first goes first."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._waiting: deque[Lock] = deque()
        self._held = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        turn: Lock | None = None
        with self._mutex:
            if self._held:
                turn = Lock()
                turn.acquire()
                self._waiting.append(turn)
            else:
                self._held = True
        if turn is not None:
            turn.acquire()
        try:
            yield
        finally:
            with self._mutex:
                if self._waiting:
                    self._waiting.popleft().release()
                else:
                    self._held = False


@dataclass(slots=True, repr=False)
class Database:
    """An open database. ``on_hints`` hears what committed transactions hinted at;
    ``caches`` holds what may be kept about this database alone, by the name of who keeps it.
    """

    url: URL
    capabilities: Capabilities
    writer: Engine
    reader: Engine
    clock: Clock
    pid: int
    write_lock: FifoLock | None
    caches: dict[str, Any] = field(default_factory=dict)
    retries: int = 0
    commits: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    on_hints: list[Callable[[dict[str, set[Any]]], None]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Database({self.url.render_as_string(hide_password=True)})"

    @property
    def pool_size(self) -> int:
        size = getattr(self.writer.pool, "size", None)
        return int(size()) if callable(size) else 1

    def close(self) -> None:
        self.writer.dispose()
        if self.reader is not self.writer:
            self.reader.dispose()

    def check_process(self) -> None:
        """Connections must not be shared with a forked child (B129)."""
        if os.getpid() != self.pid:
            self.writer.dispose(close=False)
            if self.reader is not self.writer:
                self.reader.dispose(close=False)
            self.pid = os.getpid()


def open_database(
    url: str, *, pool_size: int = POOL_SIZE_DEFAULT, clock: Clock | None = None
) -> Database:
    """Open by URL: ``sqlite:///file``, ``sqlite://`` (memory), ``postgresql://…``, ``mysql://…``,
    ``mariadb://…``.
    """
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    known_clock = clock or SystemClock()
    if backend == "sqlite":
        return _open_sqlite(parsed, known_clock)
    if backend == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        return _open_server(
            parsed,
            postgresql.CAPABILITIES,
            postgresql.CONNECT_ARGS,
            pool_size=pool_size,
            clock=known_clock,
        )
    if backend in ("mysql", "mariadb"):
        parsed = parsed.set(drivername=f"{backend}+pymysql")
        return _open_server(
            parsed, mysql.MARIADB, mysql.CONNECT_ARGS, pool_size=pool_size, clock=known_clock
        )
    raise WeaveError(
        "UNSUPPORTED_DATABASE", f"{backend} is none of sqlite, postgresql, mysql, mariadb"
    )


def is_a_file(url: str) -> bool:
    """Whether the database is a file of this machine, and no server that may be down for a time."""
    return make_url(url).get_backend_name() == "sqlite"


def _open_sqlite(url: URL, clock: Clock) -> Database:
    _check_version("SQLite", sqlite3.sqlite_version_info, sqlite.CAPABILITIES.version_min)
    memory = url.database in (None, "", ":memory:")
    options: dict[str, Any] = {"connect_args": {"check_same_thread": False}}
    if memory:
        options["poolclass"] = StaticPool
    writer = create_engine(url, **options)
    reader = writer if memory else create_engine(url, **options)
    for engine in {writer, reader}:
        event.listen(engine, "connect", lambda connection, _: sqlite.prepare(connection))
        event.listen(engine, "begin", _begin_sqlite)
    register_clock(sqlite.CAPABILITIES)
    with reached(writer), writer.connect():
        pass
    return Database(
        url=url,
        capabilities=sqlite.CAPABILITIES,
        writer=writer,
        reader=reader,
        clock=clock,
        pid=os.getpid(),
        write_lock=FifoLock(),
    )


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("weave_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")


def _open_server(
    url: URL,
    capabilities: Capabilities,
    connect_args: dict[str, Any],
    *,
    pool_size: int,
    clock: Clock,
) -> Database:
    options: dict[str, Any] = {
        "connect_args": connect_args,
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": POOL_TIMEOUT_S,
        "pool_recycle": 1800,
    }
    writer = create_engine(url, isolation_level="READ COMMITTED", **options)
    reader = create_engine(url, isolation_level="REPEATABLE READ", **options)
    for engine in (writer, reader):
        _ask_the_rested(engine, clock)
    capabilities = _server_capabilities(writer, capabilities)
    register_clock(capabilities)
    return Database(
        url=url,
        capabilities=capabilities,
        writer=writer,
        reader=reader,
        clock=clock,
        pid=os.getpid(),
        write_lock=None,
    )


def _ask_the_rested(engine: Engine, clock: Clock) -> None:
    """A server that was restarted leaves dead connections behind; a ping for each transaction would
    cost as much as a statement of it.
    """

    def checked_in(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["rests_since"] = clock.monotonic_us()

    def checked_out(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        since = record.info.get("rests_since")
        if since is None or clock.monotonic_us() - since < REST_US_MAX:
            return
        try:
            engine.dialect.do_ping(connection)
        except Exception as error:
            raise DisconnectionError("the connection died while it rested") from error

    event.listen(engine, "checkin", checked_in)
    event.listen(engine, "checkout", checked_out)


@contextmanager
def reached(engine: Engine) -> Iterator[None]:
    """A database that doesn't answer is unavailable, told without its password."""
    try:
        yield
    except SQLAlchemyError as error:
        engine.dispose()
        told = engine.url.render_as_string(hide_password=True)
        raise Unavailable(f"{told} does not answer: {classify(error).value}") from None


def _server_capabilities(engine: Engine, capabilities: Capabilities) -> Capabilities:
    with reached(engine), engine.connect() as connection:
        version = connection.dialect.server_version_info or (0,)
        found = capabilities
        if capabilities.name == "mariadb" and not getattr(connection.dialect, "is_mariadb", False):
            found = mysql.MYSQL
        elif capabilities.name == "mariadb":
            version = getattr(connection.dialect, "_mariadb_normalized_version_info", version)
    _check_version(
        found.name, tuple(int(part) for part in version if isinstance(part, int)), found.version_min
    )
    return found


def _check_version(name: str, version: tuple[int, ...], version_min: tuple[int, ...]) -> None:
    if version[: len(version_min)] < version_min:
        needed = ".".join(map(str, version_min))
        told = ".".join(map(str, version))
        raise WeaveError(
            "UNSUPPORTED_DATABASE", f"{name} {told} is too old: {needed} or newer is needed"
        )
