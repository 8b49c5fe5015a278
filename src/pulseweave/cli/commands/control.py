"""``weave pause``, ``resume``, ``cancel``. The control revision is never filled in silently."""

from typing import Annotated, Literal

from cyclopts import Parameter

from pulseweave.cli import output
from pulseweave.cli.options import Json, Token, Url, client

Revision = Annotated[
    str, Parameter(name="--control-revision", help="the control_revision that you have seen")
]
Key = Annotated[str | None, Parameter(help="idempotency key; made for you if not given")]
Verb = Literal["pause", "resume", "cancel"]


def _control(
    verb: Verb,
    instance_id: str,
    *,
    revision: str,
    reason: str,
    key: str | None,
    url: Url,
    token: Token,
    json: Json,
) -> None:
    instances = client(url, token).instances
    receipt = getattr(instances, verb)(
        instance_id, expected_control_revision=revision, reason=reason, key=key
    )
    if json:
        output.as_json(receipt)
        return
    output.out.print(
        f"{receipt.operation} recorded: {receipt.state_after}, gate {receipt.gate}, "
        f"revision {receipt.revision}, control revision {receipt.control_revision}"
    )
    kept = (receipt.details or {}).get("deadlines_that_keep_running")
    if kept:
        output.out.print(f"deadlines keep running: {kept}", style="yellow")


def pause(
    instance_id: str,
    *,
    control_revision: Revision,
    reason: str = "",
    key: Key = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Stop authorising and advancing. Deadlines keep running."""
    _control(
        "pause",
        instance_id,
        revision=control_revision,
        reason=reason,
        key=key,
        url=url,
        token=token,
        json=json,
    )


def resume(
    instance_id: str,
    *,
    control_revision: Revision,
    reason: str = "",
    key: Key = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Go on after a pause."""
    _control(
        "resume",
        instance_id,
        revision=control_revision,
        reason=reason,
        key=key,
        url=url,
        token=token,
        json=json,
    )


def cancel(
    instance_id: str,
    *,
    control_revision: Revision,
    reason: str = "",
    key: Key = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Set the stop intent, once: unstarted work is cancelled, running work is asked."""
    _control(
        "cancel",
        instance_id,
        revision=control_revision,
        reason=reason,
        key=key,
        url=url,
        token=token,
        json=json,
    )
