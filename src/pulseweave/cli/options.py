"""Options that many commands share, and the client that they give."""

from typing import Annotated

from cyclopts import Parameter

from pulseweave.sdk.client import Client

Url = Annotated[str | None, Parameter(help="the server; else WEAVE_URL", env_var="WEAVE_URL")]
Token = Annotated[
    str | None,
    Parameter(help="the token; else WEAVE_TOKEN", env_var="WEAVE_TOKEN", show_default=False),
]
Json = Annotated[bool, Parameter(name="--json", help="one JSON document on stdout, nothing else")]
DatabaseUrl = Annotated[
    str,
    Parameter(
        name="--database",
        help="sqlite:///file, postgresql://… or mysql://…; else WEAVE_DATABASE",
        env_var="WEAVE_DATABASE",
    ),
]

DEFAULT_DATABASE = "sqlite:///weave.db"


def client(url: str | None, token: str | None) -> Client:
    return Client(url, token)
