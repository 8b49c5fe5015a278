"""SQLite: one writer at a time, begun as such. WAL, and every commit on disk."""

from typing import Any

from pulseweave.store.dialects import Capabilities

CAPABILITIES = Capabilities(
    name="sqlite",
    now_sql=None,
    row_locks=False,
    version_min=(3, 35),
    transactional_ddl=True,
)

BUSY_TIMEOUT_MS = 5_000


def prepare(connection: Any) -> None:
    """A new driver connection: we begin and end transactions ourselves, and nothing is lost on
    power cut.
    """
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = OFF",
        "wal_autocheckpoint = 1000",
        "temp_store = MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
