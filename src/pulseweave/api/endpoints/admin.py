"""Queues, applications, tokens, inbox and ``/me``."""

from pulseweave.api.endpoint import PAGED, Call, Endpoint, Reply
from pulseweave.app.encode import at
from pulseweave.app.encode_tasks import inbox_record
from pulseweave.core.identity import Permission
from pulseweave.core.pulse.task import TaskState
from pulseweave.kernel import duration, limits
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import instant_of
from pulseweave.kernel.instant import format_at
from pulseweave.store.facts.identity import Credential
from pulseweave.store.views.pages import LARGE, SMALL, decode_cursor, encode_cursor
from pulseweave.txn.admin.tokens import TokenOrder
from pulseweave.txn.form import check_name
from pulseweave.wire.admin import (
    ApplicationList,
    ApplicationSettings,
    ApplicationView,
    CreateToken,
    InboxPage,
    Me,
    QueueList,
    QueueSettings,
    QueueView,
    TokenList,
    TokenView,
)
from pulseweave.wire.base import Id, Wire


class RequeueInbox(Wire, frozen=True, kw_only=True):
    """Take an instance's quarantined records again (REC-16)."""

    instance_id: Id


class Requeued(Wire, frozen=True, kw_only=True):
    taken: int
    processed: int


def me(call: Call) -> Reply:
    principal = call.principal
    return Reply(
        Me(
            namespace=principal.namespace,
            application=principal.application,
            actor=principal.actor,
            credential_id=principal.credential_id,
            permissions=sorted(principal.permissions),
            all_queues=principal.all_queues,
            queues=sorted(principal.queues),
            expires_at=at(principal.expires_at),
            partitions=call.app.admin.partitions(principal),
        )
    )


def queues(call: Call) -> Reply:
    configured, counts = call.app.admin.queues(call.principal)
    settings = {row.name: row for row in configured}
    numbers: dict[str, dict[str, int]] = {}
    oldest: dict[str, str] = {}
    for row in counts:
        known = numbers.setdefault(row.queue, {})
        name = "held" if row.state == TaskState.QUEUED.value and row.held else row.state.lower()
        known[name] = known.get(name, 0) + row.n
        if row.state == TaskState.QUEUED.value:
            oldest[row.queue] = min(oldest.get(row.queue, row.oldest), row.oldest)
    items = []
    for name in sorted({*settings, *numbers}):
        row, known = settings.get(name), numbers.get(name, {})
        items.append(
            QueueView(
                name=name,
                paused=bool(row.paused) if row is not None else False,
                max_running=row.max_running if row is not None else None,
                max_open=row.max_open if row is not None else None,
                reviews_hold_slots=bool(row.reviews_hold_slots) if row is not None else False,
                queued=known.get("queued", 0),
                held=known.get("held", 0),
                leased=known.get("leased", 0),
                running=known.get("running", 0),
                needs_review=known.get("needs_review", 0),
                oldest_queued_at=format_at(instant_of(oldest[name])) if name in oldest else None,
            )
        )
    return Reply(QueueList(items=items))


def set_queue(call: Call) -> Reply:
    body: QueueSettings = call.body
    name = call.name("queue", chars_max=limits.NAME_CHARS_MAX)
    settings = {
        "paused": int(body.paused),
        "max_running": body.max_running,
        "max_open": body.max_open,
        "reviews_hold_slots": int(body.reviews_hold_slots),
    }
    call.app.admin.set_queue(call.principal, name, settings)
    return Reply(body)


def applications(call: Call) -> Reply:
    rows = call.app.admin.applications(call.principal)
    return Reply(
        ApplicationList(
            items=[
                ApplicationView(
                    name=row.name,
                    max_open_tasks=row.max_open_tasks,
                    max_open_instances=row.max_open_instances,
                )
                for row in rows
            ]
        )
    )


def set_application(call: Call) -> Reply:
    body: ApplicationSettings = call.body
    name = call.name("application", chars_max=limits.APPLICATION_CHARS_MAX)
    settings = {
        "max_open_tasks": body.max_open_tasks,
        "max_open_instances": body.max_open_instances,
    }
    call.app.admin.set_application(call.principal, name, settings)
    return Reply(body)


def tokens(call: Call) -> Reply:
    return Reply(TokenList(items=[_token(c) for c in call.app.admin.tokens(call.principal)]))


