"""What workers say and hear. One ``turn`` is one request and one transaction (PUL-2,
PUL-4, PUL-6).
"""

from typing import Annotated, Literal

import msgspec

from pulseweave.wire.base import Id, Instant, Json, QueueName, Revision, Wire

Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class Succeeded(Wire, tag="SUCCEEDED", tag_field="outcome", frozen=True, kw_only=True):
    """The handler's result. ``result`` may be any JSON value, null included."""

    task_id: Id
    token: str
    result: Json


class Failed(Wire, tag="FAILED", tag_field="outcome", frozen=True, kw_only=True):
    """A failure that the handler *knows*: the effect did not happen. ``retryable`` false: final."""

    task_id: Id
    token: str
    code: str
    message: str = ""
    details: Json = None
    retryable: bool = True


class Unknown(Wire, tag="UNKNOWN", tag_field="outcome", frozen=True, kw_only=True):
    """The outcome can't be known. ``ended``: whether the execution itself is over."""

    task_id: Id
    token: str
    detail: str = ""
    ended: bool = False


class Cancelled(Wire, tag="CANCELLED", tag_field="outcome", frozen=True, kw_only=True):
    """Cancel was asked, nothing took effect and nothing runs any more."""

    task_id: Id
    token: str


Report = Succeeded | Failed | Unknown | Cancelled


class Hold(Wire, frozen=True, kw_only=True):
    """A lease, named: to start it, renew it or give it back."""

    task_id: Id
    token: str


class Claim(Wire, frozen=True, kw_only=True):
    """Ask for at most ``limit`` tasks: never more than the caller can start at once."""

    queues: Annotated[list[QueueName], msgspec.Meta(min_length=1, max_length=64)]
    limit: Count


class TurnRequest(Wire, frozen=True, kw_only=True):
    """``worker`` is a label for people; authority lies in the tokens alone (PUL-2).

    ``wait_ms``: how long the server may hold the answer while there is nothing to claim.
    """

    worker: str
    reports: list[Report] = []
    releases: list[Hold] = []
    heartbeats: list[Hold] = []
    starts: list[Hold] = []
    claim: Claim | None = None
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 0


class Answer(Wire, frozen=True, kw_only=True):
    """Accepted, or refused with a code. ``state``: the task's state afterwards, where it is the
    caller's business.
    """

    task_id: Id
    accepted: bool
    state: str | None = None
    code: str | None = None
    message: str | None = None
    late_report_id: str | None = None


class HeartbeatAnswer(Wire, frozen=True, kw_only=True):
    """``cancel``: stop if you can. ``lease_ms`` null: not renewed."""

    task_id: Id
    accepted: bool
    cancel: bool = False
    lease_ms: int | None = None
    code: str | None = None
    message: str | None = None


class StartAnswer(Wire, frozen=True, kw_only=True):
    """``lease_ms``: how long the hold lasts from now without a heartbeat; ``stop_in_ms``: when
    cancel will be asked.
    """

    task_id: Id
    accepted: bool
    attempt: int | None = None
    lease_ms: int | None = None
    stop_in_ms: int | None = None
    code: str | None = None
    message: str | None = None


class ClaimedTask(Wire, frozen=True, kw_only=True):
    """A leased task. It must be started within ``start_within_ms`` or it goes back."""

    task_id: Id
    token: str
    queue: str
    handler: str
    input: Json
    attempt: int
    max_attempts: int
    effect: Literal["at_most_once", "idempotent", "none"]
    start_within_ms: int
    lease_ms: int
    deadline_at: Instant | None = None
    start_by: Instant | None = None
    instance_id: Id | None = None
    business_key: Json = None
    revision: Revision


class TurnResponse(Wire, frozen=True, kw_only=True):
    """One answer for each entry of the request, in its order; then what was claimed."""

    reports: list[Answer] = []
    releases: list[Answer] = []
    heartbeats: list[HeartbeatAnswer] = []
    starts: list[StartAnswer] = []
    claimed: list[ClaimedTask] = []
