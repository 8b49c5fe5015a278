"""``weave token …``, ``queues``, ``inbox …``."""

from typing import Annotated

from cyclopts import App, Parameter

from pulseweave.cli import output
from pulseweave.cli.options import DEFAULT_DATABASE, DatabaseUrl, Json, Token, Url, client
from pulseweave.core.identity import Permission
from pulseweave.kernel import duration
from pulseweave.kernel.clock import SystemClock
from pulseweave.kernel.entropy import SystemEntropy
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import IdSource
from pulseweave.sdk.calls import Call
from pulseweave.store.engine import open_database
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token
from pulseweave.wire.base import Wire

token_app = App(name="token", help="Tokens: shown once, stored as a hash, expiring, revocable.")
inbox_app = App(name="inbox", help="Records that are set aside, and taking them again.")

_ALL = tuple(permission.value for permission in Permission)


@token_app.command
def create(
    name: str,
    *,
    permission: Annotated[list[str], Parameter(help="repeatable; `all` for every one")],
    queue: Annotated[list[str] | None, Parameter(help="repeatable; `*` for all queues")] = None,
    namespace: str = "default",
    application: str = "default",
    expires_in: str | None = None,
    database: DatabaseUrl = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Make a token directly in the database: the operator's way to the first one."""
    wanted = set(_ALL) if "all" in permission else set(permission)
    unknown = sorted(wanted - set(_ALL))
    if unknown:
        raise reject(
            "INVALID_COMMAND", f"unknown {', '.join(unknown)}; there are {', '.join(_ALL)}"
        )
    entropy = SystemEntropy()
    opened = open_database(database)
    create_namespace(opened, namespace)
    order = TokenOrder(
        namespace=namespace,
        application=application,
        name=name,
        permissions=frozenset(Permission(word) for word in wanted),
        queues=frozenset(queue or ()) - {"*"},
        all_queues="*" in (queue or ()),
        lifetime_ms=duration.parse(expires_in) if expires_in is not None else None,
    )
    ids = IdSource(SystemClock(), entropy)
    token, credential = create_token(opened, order, actor="operator", ids=ids, entropy=entropy)
    opened.close()
    if json:
        output.as_json({"token": token, "id": credential.principal.credential_id})
        return
    output.out.print(token, soft_wrap=True)
    output.err.print("shown this once; only its hash is kept", style="dim")


@token_app.command(name="list")
def list_tokens(*, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Tokens of the namespace."""
    found = client(url, token).admin.tokens()
    if json:
        output.as_json(found)
        return
    output.table(
        ("ID", "NAME", "PERMISSIONS", "QUEUES", "EXPIRES", "REVOKED"),
        (
            (
                t.id,
                t.name,
                " ".join(t.permissions) if len(t.permissions) < len(_ALL) else "all",
                "all" if t.all_queues else " ".join(t.queues),
                (t.expires_at or "never")[:19],
                (t.revoked_at or "")[:19],
            )
            for t in found
        ),
    )


@token_app.command
def revoke(token_id: str, *, url: Url = None, token: Token = None) -> None:
    """Revoke a token."""
    view = client(url, token).admin.revoke_token(token_id)
    output.out.print(f"{view.name} is revoked")


def queues(*, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Queues: limits, and what is open in them."""
    found = client(url, token).admin.queues()
    if json:
        output.as_json(found)
        return
    output.table(
        ("QUEUE", "QUEUED", "HELD", "LEASED", "RUNNING", "REVIEW", "MAX RUNNING", ""),
        (
            (
                q.name,
                q.queued,
                q.held,
                q.leased,
                q.running,
                q.needs_review,
                q.max_running or "–",
                "paused" if q.paused else "",
            )
            for q in found
        ),
    )


@inbox_app.command(name="list")
def list_inbox(*, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Quarantined records, and those that wait behind them."""
    found = client(url, token).admin.inbox()
    if json:
        output.as_json(found)
        return
    output.table(
        ("INSTANCE", "TASK", "KIND", "STATE", "CAUSE"),
        ((r.instance_id, r.task_id, r.kind, r.state, r.cause or "") for r in found),
    )


class _Requeue(Wire, frozen=True, kw_only=True):
    instance_id: str


class _Requeued(Wire, frozen=True, kw_only=True):
    taken: int
    processed: int


@inbox_app.command
def requeue(instance_id: str, *, url: Url = None, token: Token = None) -> None:
    """Take an instance's records again, their cause mended; nothing is ever skipped (REC-16)."""
    call = Call(
        method="POST",
        path="/inbox/requeue",
        body=_Requeue(instance_id=instance_id),
        answer=_Requeued,
    )
    done = client(url, token).do(call)
    output.out.print(f"{done.taken} taken again, {done.processed} processed")
