"""One open transaction: statements go through here, so that they are counted, guarded and checked.

``now`` is the database's clock, read after the transaction's last row lock (PUL-15): taking a lock
makes it stale, and once the result partitions are locked it may not be read any more.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Executable, Row, Table, TextClause, insert, text

from pulseweave.kernel.check import invariant
from pulseweave.kernel.clock import Clock
from pulseweave.store import schema as t
from pulseweave.store.dialects import Capabilities
from pulseweave.store.errors import StaleWrite
from pulseweave.store.guard import Guard, Rank
from pulseweave.store.setwise import SetRead, SetUpdate, encode, insert_statement

#: Tables whose rows are locked, with the column that the lock's key is.
_RANKED: Mapping[str, tuple[Rank, str]] = {
    t.instances.name: (Rank.INSTANCE, "id"),
    t.gates.name: (Rank.GATE, "instance_id"),
    t.tasks.name: (Rank.TASK, "id"),
}


class Tx:
    """Handed to the work of ``txn.unit.run``; never kept beyond it."""

    def __init__(
        self,
        conn: Connection,
        capabilities: Capabilities,
        clock: Clock,
        caches: dict[str, Any],
    ) -> None:
        self.conn = conn
        self.caches = caches
        self.capabilities = capabilities
        self.guard = Guard()
        self.counts: Counter[str] = Counter()
        self.hints: dict[str, set[Any]] = {}
        self._clock = clock
        self._now: int | None = None
        self._hooks: list[Callable[[], None]] = []

    # --- locks and time ------------------------------------------------------------------------

    def take(self, rank: Rank, keys: Sequence[Any], *, skips_locked: bool = False) -> None:
        """Note locks (store.locks only); the clock is read again after them."""
        self.guard.take(rank, keys, skips_locked=skips_locked)
        if rank is not Rank.PARTITION:
            self._now = None

    def now(self) -> int:
        """Microseconds UTC by the database's clock, after the last row lock."""
        if self._now is None:
            invariant(
                self.guard.rank is not Rank.PARTITION,
                "the time is read before the stream is locked",
            )
            self._now = self.clock_now()
        return self._now

    def clock_now(self) -> int:
        """The database's clock as it is; for reads that look for work and decide nothing."""
        if self.capabilities.now_sql is None:
            return self._clock.now()
        self.counts["statements"] += 1
        return int(self.conn.execute(_NOW[self.capabilities.name]).scalar_one())

    # --- statements ----------------------------------------------------------------------------

    def rows(self, statement: Executable, params: Mapping[str, Any]) -> Sequence[Row[Any]]:
        self.counts["statements"] += 1
        return self.conn.execute(statement, self._bound(params)).all()

    def rows_of(self, read: SetRead, keys: Sequence[Mapping[str, Any]]) -> Sequence[Row[Any]]:
        """The rows that have one of these key tuples."""
        if not keys:
            return []
        self.counts["statements"] += 1
        statement = read.statement(self.conn.dialect)
        return self.conn.execute(statement, {"rows": encode(keys)}).all()

    def _bound(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Keys travel as one JSON text where the dialect reads them so (setwise.in_keys)."""
        if not self.capabilities.json_keys:
            return dict(params)
        return {
            name: encode(value) if isinstance(value, list) else value
            for name, value in params.items()
        }

    def execute(self, statement: Executable, params: Mapping[str, Any]) -> int:
        """Write; the number of rows that matched."""
        self.counts["statements"] += 1
        count = self.conn.execute(statement, self._bound(params)).rowcount
        self.counts["rows_written"] += max(0, count)
        return count

    def expect(
        self, statement: Executable, params: Mapping[str, Any], *, rows: int, what: str
    ) -> None:
        """Write exactly ``rows`` rows; anything else rolls back."""
        got = self.execute(statement, params)
        if got != rows:
            raise StaleWrite(what, rows, got)

    def insert_many(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert all rows in one statement; none is fine."""
        if not rows:
            return
        ranked = _RANKED.get(table.name)
        if ranked is not None:
            rank, column = ranked
            self.guard.made(rank, [row[column] for row in rows])
        self.counts["statements"] += 1
        self.counts["rows_written"] += len(rows)
        self.counts[f"insert:{table.name}"] += len(rows)
        if self.capabilities.json_inserts:
            statement = insert_statement(table, tuple(rows[0]))
            self.conn.execute(statement, {"rows": encode(rows)})
        else:
            self.conn.execute(insert(table), [dict(row) for row in rows])

    def update_many(self, update: SetUpdate, rows: Sequence[Mapping[str, Any]]) -> None:
        """Update all rows in one statement; every one must be as expected, or nothing is
        written.
        """
        if not rows:
            return
        ranked = _RANKED.get(update.table.name)
        if ranked is not None:
            rank, column = ranked
            self.guard.check_write(rank, [row[column] for row in rows])
        self.counts["statements"] += 1
        self.counts["rows_written"] += len(rows)
        self.counts[f"update:{update.table.name}"] += len(rows)
        statement = update.statement(self.conn.dialect)
        got = self.conn.execute(statement, {"rows": encode(rows)}).rowcount
        if got != len(rows):
            raise StaleWrite(update.table.name, len(rows), got)

    # --- after the commit ----------------------------------------------------------------------

    def hint(self, kind: str, value: Any) -> None:
        """Something that others may want to be woken for, told after the commit."""
        self.hints.setdefault(kind, set()).add(value)

    def after_commit(self, hook: Callable[[], None]) -> None:
        self._hooks.append(hook)

    def run_hooks(self) -> None:
        for hook in self._hooks:
            hook()


_NOW: dict[str, TextClause] = {}


def register_clock(capabilities: Capabilities) -> None:
    """Prepare the statement that reads a database's clock."""
    if capabilities.now_sql is not None:
        _NOW[capabilities.name] = text(capabilities.now_sql)
