"""SQLite: one writer at a time, begun as such. WAL, and every commit on disk."""

from typing import Any

from pulseweave.store.dialects import Capabilities

CAPABILITIES = Capabilities(
    name="sqlite",
    now_sql=None,
    row_locks=False,
    version_min=(3, 35),
    transactional_ddl=True,
    json_keys=True,
)

_PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA wal_autocheckpoint = 1000",
    "PRAGMA temp_store = MEMORY",
)


def prepare(connection: Any) -> None:
    """A new driver connection: we begin and end transactions ourselves, and nothing is lost on
    power cut.
    """
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()
