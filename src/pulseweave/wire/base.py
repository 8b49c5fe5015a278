"""The base struct and the scalar types that every message uses."""

from typing import Annotated, Any

import msgspec

from pulseweave.kernel import limits


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message: immutable, keyword-only, unknown fields refused."""


#: Any JSON value. On the way out the server puts stored canonical text (``msgspec.Raw``) here.
Json = Any

#: A 64-bit counter that a client must send back: a decimal string, never a JSON number.
Revision = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,18}$")]

#: An instant: RFC 3339, UTC, microseconds: ``2026-12-01T09:00:00.000000Z``.
Instant = Annotated[str, msgspec.Meta(pattern=r"^\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]

Id = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
]

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.REASON_CHARS_MAX)]
EvidenceRef = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.EVIDENCE_REF_CHARS_MAX)]
