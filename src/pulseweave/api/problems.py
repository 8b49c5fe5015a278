"""Refusals and faults as RFC 9457 ``application/problem+json``."""

from typing import Any

import msgspec
from starlette.responses import Response

from pulseweave.kernel import canonical
from pulseweave.kernel.codes import CODES
from pulseweave.kernel.errors import WeaveError
from pulseweave.wire.admin import Problem

MEDIA_TYPE = "application/problem+json"

_NAMED = ("pointer", "needed", "problems", "current_revision", "journal_since")


def problem_response(error: WeaveError) -> Response:
    entry = CODES[error.code]
    detail = dict(error.detail)
    named = {name: detail.pop(name) for name in _NAMED if name in detail}
    needed = named.pop("needed", None)
    problem = Problem(
        type=f"/docs/errors/{error.code}",
        title=entry.title,
        status=entry.status,
        code=error.code,
        detail=_safe(error.message),
        rule=error.rule,
        needed=_told(needed, entry.needed),
        problems=_raw(named.pop("problems", None)),
        journal_since=_raw(named.pop("journal_since", None)),
        facts=_raw({name: value for name, value in detail.items() if value is not None} or None),
        **{name: value for name, value in named.items() if value is not None},
    )
    headers = {"Retry-After": "1"} if entry.status in (429, 503) else {}
    if entry.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        msgspec.json.encode(problem),
        status_code=entry.status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def _told(needed: Any, default: str) -> str:
    if needed is None:
        return default
    return needed if isinstance(needed, str) else canonical.encode(needed)


def _raw(value: Any) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(canonical.encode(value).encode("ascii"))


def _safe(text: str) -> str:
    """A message may quote what a client sent; lone surrogates can't travel as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
