"""Namespaces, applications, queues, tokens, inbox and ``/me``."""

from typing import Annotated

import msgspec

from pulseweave.wire.base import ApplicationName, Id, Instant, Json, QueueName, TokenName, Wire

Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class Me(Wire, frozen=True, kw_only=True):
    """``partitions``: those of the namespace's result stream (PUL-11)."""

    namespace: str
    application: str
    actor: str
    credential_id: Id
    permissions: list[str]
    all_queues: bool
    queues: list[str]
    expires_at: Instant | None
    partitions: list[int]


class QueueSettings(Wire, frozen=True, kw_only=True):
    """Null limits: unlimited. ``reviews_hold_slots``: reviews count towards ``max_running``
    (PUL-9).
    """

    paused: bool = False
    max_running: Limit | None = None
    max_open: Limit | None = None
    reviews_hold_slots: bool = False


class QueueView(QueueSettings, frozen=True, kw_only=True):
    name: str
    queued: int
    held: int
    leased: int
    running: int
    needs_review: int
    oldest_queued_at: Instant | None = None


class QueueList(Wire, frozen=True, kw_only=True):
    items: list[QueueView]


class ApplicationSettings(Wire, frozen=True, kw_only=True):
    max_open_tasks: Limit | None = None
    max_open_instances: Limit | None = None


class ApplicationView(ApplicationSettings, frozen=True, kw_only=True):
    name: str


class ApplicationList(Wire, frozen=True, kw_only=True):
    items: list[ApplicationView]


class NamespaceView(Wire, frozen=True, kw_only=True):
    name: str
    created_at: Instant


class NamespaceList(Wire, frozen=True, kw_only=True):
    items: list[NamespaceView]


class CreateToken(Wire, frozen=True, kw_only=True):
    """``queues`` null with ``all_queues`` false: no queue at all. Deny by default."""

    name: TokenName
    application: ApplicationName = "default"
    permissions: list[str]
    queues: Annotated[list[QueueName], msgspec.Meta(max_length=1000)] = []
    all_queues: bool = False
    expires_in: str | None = None


class TokenView(Wire, frozen=True, kw_only=True):
    id: Id
    name: str
    application: str
    permissions: list[str]
    queues: list[str]
    all_queues: bool
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None
    token: str | None = None  # shown once, in the answer to its creation


class TokenList(Wire, frozen=True, kw_only=True):
    items: list[TokenView]


class InboxRecord(Wire, frozen=True, kw_only=True):
    partition: int
    seq: str
    instance_id: Id
    activation_id: Id
    task_id: Id
    kind: str
    state: str
    disposition: str | None
    cause: str | None
    cause_detail: Json = None
    recorded_at: Instant
    processed_at: Instant | None


class InboxPage(Wire, frozen=True, kw_only=True):
    items: list[InboxRecord]
    cursor: str | None = None


class Problem(Wire, frozen=True, kw_only=True):
    """RFC 9457 ``application/problem+json``."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    rule: str | None = None
    pointer: str | None = None
    needed: str | None = None
    problems: Json = None
    current_revision: str | None = None
    journal_since: Json = None
    facts: Json = None
