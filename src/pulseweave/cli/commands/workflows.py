"""``weave apply``, ``start``, ``ps``, ``show``, ``history``."""

import sys
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Annotated, Any

from cyclopts import Parameter
from rich.live import Live
from rich.text import Text

from pulseweave.cli import output
from pulseweave.cli.options import Json, Token, Url, client
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.sdk.retry import ENDED
from pulseweave.wire import sources
from pulseweave.wire.workflows import InstanceDetail, InstanceSummary


def apply(*files: Path, url: Url = None, token: Token = None, json: Json = False) -> None:
    """Register definitions from YAML or JSON files. Errors name file, line and what
    would be right.
    """
    known = client(url, token)
    done = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            source = sources.parse(text)
            done.append(known.definitions.put(source.value))
        except Rejected as error:
            raise _placed(error, path, text) from None
    if json:
        output.as_json(done)
        return
    for summary in done:
        word = "registered" if summary.created else "is the same already"
        output.out.print(f"{summary.name} version {summary.version} {word}  {summary.digest[:19]}…")


def _placed(error: Rejected, path: Path, text: str) -> Rejected:
    """A definition's problems with the line and column of each."""
    problems = error.detail.get("problems")
    if not problems:
        return error
    source = sources.parse(text)
    placed = []
    for problem in problems:
        spot = source.locate(problem.get("pointer") or "")
        place = f"{path}:{spot.line}:{spot.column}"
        placed.append({**problem, "pointer": f"{place} {problem.get('pointer') or '/'}"})
    return error.with_detail(problems=placed)


def start(
    definition: str,
    key: str,
    *,
    input: Annotated[str, Parameter(help="JSON, or @file, or - for stdin")] = "{}",  # noqa: A002
    version: int | None = None,
    wait: Annotated[bool, Parameter(help="wait until it has ended or needs a person")] = False,
    timeout: float = 60,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Start an instance; the same key again is the same instance."""
    run = client(url, token).instances.start(
        definition, key=key, input=json_argument(input), version=version
    )
    if wait:
        detail = run.wait(timeout)
        output.as_json(detail) if json else _show(detail)
        return
    if json:
        output.as_json(run.summary)
    else:
        word = "started" if run.created else "was there already"
        output.out.print(f"{run.id}  {definition} {key} {word}")


def json_argument(text: str) -> Any:
    """A JSON argument: the text itself, ``@file``, or ``-`` for standard input."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8")
    try:
        return canonical.parse(text)
    except canonical.InvalidJson as error:
        raise reject("INVALID_JSON", str(error)) from None


def ps(
    *,
    state: str | None = None,
    definition: str | None = None,
    in_review: bool = False,
    limit: int = 30,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Instances, newest first."""
    filters: dict[str, Any] = {"state": state, "definition": definition}
    if in_review:
        filters["in_review"] = True
    found = list(islice(client(url, token).instances.list(**filters), limit))
    if json:
        output.as_json(found)
        return
    output.table(
        ("ID", "DEFINITION", "KEY", "STATE", "", "CREATED"),
        (
            (
                i.id,
                f"{i.definition} {i.version}",
                i.instance_key,
                output.state(i.state),
                _flags(i),
                i.created_at[:19],
            )
            for i in found
        ),
    )


def _flags(i: InstanceSummary) -> str:
    """Facts beside the state."""
    paused, stop, contradicted, quarantined = i.paused, i.stop_kind, i.contradicted, i.quarantined
    words = ["paused"] if paused else []
    words += [f"stop:{stop.lower()}"] if stop else []
    words += ["contradicted"] if contradicted else []
    words += ["quarantined"] if quarantined else []
    return " ".join(words)


def show(
    instance_id: str,
    *,
    watch: Annotated[bool, Parameter(help="go on showing until it has ended")] = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """One instance: its steps as a tree, and what needs whom."""
    known = client(url, token)
    detail = known.instances.get(instance_id)
    if json:
        output.as_json(detail)
        return
    if not watch:
        _show(detail)
        return
    with Live(_tree(detail), console=output.out, refresh_per_second=8) as live:
        while detail.state not in ENDED:
            Event().wait(0.5)
            detail = known.instances.get(instance_id)
            live.update(_tree(detail))


def _tree(detail: InstanceDetail) -> Any:
    title = Text.assemble((f"{detail.definition} {detail.instance_key}", "bold"), "  ")
    title.append_text(output.state(detail.state))
    flags = _flags(detail)
    title.append(f"  revision {detail.revision}  gate {detail.gate}  {flags}", style="dim")
    return output.step_tree(detail.steps, title)


def _show(detail: InstanceDetail) -> None:
    output.out.print(_tree(detail))
    if isinstance(detail.error, dict):
        output.out.print(f"error   {detail.error.get('code')}: {detail.error.get('message')}")
    if detail.state == "SUCCEEDED":
        output.out.print(f"output  {canonical.encode(detail.output)}", soft_wrap=True)
    if detail.deadline_at and detail.state not in ENDED:
        output.out.print(f"deadline  {detail.deadline_at}", style="dim")
    for blocker in detail.blocking:
        where = f" {blocker.step_key}" if blocker.step_key else ""
        output.out.print(
            f"waits for [bold]{blocker.who}[/]: {blocker.what}{where} {blocker.detail or ''}"
        )


def history(instance_id: str, *, url: Url = None, token: Token = None, json: Json = False) -> None:
    """The journal: every revision, who and why."""
    entries = list(client(url, token).instances.history(instance_id))
    if json:
        output.as_json(entries)
        return
    output.table(
        ("REVISION", "AT", "ACTOR", "CAUSE", "CHANGES"),
        ((e.revision, e.at[:23], e.actor, e.cause, _changes(e.changes)) for e in entries),
    )


def _changes(changes: Any) -> str:
    told = []
    for change in changes:
        fields = change["set"]
        name = fields.get("step_key") if change.get("new") else None
        states = fields.get("state")
        if states:
            told.append(f"{change['row']}{' ' + name if name else ''} → {states}")
    return ", ".join(told)
