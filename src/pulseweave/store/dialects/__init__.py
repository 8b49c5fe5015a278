"""What the databases differ in, told as capabilities; code asks for these, never for a name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """``now_sql``: a statement for the database's clock in microseconds UTC, at the moment of
    execution.

    None: the clock of this host (an embedded database has no other).

    ``json_keys``, ``json_inserts``: keys, and new rows, travel as one JSON text (store.setwise).
    """

    name: str
    now_sql: str | None
    row_locks: bool
    version_min: tuple[int, ...]
    transactional_ddl: bool
    json_keys: bool = False
    json_inserts: bool = False
