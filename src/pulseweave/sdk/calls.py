"""Calls without I/O: what to send, and what the answer means. Both clients drive the same calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from pulseweave.kernel import canonical, limits
from pulseweave.kernel.codes import CODES
from pulseweave.kernel.errors import OutcomeUnknown, Unavailable, WeaveError, kind_of_refusal

M = TypeVar("M")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[M]):
    """One request. ``key``: the idempotency key, kept over every repetition (B093).

    ``repeatable``: sending it twice does no more than once, by its key or by its nature.
    """

    method: str
    path: str
    answer: type[M]
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    repeatable: bool = True
    timeout_s: float = 30.0

    @property
    def url(self) -> str:
        wanted = {name: _text(value) for name, value in self.query.items() if value is not None}
        return f"/v1{self.path}" + (f"?{urlencode(wanted)}" if wanted else "")

    def encoded(self) -> bytes | None:
        """The body; raises ``canonical.InvalidJson`` with the place of what is no JSON."""
        if self.body is None:
            return None
        return canonical.encode(plain(self.body)).encode("ascii")

    def headers(self, token: str | None) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        return headers

    def decode(self, status: int, body: bytes) -> M:
        """The answer, payloads exact; raises what the problem says."""
        if status >= 400:
            raise problem(status, body, self.key)
        value = canonical.parse(body, bytes_max=1 << 30, depth_max=limits.ANSWER_DEPTH_MAX)
        return msgspec.convert(value, self.answer)


def plain(value: Any) -> Any:
    """A message as plain JSON values; fields that are unset are left out."""
    if isinstance(value, msgspec.Struct):
        return {
            name: plain(item)
            for name in value.__struct_fields__
            if (item := getattr(value, name)) is not msgspec.UNSET
        } | _tag(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _tag(value: msgspec.Struct) -> dict[str, Any]:
    config = value.__struct_config__
    return {config.tag_field: config.tag} if config.tag_field else {}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def segment(text: object) -> str:
    """One segment of a path."""
    return quote(str(text), safe="")


def problem(status: int, body: bytes, key: str | None) -> WeaveError:
    """The exception that a problem document stands for."""
    try:
        told = canonical.parse(body, bytes_max=1 << 26)
    except canonical.InvalidJson:
        told = None
    if not isinstance(told, dict) or "code" not in told:
        return Unavailable(f"the server answered {status} without a problem document")
    code, message = str(told["code"]), str(told.get("detail", ""))
    detail = {
        name: value
        for name, value in told.items()
        if name not in ("type", "title", "status", "code", "detail", "rule") and value is not None
    }
    detail |= detail.pop("facts", None) or {}
    if code == "OUTCOME_UNKNOWN":
        return OutcomeUnknown(message, **detail, idempotency_key=key)
    if code == "DATABASE_UNAVAILABLE":
        return Unavailable(message, **detail)
    if code in CODES and status < 500:
        return kind_of_refusal(status)(code, message, rule=told.get("rule"), detail=detail)
    return WeaveError(code, message, rule=told.get("rule"), detail=detail)


def should_repeat(error: WeaveError) -> bool:
    """Answers after which the same call may be sent again: nothing was done, or the same key
    protects.
    """
    return isinstance(error, Unavailable | OutcomeUnknown)
