"""What a database error means for us, by SQLSTATE, errno or SQLite's error name; never
by its text.
"""

from enum import StrEnum

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout


class Class(StrEnum):
    RETRY = "RETRY"  # deadlock victim, serialisation, lock timeout, busy: run it all again
    UNIQUE = "UNIQUE"
    CONNECTION = "CONNECTION"  # the connection is gone
    FULL = "FULL"  # no space
    SATURATED = "SATURATED"  # no connection became free in time
    READ_ONLY = "READ_ONLY"
    OTHER = "OTHER"


_BY_SQLSTATE = {
    "40001": Class.RETRY,
    "40P01": Class.RETRY,
    "55P03": Class.RETRY,
    "23505": Class.UNIQUE,
    "53100": Class.FULL,
    "25006": Class.READ_ONLY,
    "57P01": Class.CONNECTION,
    "57P02": Class.CONNECTION,
    "57P03": Class.CONNECTION,
    "53300": Class.CONNECTION,
}
_BY_ERRNO = {
    1205: Class.RETRY,
    1213: Class.RETRY,
    1020: Class.RETRY,
    1062: Class.UNIQUE,
    1021: Class.FULL,
    1114: Class.FULL,
    1290: Class.READ_ONLY,
    1836: Class.READ_ONLY,
    1040: Class.CONNECTION,
    1053: Class.CONNECTION,
    1927: Class.CONNECTION,
    2002: Class.CONNECTION,
    2003: Class.CONNECTION,
    2006: Class.CONNECTION,
    2013: Class.CONNECTION,
    2014: Class.CONNECTION,
    2055: Class.CONNECTION,
}
_BY_NAME = {
    "SQLITE_CONSTRAINT_PRIMARYKEY": Class.UNIQUE,
    "SQLITE_CONSTRAINT_UNIQUE": Class.UNIQUE,
    "SQLITE_FULL": Class.FULL,
    "SQLITE_READONLY": Class.READ_ONLY,
    "SQLITE_CANTOPEN": Class.CONNECTION,
}


class StaleWrite(Exception):
    """A conditional write met other rows than it was decided on. The transaction is run again,
    bounded.
    """

    def __init__(self, table: str, expected: int, got: int) -> None:
        super().__init__(f"{table}: {got} of {expected} rows matched")


class Moved(Exception):
    """Facts moved while locks were awaited; run the transaction again, bounded."""


def classify(error: BaseException) -> Class:
    """The consequence of an error raised by SQLAlchemy or a driver."""
    if isinstance(error, PoolTimeout):
        return Class.SATURATED
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return Class.CONNECTION
        return _classify_driver(error.orig)
    return _classify_driver(error)


def _classify_driver(error: BaseException | None) -> Class:
    if error is None:
        return Class.OTHER
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        if state in _BY_SQLSTATE:
            return _BY_SQLSTATE[state]
        return Class.CONNECTION if state.startswith("08") else Class.OTHER
    name = getattr(error, "sqlite_errorname", None)
    if isinstance(name, str):
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return Class.RETRY
        return _BY_NAME.get(name, Class.OTHER)
    if error.args and isinstance(error.args[0], int):
        return _BY_ERRNO.get(error.args[0], Class.OTHER)
    if type(error).__module__.startswith("psycopg") and type(error).__name__ == "OperationalError":
        return Class.CONNECTION  # psycopg gives no SQLSTATE where no server answered
    return Class.OTHER
