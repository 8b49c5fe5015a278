"""Column types that mean the same on every database: byte order, exact integers, ASCII payload
text.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    SmallInteger,
    String,
    Text,
    literal_column,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

_MYSQL = ("mysql", "mariadb")


def _text(length: int, charset: str) -> TypeEngine[str]:
    mysql_text = mysql.VARCHAR(length, charset=charset, collation=f"{charset}_bin")
    return (
        String(length)
        .with_variant(String(length, collation="C"), "postgresql")
        .with_variant(mysql_text, *_MYSQL)
    )


#: UUID text.
Id: TypeEngine[str] = _text(36, "ascii")


def Key(length: int) -> TypeEngine[str]:  # noqa: N802
    """A name or key: compared byte by byte, never folded. Free of NUL by the checks at the door."""
    return _text(length, "utf8mb4")


#: Microseconds, sequence numbers and other 64-bit integers.
Micros: TypeEngine[int] = BigInteger()


def flag(name: str, *, nullable: bool = False) -> tuple[Column[Any], CheckConstraint]:
    """A column of 0 or 1, and the CHECK that allows nothing else."""
    column: Column[Any] = Column(name, SmallInteger(), nullable=nullable)
    known = column.in_([literal_column("0"), literal_column("1")])
    return column, CheckConstraint(known, name=f"{name}_is_flag")


def one_of(column: Column[Any], values: Iterable[StrEnum]) -> ColumnElement[bool]:
    """Membership in a closed set, as literals: the statement's text stays the same and partial
    indexes are recognised.
    """
    return column.in_([literal_column(f"'{value.value}'") for value in values])


#: Canonical JSON text; always ASCII.
Payload: TypeEngine[str] = (
    Text()
    .with_variant(Text(collation="C"), "postgresql")
    .with_variant(mysql.LONGTEXT(charset="ascii", collation="ascii_bin"), *_MYSQL)
)


def checked(
    name: str, values: type[StrEnum], *, nullable: bool = False
) -> tuple[Column[Any], CheckConstraint]:
    """A column of a closed vocabulary, and the CHECK that closes it in the database too."""
    known = ", ".join(f"'{value.value}'" for value in values)
    length = max(len(value.value) for value in values)
    column: Column[Any] = Column(name, _text(max(length, 16), "ascii"), nullable=nullable)
    return column, CheckConstraint(f"{name} IN ({known})", name=f"{name}_known")
