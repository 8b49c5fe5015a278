"""``weave audit``: who did what, when, why, with which evidence; refusals too."""

from itertools import islice

from pulseweave.cli import output
from pulseweave.cli.options import Json, Token, Url, client


def audit(
    instance_id: str | None = None,
    *,
    limit: int = 50,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Management commands, newest first, of the namespace or of one instance."""
    found = list(islice(client(url, token).instances.audit(instance_id), limit))
    if json:
        output.as_json(found)
        return
    output.table(
        ("AT", "LAYER", "OPERATION", "OUTCOME", "ACTOR", "REASON", "EVIDENCE"),
        (
            (
                e.at[:19],
                e.layer,
                e.operation,
                e.outcome if e.code is None else f"{e.outcome} {e.code}",
                e.actor,
                e.reason or "",
                e.evidence_ref or "",
            )
            for e in found
        ),
    )
