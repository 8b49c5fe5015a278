"""What an endpoint is: one row of the table, and what its function is called with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pulseweave.app.facade import Facade
from pulseweave.core.identity import Permission, Principal
from pulseweave.kernel import limits, texts
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import is_id
from pulseweave.wire.base import Wire


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

    def whole(self, name: str) -> int:
        """A whole number in the path."""
        text = self.path[name]
        if not text.isdecimal() or not text.isascii() or len(text) > 9:
            raise reject("INVALID_COMMAND", f"{name} is a whole number, not {text!r}")
        return int(text)

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
        text = self.query.get(name)
        if text is None:
            return default
        if (
            text.isdecimal()
            and text.isascii()
            and len(text) <= 19
            and smallest <= int(text) <= largest
        ):
            return int(text)
        raise reject(
            "INVALID_COMMAND",
            f"{name} is a whole number from {smallest} to {largest}",
            pointer=f"/{name}",
        )

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise reject("INVALID_COMMAND", f"{name} is true or false", pointer=f"/{name}")
        return text == "true"

    @property
    def cursor(self) -> str | None:
        return self.query.get("cursor")


@dataclass(frozen=True, slots=True)
class Reply:
    """``body``: a wire message."""

    body: Wire
    status: int = 200


Handler = Callable[[Call], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One row. ``query``: parameter → what it means. ``keyed``: needs an Idempotency-Key."""

    method: str
    path: str
    summary: str
    permission: Permission | None
    handler: Handler
    answer: type[Wire]
    body: type[msgspec.Struct] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = False
    codes: tuple[str, ...] = ()
    bytes_max: int = limits.PAYLOAD_BYTES_MAX
    statuses: tuple[int, ...] = (200,)


PAGED = {
    "limit": f"rows of a page, at most {limits.PAGE_ROWS_MAX}",
    "cursor": "where the page begins, as the page before it said",
}
