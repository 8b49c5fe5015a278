"""``weave review``: what needs a person, and which operations apply."""

from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from pulseweave.cli import output
from pulseweave.cli.options import Json, Token, Url, client
from pulseweave.kernel import canonical
from pulseweave.sdk.calls import plain


def review(
    instance_id: Annotated[str | None, Parameter(help="only this instance")] = None,
    *,
    limit: int = 50,
    save: Annotated[
        Path | None, Parameter(help="write what was shown here, for `recover --from-shown`")
    ] = None,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Open review items, the longest waiting first."""
    known = client(url, token)
    if instance_id is not None:
        items = known.instances.get(instance_id).reviews
    else:
        items = list(islice(known.reviews.list(), limit))
    if save is not None:
        save.write_text(canonical.encode(plain(items)), encoding="ascii")
    if json:
        output.as_json(items)
        return
    if not items:
        output.out.print("nothing needs a person", style="green")
    for item in items:
        where = f" step [bold]{item.step_key}[/]" if item.step_key else ""
        output.out.print(
            f"[bold yellow]?[/] {item.definition} [bold]{item.instance_key}[/]{where}  "
            f"[yellow]{item.cause}[/]  since {item.since[:19]}"
        )
        output.out.print(f"    instance {item.instance_id}", style="dim")
        for operation in item.operations:
            if operation.applies:
                asks = ", ".join(operation.to_fill)
                output.out.print(f"    [green]{operation.operation}[/] applies; you give: {asks}")
                if operation.note:
                    output.out.print(f"      {operation.note}", style="dim")
            else:
                output.out.print(
                    f"    {operation.operation} not now: {operation.code}  {operation.blocked_by}",
                    style="dim",
                )
