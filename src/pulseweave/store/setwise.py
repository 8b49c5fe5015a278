"""Updates of many rows in one statement whose text never changes: the rows travel as one JSON
parameter.

Each row names its keys, what is expected of it (``expect_<column>``) and the new values. The
statement matches exactly the rows that are as expected; the caller compares the count (a stale row
is never written).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Table, TextClause, bindparam, text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import Integer, String

from pulseweave.store.guard import Rank


def in_keys(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """``column IN (:name …)`` for a list bound later."""
    values: BindParameter[Any] = bindparam(name, expanding=True)
    return column.in_(values)


class SetUpdate:
    """One kind of update. ``rank``: rows must be held at this rank by their first key."""

    def __init__(
        self,
        table: Table,
        *,
        keys: Sequence[str],
        expect: Sequence[str] = (),
        set: Sequence[str],  # noqa: A002
        rank: Rank | None = None,
    ) -> None:
        self.table = table
        self.keys = tuple(keys)
        self.expect = tuple(expect)
        self.set = tuple(set)
        self.rank = rank
        self._statements: dict[str, TextClause] = {}

    def statement(self, dialect: Dialect) -> TextClause:
        found = self._statements.get(dialect.name)
        if found is None:
            found = text(_BUILDERS[dialect.name](self, dialect))
            self._statements[dialect.name] = found
        return found

    def fields(self) -> list[tuple[str, str]]:
        """(field in the JSON rows, column) in statement order."""
        return [
            *((name, name) for name in self.keys),
            *((f"expect_{name}", name) for name in self.expect),
            *((name, name) for name in self.set if name not in self.keys),
        ]

    def matches(self, quote: Any, same: str) -> str:
        """The WHERE: keys equal, expected columns as expected; nullable ones by
        null-safe ``same``.
        """
        table = quote(self.table.name)
        terms = [f"{table}.{quote(name)} = v.{name}" for name in self.keys]
        for name in self.expect:
            equals = same if self.table.c[name].nullable else "="
            terms.append(f"{table}.{quote(name)} {equals} v.expect_{name}")
        return " AND ".join(terms)


def encode_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(rows, ensure_ascii=True, separators=(",", ":"))


def _is_integer(update: SetUpdate, column: str) -> bool:
    return isinstance(update.table.c[column].type, Integer)


# Every name in these statements comes from the schema; values travel in :rows alone.


def _sqlite(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    table = quote(update.table.name)
    assigned = ", ".join(f"{quote(name)} = v.{name}" for name in update.set)
    picked = ", ".join(
        f"json_extract(value, '$.{field}') AS {field}" for field, _ in update.fields()
    )
    return (
        f"UPDATE {table} SET {assigned} FROM (SELECT {picked} FROM json_each(:rows)) AS v "
        f"WHERE {update.matches(quote, 'IS')}"
    )


def _postgresql(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    table = quote(update.table.name)
    assigned = ", ".join(f"{quote(name)} = v.{name}" for name in update.set)
    typed = ", ".join(
        f"{field} {'bigint' if _is_integer(update, column) else 'text'}"
        for field, column in update.fields()
    )
    return (
        f"UPDATE {table} SET {assigned} FROM json_to_recordset(CAST(:rows AS json)) AS v({typed}) "
        f"WHERE {update.matches(quote, 'IS NOT DISTINCT FROM')}"
    )


def _mysql(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    table = quote(update.table.name)
    assigned = ", ".join(f"{table}.{quote(name)} = v.{name}" for name in update.set)
    typed = ", ".join(
        f"{field} {_mysql_type(update, column)} PATH '$.{field}'"
        for field, column in update.fields()
    )
    # The rows come first and lead to the table by its key: what is scanned is locked, and in a
    # small
    # table the optimiser would rather scan.
    return (
        f"UPDATE JSON_TABLE(:rows, '$[*]' COLUMNS ({typed})) AS v "
        f"STRAIGHT_JOIN {table} FORCE INDEX (PRIMARY) "
        f"ON {update.matches(quote, '<=>')} SET {assigned}"
    )


def _mysql_type(update: SetUpdate, column: str) -> str:
    kind = update.table.c[column].type
    if isinstance(kind, Integer):
        return "BIGINT"
    length = kind.length if isinstance(kind, String) else None
    if length is None:
        return "LONGTEXT CHARACTER SET ascii COLLATE ascii_bin"
    charset = "ascii" if length == 36 else "utf8mb4"
    return f"VARCHAR({length}) CHARACTER SET {charset} COLLATE {charset}_bin"


_BUILDERS = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
}
