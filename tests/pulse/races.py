"""Transactions stopped just before their commit, with all their locks and writes."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, current_thread
from time import monotonic
from typing import Generic, TypeVar

from sqlalchemy import text

from pulseweave.kernel import points
from pulseweave.store.engine import Database

Answer = TypeVar("Answer")

SECONDS_MAX = 30

_WAITING = {
    "postgresql": text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ),
    "mariadb": text(
        "SELECT variable_value FROM information_schema.global_status "
        "WHERE variable_name = 'Innodb_row_lock_current_waits'"
    ),
}
_DEADLOCKS = {
    "postgresql": text("SELECT sum(deadlocks) FROM pg_stat_database"),
    "mariadb": text(
        "SELECT variable_value FROM information_schema.global_status "
        "WHERE variable_name = 'Innodb_deadlocks'"
    ),
}


def waiting(database: Database) -> int:
    """Transactions that wait for a row lock at this moment."""
    with database.reader.connect() as connection:
        return int(connection.execute(_WAITING[database.capabilities.name]).scalar_one())


def deadlocks(database: Database) -> int:
    """Deadlocks that the server has seen since it started; SQLite has one writer, hence none."""
    if database.capabilities.name not in _DEADLOCKS:
        return 0
    with database.reader.connect() as connection:
        return int(connection.execute(_DEADLOCKS[database.capabilities.name]).scalar_one())


class Call(Generic[Answer]):
    """A call on a thread of its own."""

    def __init__(self, future: "Future[Answer]", held: Event, go: Event) -> None:
        self._future = future
        self._held = held
        self._go = go

    def is_held(self) -> None:
        """Return when the call stands before its commit."""
        if not self._held.wait(SECONDS_MAX):
            raise TimeoutError("the call did not come to its commit")

    def waits(self, database: Database) -> None:
        """Return when some transaction waits for a lock, and this call is not done."""
        limit = monotonic() + SECONDS_MAX
        while not waiting(database):
            if self._future.done() or monotonic() > limit:
                raise AssertionError("the call waited for nobody")
        assert not self._future.done()

    def go(self) -> None:
        """Let it commit."""
        self._go.set()

    @property
    def done(self) -> bool:
        return self._future.done()

    def result(self) -> Answer:
        self._go.set()
        return self._future.result(SECONDS_MAX)


class Race:
    """Starts calls; those started with ``hold`` stop at their commit."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._held: dict[str, tuple[Event, Event]] = {}
        self._events: list[Event] = []

    def run(self, call: Callable[[], Answer], *, hold: bool = False) -> Call[Answer]:
        held, go = Event(), Event()
        self._events.append(go)

        def work() -> Answer:
            if hold:
                self._held[current_thread().name] = (held, go)
            return call()

        return Call(self._pool.submit(work), held, go)

    def hold(self, call: Callable[[], Answer]) -> Call[Answer]:
        """Run a call up to its commit; returns when it is there."""
        started = self.run(call, hold=True)
        started.is_held()
        return started

    def reached(self, name: str) -> None:
        if name != "unit.before_commit":
            return
        mine = self._held.pop(current_thread().name, None)
        if mine is not None:
            held, go = mine
            held.set()
            go.wait(SECONDS_MAX)

    def release_all(self) -> None:
        for event in self._events:
            event.set()


@contextmanager
def race() -> Iterator[Race]:
    """Calls that were left standing are let go at the end."""
    with ThreadPoolExecutor(8) as pool:
        made = Race(pool)
        points.install(made.reached)
        try:
            yield made
        finally:
            made.release_all()
            points.install(None)
