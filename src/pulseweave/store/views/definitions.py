"""Lists of definitions."""

from sqlalchemy import and_, bindparam, or_, select

from pulseweave.store import schema as t
from pulseweave.store.facts.definitions import StoredDefinition, find, from_row
from pulseweave.store.tx import Tx
from pulseweave.store.views.pages import SMALL, Page, cut, decode_cursor

__all__ = ["find", "page"]

_d = t.definitions.c
_PAGE = (
    select(t.definitions)
    .where(
        _d.namespace == bindparam("namespace"),
        or_(
            _d.name > bindparam("after_name"),
            and_(_d.name == bindparam("after_name"), _d.version < bindparam("below_version")),
        ),
    )
    .order_by(_d.name, _d.version.desc())
    .limit(bindparam("limit"))
)


def page(tx: Tx, namespace: str, *, cursor: str | None, limit: int) -> Page[StoredDefinition]:
    """By name, newest version first."""
    name, version = decode_cursor(cursor, "name", SMALL) if cursor else ("", 0)
    params = {
        "namespace": namespace,
        "after_name": name,
        "below_version": version,
        "limit": limit + 1,
    }
    found = [from_row(row) for row in tx.rows(_PAGE, params)]
    return cut(found, limit, lambda d: (d.name, d.version))
