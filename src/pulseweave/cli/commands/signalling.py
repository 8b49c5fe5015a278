"""``weave signal``: tell an instance something that it waits for, or will wait for."""

from typing import Annotated

from cyclopts import Parameter

from pulseweave.cli import output
from pulseweave.cli.commands.workflows import json_argument
from pulseweave.cli.options import Json, Token, Url, client


def signal(
    instance_id: str,
    name: str,
    payload: Annotated[str, Parameter(help="JSON, or @FILE")] = "null",
    *,
    correlation: Annotated[
        str | None, Parameter(help="which of several waits of this name it is for")
    ] = None,
    key: Annotated[
        str | None, Parameter(help="the signal's key; made for you if not given")
    ] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Send a signal. It is kept until a wait takes it, and taken once."""
    instances = client(url, token).instances
    accepted = instances.signal(
        instance_id, name, json_argument(payload), correlation=correlation, key=key
    )
    if json:
        output.as_json(accepted)
        return
    word = "taken at once" if accepted.taken_by is not None else "kept until a wait takes it"
    known = "" if accepted.created else "; it was known already"
    output.out.print(f"signal {name} accepted as {accepted.id}: {word}{known}")
