"""The base struct and the scalar types that every message uses."""

from typing import Annotated, Any

import msgspec

from pulseweave.kernel import limits


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message: immutable, keyword-only, unknown fields refused."""


#: Any JSON value. On the way out the server puts stored canonical text (``msgspec.Raw``) here.
Json = Any

#: The end of the text: in Python, unlike in JSON Schema, a bare ``$`` lets a line end stand there.
_END = r"$(?!\n)"

#: A 64-bit counter that a client must send back: a decimal string, never a JSON number.
Revision = Annotated[str, msgspec.Meta(pattern=rf"^[1-9][0-9]{{0,18}}{_END}")]

#: An instant: RFC 3339, UTC, microseconds: ``2026-12-01T09:00:00.000000Z``.
Instant = Annotated[
    str, msgspec.Meta(pattern=rf"^\d{{4,}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{6}}Z{_END}")
]

Id = Annotated[
    str, msgspec.Meta(pattern=rf"^[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_END}")
]

#: What names a queue, an application and so on: as long as their columns.
SignalName = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
QueueName = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
HandlerName = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.HANDLER_CHARS_MAX)]
ApplicationName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=limits.APPLICATION_CHARS_MAX)
]
DefinitionName = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
TokenName = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.TOKEN_NAME_CHARS_MAX)]

#: A definition's version: a number of four bytes in every database.
Version = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.REASON_CHARS_MAX)]
EvidenceRef = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.EVIDENCE_REF_CHARS_MAX)]
