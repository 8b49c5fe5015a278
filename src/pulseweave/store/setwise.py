"""Statements over many rows whose text never changes: the rows, or their keys, travel as one JSON
parameter.

A text that stays the same is compiled once here and planned once by the database, however many rows
it is about. MariaDB and MySQL are the exceptions where that costs more than it saves: keys of their
locking reads stay a list, so that the optimiser goes straight to the rows, and their driver joins
the rows of an insert by itself.

Each row of an update names its keys, what is expected of it (``expect_<column>``), the new values.
The statement matches exactly the rows that are as expected; the caller compares the count (a stale
row is never written).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Boolean, ColumnElement, Table, TextClause, bindparam, text
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import Integer, String

from pulseweave.store.guard import Rank

_ENCODER = msgspec.json.Encoder()


class InKeys(ColumnElement[bool]):
    """``column IN (the keys bound as name)``; ``Tx`` binds them as the dialect wants them."""

    __visit_name__ = "in_keys"
    _traverse_internals = [  # noqa: RUF012  # the form that the library prescribes
        ("column", InternalTraversal.dp_clauseelement),
        ("name", InternalTraversal.dp_string),
    ]
    inherit_cache = True
    type = Boolean()

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        self.column = column
        self.name = name

    def self_group(self, against: Any = None) -> "InKeys":
        """As it is: ``= 1`` around it, where booleans are numbers, would hide the index."""
        del against
        return self


def in_keys(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """``column IN (:name …)`` for a list bound later."""
    return InKeys(column, name)


@compiles(InKeys)
def _in_list(element: InKeys, compiler: SQLCompiler, **options: Any) -> str:
    listed = element.column.in_(bindparam(element.name, expanding=True))
    return compiler.process(listed, **options)


@compiles(InKeys, "sqlite")
def _in_json(element: InKeys, compiler: SQLCompiler, **options: Any) -> str:
    column, keys = _sides(element, compiler, options)
    return f"{column} IN (SELECT value FROM json_each({keys}))"


@compiles(InKeys, "postgresql")
def _any_of_json(element: InKeys, compiler: SQLCompiler, **options: Any) -> str:
    column, keys = _sides(element, compiler, options)
    cast = "::bigint" if isinstance(element.column.type, Integer) else ""
    read = f"SELECT k{cast} FROM json_array_elements_text(CAST({keys} AS json)) AS k"
    return f"{column} = ANY(ARRAY({read}))"


def _sides(element: InKeys, compiler: SQLCompiler, options: dict[str, Any]) -> tuple[str, str]:
    column = compiler.process(element.column, **options)
    return column, compiler.process(bindparam(element.name, type_=String()), **options)


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
            found = text(self._build(dialect))
            self._statements[dialect.name] = found
        return found

    def _build(self, dialect: Dialect) -> str:
        return _UPDATES[dialect.name](self, dialect)

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


class SetDelete(SetUpdate):
    """One kind of deletion: the rows that are as expected, and no others."""

    def __init__(self, table: Table, *, keys: Sequence[str], expect: Sequence[str] = ()) -> None:
        super().__init__(table, keys=keys, expect=expect, set=())

    def _build(self, dialect: Dialect) -> str:
        return _DELETES[dialect.name](self, dialect)


class SetRead(SetUpdate):
    """One kind of read by keys of several columns: the rows that have one of the key tuples.

    ``index`` leads from the keys to the rows; ``where`` is a condition of the table's own, in the
    words of the schema.
    """

    def __init__(self, table: Table, *, keys: Sequence[str], index: str, where: str = "") -> None:
        super().__init__(table, keys=keys, set=())
        self.index = index
        self.where = f" AND {where}" if where else ""

    def _build(self, dialect: Dialect) -> str:
        return _READS[dialect.name](self, dialect)


def encode(rows: Sequence[Any]) -> str:
    """Rows or keys as the one parameter that they travel in."""
    return _ENCODER.encode(rows).decode()


def _postgresql_type(table: Table, column: str) -> str:
    return "bigint" if isinstance(table.c[column].type, Integer) else "text"


@cache
def insert_statement(table: Table, columns: tuple[str, ...]) -> TextClause:
    """PostgreSQL's insert of many rows: one parameter instead of a message for every row."""
    return text(_postgresql_insert(table, columns))


# Every name in these statements comes from the schema; values travel in :rows alone.


def _sqlite_rows(update: SetUpdate) -> str:
    picked = ", ".join(
        f"json_extract(value, '$.{field}') AS {field}" for field, _ in update.fields()
    )
    return f"SELECT {picked} FROM json_each(:rows)"


