"""What an endpoint is: one row of the table, and what its function is called with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pulseweave.app.facade import Facade
from pulseweave.core.identity import Permission, Principal
from pulseweave.kernel import limits, texts
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import is_id
from pulseweave.txn.form import check_name
from pulseweave.wire.base import Wire

#: The largest number that a version or the like can have: four bytes in every database.
WHOLE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One authenticated request. ``body`` has the endpoint's type; ``query`` and ``path`` are
    texts.
    """

    app: Facade
    principal: Principal
    path: Mapping[str, str]
    query: Mapping[str, str]
    key: str | None
    body: Any

    def id(self, name: str) -> str:
        """An id or name in the path; what can't be an id names nothing that there is."""
        text = self.path[name]
        if name.endswith("_id") and not is_id(text):
            code = {"instance_id": "INSTANCE_NOT_FOUND", "task_id": "TASK_NOT_FOUND"}.get(name)
            raise reject(code or "NOT_FOUND", f"there is no {name.removesuffix('_id')} {text[:80]}")
        return text

    def name(self, what: str, *, chars_max: int) -> str:
        """A name in the path that may come into being."""
        return check_name(self.path[what], f"/{what}", chars_max=chars_max)

    def whole(self, name: str) -> int:
        """A whole number in the path, from 1."""
        number = _whole(self.path[name], 1, WHOLE_MAX)
        if number is None:
            raise _no_number(name, 1, WHOLE_MAX)
        return number

    @property
    def idempotency_key(self) -> str:
        """The Idempotency-Key header, which management commands must have (REC-2)."""
        if self.key is None:
            raise reject(
                "INVALID_COMMAND",
                "this command needs the header Idempotency-Key",
                rule="REC-2",
                pointer="/idempotency_key",
            )
        complaint = texts.complain_of_key(self.key)
        if complaint is not None:
            raise reject("INVALID_COMMAND", complaint, rule="REC-2", pointer="/idempotency_key")
        return self.key

    @property
    def limit(self) -> int:
        """Rows of a page."""
        return self.number("limit", limits.PAGE_ROWS_DEFAULT, 1, limits.PAGE_ROWS_MAX)

    def number(self, name: str, default: int, smallest: int, largest: int) -> int:
        """A whole number in the query."""
        text = self.query.get(name)
        found = default if text is None else _whole(text, smallest, largest)
        if found is None:
            raise _no_number(name, smallest, largest)
        return found

    def filter(self, name: str, *, chars_max: int) -> str | None:
        """A name in the query to look for."""
        text = self.query.get(name)
        return None if text is None else check_name(text, f"/{name}", chars_max=chars_max)

    def id_filter(self, name: str) -> str | None:
        """An id in the query to look for."""
        text = self.query.get(name)
        if text is None or is_id(text):
            return text
        raise reject("INVALID_COMMAND", f"{name} is an id", pointer=f"/{name}")

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise reject("INVALID_COMMAND", f"{name} is true or false", pointer=f"/{name}")
        return text == "true"

    @property
    def cursor(self) -> str | None:
        return self.query.get("cursor")


def _whole(text: str, smallest: int, largest: int) -> int | None:
    if not (text.isdecimal() and text.isascii() and len(text) <= 19):
        return None
    return int(text) if smallest <= int(text) <= largest else None


def _no_number(name: str, smallest: int, largest: int) -> Rejected:
    told = f"{name} is a whole number from {smallest} to {largest}"
    return reject("INVALID_COMMAND", told, pointer=f"/{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parameter of the query: what it means, and its JSON Schema."""

    meaning: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """``body``: a wire message."""

    body: Wire
    status: int = 200


Handler = Callable[[Call], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One row. ``query``: the parameters that it takes. ``keyed``: needs an Idempotency-Key."""

    method: str
    path: str
    summary: str
    permission: Permission | None
    handler: Handler
    answer: type[Wire]
    body: type[msgspec.Struct] | None = None
    query: Mapping[str, Query] = field(default_factory=dict)
    keyed: bool = False
    codes: tuple[str, ...] = ()
    bytes_max: int = limits.PAYLOAD_BYTES_MAX
    statuses: tuple[int, ...] = (200,)


_FLAG = {"type": "string", "enum": ["true", "false"]}


def flag(meaning: str) -> Query:
    """A parameter that is true or false."""
    return Query(meaning=meaning, schema=_FLAG)


def whole(meaning: str, smallest: int, largest: int, *, required: bool = False) -> Query:
    """A parameter that is a whole number."""
    schema = {"type": "integer", "minimum": smallest, "maximum": largest}
    return Query(meaning=meaning, schema=schema, required=required)


def named(meaning: str, chars_max: int) -> Query:
    """A parameter that is a name."""
    return Query(meaning=meaning, schema={"type": "string", "maxLength": chars_max})


LIMITED = {"limit": whole("rows of a page", 1, limits.PAGE_ROWS_MAX)}
PAGED = {**LIMITED, "cursor": Query(meaning="where the page begins, as the page before it said")}