def create_token(call: Call) -> Reply:
    body: CreateToken = call.body
    known = {permission.value for permission in Permission}
    unknown = sorted(set(body.permissions) - known)
    if unknown:
        raise reject(
            "INVALID_COMMAND",
            f"unknown: {', '.join(unknown)}; permissions are {', '.join(sorted(known))}",
            pointer="/permissions",
        )
    order = TokenOrder(
        namespace=call.principal.namespace,
        application=check_name(
            body.application, "/application", chars_max=limits.APPLICATION_CHARS_MAX
        ),
        name=check_name(body.name, "/name", chars_max=limits.TOKEN_NAME_CHARS_MAX),
        permissions=frozenset(Permission(name) for name in body.permissions),
        queues=frozenset(
            check_name(queue, f"/queues/{n}", chars_max=limits.NAME_CHARS_MAX)
            for n, queue in enumerate(body.queues)
        ),
        all_queues=body.all_queues,
        lifetime_ms=_lifetime_ms(body.expires_in),
    )
    token, credential = call.app.admin.create_token(call.principal, order)
    return Reply(_token(credential, token), 201)


def _lifetime_ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return duration.parse(text)
    except duration.InvalidDuration as error:
        raise reject("INVALID_COMMAND", str(error), pointer="/expires_in") from None


def revoke_token(call: Call) -> Reply:
    return Reply(_token(call.app.admin.revoke_token(call.principal, call.id("token_id"))))


def _token(credential: Credential, token: str | None = None) -> TokenView:
    principal = credential.principal
    return TokenView(
        id=principal.credential_id,
        name=credential.name,
        application=principal.application,
        permissions=sorted(principal.permissions),
        queues=sorted(principal.queues),
        all_queues=principal.all_queues,
        created_at=format_at(credential.created_at),
        expires_at=at(principal.expires_at),
        revoked_at=at(credential.revoked_at),
        token=token,
    )


def inbox(call: Call) -> Reply:
    partition, seq = decode_cursor(call.cursor, SMALL, LARGE) if call.cursor else (-1, 0)
    rows = call.app.admin.inbox(
        call.principal, after_partition=partition, after_seq=seq, limit=call.limit + 1
    )
    kept = rows[: call.limit]
    more = len(rows) > len(kept)
    cursor = encode_cursor(kept[-1].partition_id, kept[-1].seq) if more else None
    return Reply(InboxPage(items=[inbox_record(row) for row in kept], cursor=cursor))


def requeue(call: Call) -> Reply:
    done = call.app.admin.requeue(call.principal, call.body.instance_id)
    return Reply(Requeued(taken=done.taken, processed=done.processed))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/me",
        summary="Who this token is and what it may do",
        permission=None,
        handler=me,
        answer=Me,
    ),
    Endpoint(
        method="GET",
        path="/queues",
        summary="Queues with their limits and what is open in them",
        permission=Permission.TASKS_READ,
        handler=queues,
        answer=QueueList,
    ),
    Endpoint(
        method="PUT",
        path="/queues/{queue}",
        summary="Limits and pause of a queue; makes it if need be (PUL-9, PUL-12)",
        permission=Permission.ADMIN,
        handler=set_queue,
        body=QueueSettings,
        answer=QueueSettings,
    ),
    Endpoint(
        method="GET",
        path="/applications",
        summary="Applications with their quotas",
        permission=Permission.ADMIN,
        handler=applications,
        answer=ApplicationList,
    ),
    Endpoint(
        method="PUT",
        path="/applications/{application}",
        summary="Quotas of an application; makes it if need be (PUL-12)",
        permission=Permission.ADMIN,
        handler=set_application,
        body=ApplicationSettings,
        answer=ApplicationSettings,
    ),
    Endpoint(
        method="GET",
        path="/tokens",
        summary="Tokens of the namespace; the tokens themselves are never shown again",
        permission=Permission.ADMIN,
        handler=tokens,
        answer=TokenList,
    ),
    Endpoint(
        method="POST",
        path="/tokens",
        summary="Make a token; it is shown this once",
        permission=Permission.ADMIN,
        handler=create_token,
        body=CreateToken,
        answer=TokenView,
        statuses=(201,),
        codes=("QUEUE_ACCESS_DENIED",),
    ),
    Endpoint(
        method="POST",
        path="/tokens/{token_id}/revoke",
        summary="Revoke a token",
        permission=Permission.ADMIN,
        handler=revoke_token,
        answer=TokenView,
        codes=("NOT_FOUND",),
    ),
    Endpoint(
        method="GET",
        path="/inbox",
        summary="Records that are quarantined, or wait behind one that is (WEA-5)",
        permission=Permission.ADMIN,
        handler=inbox,
        answer=InboxPage,
        query=PAGED,
    ),
    Endpoint(
        method="POST",
        path="/inbox/requeue",
        summary="Take an instance's quarantined records again, their cause mended (REC-16)",
        permission=Permission.ADMIN,
        handler=requeue,
        body=RequeueInbox,
        answer=Requeued,
        codes=("INSTANCE_NOT_FOUND",),
    ),
)
