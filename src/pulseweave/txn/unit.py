"""The unit of work: the only place that begins, commits and rolls back.

Run whole, or not at all. A deadlock victim, a busy file or a stale conditional write runs the
*whole* work again, a bounded number of times. A connection lost before the commit was sent: nothing
was committed (DATABASE_UNAVAILABLE). Lost during the commit: nobody can know (OUTCOME_UNKNOWN), and
the same key is safe to send again.
"""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from pulseweave.kernel import limits
from pulseweave.kernel.entropy import SystemEntropy
from pulseweave.kernel.errors import OutcomeUnknown, Unavailable
from pulseweave.kernel.points import reach
from pulseweave.store.engine import Database
from pulseweave.store.errors import Class, Moved, StaleWrite, classify
from pulseweave.store.tx import Tx

T = TypeVar("T")
log = logging.getLogger("pulseweave.txn")
_entropy = SystemEntropy()


class _CommitLost(Exception):
    """The connection broke while the commit was under way."""


def run(
    database: Database,
    work: Callable[[Tx], T],
    *,
    probe: Callable[[Tx], bool] | None = None,
    attempts: int = limits.TRANSACTION_ATTEMPTS_MAX,
) -> T:
    """Do the work in one transaction and commit it.

    ``probe``: asked first in a read; where it says there is nothing to do, the work runs on the
    same snapshot and writes nothing, so that idle loops never take SQLite's write lock.
    """
    database.check_process()
    if probe is not None and database.write_lock is not None:
        idle = read(database, partial(_look, probe, work))
        if idle is not None:
            return idle.answer
    for attempt in range(attempts):
        try:
            return _once(database, work)
        except _CommitLost as error:
            raise OutcomeUnknown("the connection was lost during the commit") from error
        except (Moved, StaleWrite, SQLAlchemyError) as error:
            _judge(database, error, last=attempt == attempts - 1)
            _pause(database, attempt)
    raise Unavailable("the transaction could not be done")


@dataclass(frozen=True, slots=True)
class _Idle(Generic[T]):
    """The answer of work that found nothing to do."""

    answer: T


def _look(probe: Callable[[Tx], bool], work: Callable[[Tx], T], tx: Tx) -> _Idle[T] | None:
    """None: there is something to do, in a transaction that commits. What a read wrote is gone."""
    if probe(tx):
        return None
    answer = work(tx)
    return _Idle(answer) if tx.counts["rows_written"] == 0 else None


def _judge(database: Database, error: Exception, *, last: bool) -> None:
    """Return when the work may be run again; raise otherwise."""
    kind = Class.RETRY if isinstance(error, Moved | StaleWrite) else classify(error)
    if kind is Class.OTHER or (kind is Class.UNIQUE and last):
        raise error
    if last or kind in (Class.FULL, Class.READ_ONLY, Class.SATURATED):
        log.error("transaction given up: %s (%s)", kind.value, type(error).__name__)
        raise Unavailable(f"the database refused: {kind.value}") from error
    database.retries += 1


def _pause(database: Database, attempt: int) -> None:
    """Growing, jittered; not where a simulator owns the time."""
    if database.clock.__class__.__name__ != "ManualClock":
        Event().wait(min(0.002 * 2**attempt, 0.25) * (0.5 + _entropy.uniform()))


def _once(database: Database, work: Callable[[Tx], T]) -> T:
    turn = database.write_lock() if database.write_lock is not None else nullcontext()
    with turn, database.writer.connect() as plain:
        connection = plain.execution_options(weave_writes=True)
        connection.begin()
        reach("unit.after_begin")
        tx = Tx(connection, database.capabilities, database.clock, database.caches)
        try:
            answer = work(tx)
            reach("unit.after_work")
        except BaseException:
            _roll_back(connection)
            raise
        reach("unit.before_commit")
        _commit(connection)
        database.commits += 1
        database.counts.update(tx.counts)
    reach("unit.after_commit")
    _after(database, tx)
    return answer


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except SQLAlchemyError as error:
        if classify(error) is Class.CONNECTION:
            raise _CommitLost from error
        _roll_back(connection)
        raise


def _roll_back(connection: Connection) -> None:
    """Always explicit: MariaDB keeps the rest of a transaction whose statement timed out."""
    try:
        connection.rollback()
    except SQLAlchemyError:
        connection.invalidate()


def _after(database: Database, tx: Tx) -> None:
    """Hints are hints: what goes wrong with them is logged and nothing else."""
    try:
        tx.run_hooks()
        if tx.hints:
            for listener in database.on_hints:
                listener(tx.hints)
    except Exception:
        log.exception("a wake-up hint failed")


def read(database: Database, work: Callable[[Tx], T], *, attempts: int = 3) -> T:
    """Read from one snapshot; never takes the write lock, always rolls back."""
    database.check_process()
    for attempt in range(attempts):
        try:
            return _read_once(database, work)
        except SQLAlchemyError as error:
            _judge(database, error, last=attempt == attempts - 1)
            _pause(database, attempt)
    raise Unavailable("the read could not be done")


def _read_once(database: Database, work: Callable[[Tx], T]) -> T:
    shared = database.reader is database.writer and database.write_lock is not None
    turn = database.write_lock() if shared and database.write_lock is not None else nullcontext()
    with turn, database.reader.connect() as connection:
        connection.begin()
        try:
            return work(Tx(connection, database.capabilities, database.clock, database.caches))
        finally:
            _roll_back(connection)