def _sqlite_update(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    assigned = ", ".join(f"{quote(name)} = v.{name}" for name in update.set)
    return (
        f"UPDATE {quote(update.table.name)} SET {assigned} "
        f"FROM ({_sqlite_rows(update)}) AS v WHERE {update.matches(quote, 'IS')}"
    )


def _sqlite_delete(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    table = quote(update.table.name)
    return (
        f"DELETE FROM {table} WHERE rowid IN (SELECT {table}.rowid "
        f"FROM ({_sqlite_rows(update)}) AS v JOIN {table} ON {update.matches(quote, 'IS')})"
    )


def _postgresql_rows(update: SetUpdate) -> str:
    typed = ", ".join(
        f"{field} {_postgresql_type(update.table, column)}" for field, column in update.fields()
    )
    return f"json_to_recordset(CAST(:rows AS json)) AS v({typed})"


def _postgresql_insert(table: Table, columns: tuple[str, ...]) -> str:
    typed = ", ".join(f'"{name}" {_postgresql_type(table, name)}' for name in columns)
    named = ", ".join(f'"{name}"' for name in columns)
    return (
        f'INSERT INTO "{table.name}" ({named}) SELECT {named} '
        f"FROM json_to_recordset(CAST(:rows AS json)) AS v({typed})"
    )


def _postgresql_update(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    assigned = ", ".join(f"{quote(name)} = v.{name}" for name in update.set)
    return (
        f"UPDATE {quote(update.table.name)} SET {assigned} FROM {_postgresql_rows(update)} "
        f"WHERE {update.matches(quote, 'IS NOT DISTINCT FROM')}"
    )


def _postgresql_delete(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    return (
        f"DELETE FROM {quote(update.table.name)} USING {_postgresql_rows(update)} "
        f"WHERE {update.matches(quote, 'IS NOT DISTINCT FROM')}"
    )


def _mysql_join(update: SetUpdate, dialect: Dialect) -> str:
    """The rows come first and lead to the table by its key: what is scanned is locked, and in a
    small table the optimiser would rather scan.
    """
    quote = dialect.identifier_preparer.quote
    typed = ", ".join(
        f"{field} {_mysql_type(update, column)} PATH '$.{field}'"
        for field, column in update.fields()
    )
    return (
        f"JSON_TABLE(:rows, '$[*]' COLUMNS ({typed})) AS v "
        f"STRAIGHT_JOIN {quote(update.table.name)} FORCE INDEX (PRIMARY) "
        f"ON {update.matches(quote, '<=>')}"
    )


def _mysql_update(update: SetUpdate, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    table = quote(update.table.name)
    assigned = ", ".join(f"{table}.{quote(name)} = v.{name}" for name in update.set)
    return f"UPDATE {_mysql_join(update, dialect)} SET {assigned}"


def _mysql_delete(update: SetUpdate, dialect: Dialect) -> str:
    table = dialect.identifier_preparer.quote(update.table.name)
    return f"DELETE {table} FROM {_mysql_join(update, dialect)}"


def _read(
    update: SetUpdate, dialect: Dialect, rows: str, *, join: str = "JOIN", hint: str = ""
) -> str:
    quote = dialect.identifier_preparer.quote
    table = quote(update.table.name)
    where = update.where if isinstance(update, SetRead) else ""
    return (
        f"SELECT {table}.* FROM {rows} {join} {table}{hint} ON {update.matches(quote, '=')}{where}"
    )


def _sqlite_read(update: SetUpdate, dialect: Dialect) -> str:
    return _read(update, dialect, f"({_sqlite_rows(update)}) AS v", join="CROSS JOIN")


def _postgresql_read(update: SetUpdate, dialect: Dialect) -> str:
    return _read(update, dialect, _postgresql_rows(update))


def _mysql_read(update: SetUpdate, dialect: Dialect) -> str:
    typed = ", ".join(
        f"{field} {_mysql_type(update, column)} PATH '$.{field}'"
        for field, column in update.fields()
    )
    index = update.index if isinstance(update, SetRead) else "PRIMARY"
    return _read(
        update,
        dialect,
        f"JSON_TABLE(:rows, '$[*]' COLUMNS ({typed})) AS v",
        join="STRAIGHT_JOIN",
        hint=f" FORCE INDEX ({index})",
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


_Builders = Mapping[str, Callable[[SetUpdate, Dialect], str]]
_UPDATES: _Builders = {
    "sqlite": _sqlite_update,
    "postgresql": _postgresql_update,
    "mysql": _mysql_update,
    "mariadb": _mysql_update,
}
_DELETES: _Builders = {
    "sqlite": _sqlite_delete,
    "postgresql": _postgresql_delete,
    "mysql": _mysql_delete,
    "mariadb": _mysql_delete,
}
_READS: _Builders = {
    "sqlite": _sqlite_read,
    "postgresql": _postgresql_read,
    "mysql": _mysql_read,
    "mariadb": _mysql_read,
}
