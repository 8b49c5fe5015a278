"""``weave recover …``: the recovery operations. Revisions come from you, or from a file that you
were shown.

``--from-shown FILE`` takes ids and revisions from what ``weave review --save FILE`` showed; nothing
is ever filled in silently from the server.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from pulseweave.cli import output
from pulseweave.cli.commands.workflows import json_argument
from pulseweave.cli.options import Json, Token, Url, client
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject
from pulseweave.wire.recovery import Receipt

app = App(name="recover", help="Settle facts: review-task, resolve-step, retry-step, continue.")

Reason = Annotated[str, Parameter(help="why, for the audit")]
Evidence = Annotated[
    str, Parameter(name="--evidence", help="a reference to the evidence; never opened")
]
Revision = Annotated[str | None, Parameter(help="the instance revision that you have seen")]
Shown = Annotated[Path | None, Parameter(help="what `weave review --save` showed")]
DryRun = Annotated[bool, Parameter(help="check everything, write nothing, say what would happen")]
Key = Annotated[str | None, Parameter(help="idempotency key; made for you if not given")]
Result = Annotated[str | None, Parameter(help="JSON, @file or -")]
Verdict = Literal["SUCCEEDED", "FAILED"]


def _command(
    operation: str, instance_id: str, shown: Path | None, given: dict[str, Any]
) -> dict[str, Any]:
    """The command from what was shown and what was given; what is still open is refused by name."""
    command: dict[str, Any] = {}
    if shown is not None:
        command = _shown_command(operation, instance_id, shown, given.get("step_key"))
    command |= {name: value for name, value in given.items() if value is not None}
    return command


def _shown_command(
    operation: str, instance_id: str, shown: Path, step_key: str | None
) -> dict[str, Any]:
    items = canonical.parse(shown.read_bytes())
    for item in items:
        if item["instance_id"] != instance_id:
            continue
        if step_key is not None and item["step_key"] not in (step_key, None):
            continue
        for known in item["operations"]:
            if known["operation"] == operation:
                found = known["command"]
                return {name: value for name, value in found.items() if value is not None}
    raise reject("INVALID_COMMAND", f"{shown} shows no {operation} for instance {instance_id}")


def _require(command: dict[str, Any], *names: str) -> None:
    missing = [name for name in names if command.get(name) is None]
    if missing:
        options = ", ".join(
            "--" + name.removeprefix("expected_").replace("_", "-") for name in missing
        )
        raise reject("INVALID_COMMAND", f"still open: {options}; or give --from-shown FILE")


def _tell(receipt: Receipt, *, json: bool) -> None:
    if json:
        output.as_json(receipt)
        return
    word = "would be" if receipt.dry_run else "is"
    output.out.print(
        f"{receipt.operation}{' (dry run)' if receipt.dry_run else ''}: the instance {word} "
        f"{receipt.state_after}, gate {receipt.gate}, revision {receipt.revision}"
    )
    for name, value in (receipt.details or {}).items():
        if value is not None:
            output.out.print(f"  {name}  {value}", style="dim", soft_wrap=True)
    for warning in receipt.warnings:
        output.out.print(f"  warning  {warning}", style="yellow")
    for blocker in receipt.blocking:
        where = f" {blocker.step_key}" if blocker.step_key else ""
        output.out.print(f"  still needs [bold]{blocker.who}[/]: {blocker.what}{where}")


@app.command(name="review-task")
def review_task(
    instance_id: str,
    *,
    verdict: Verdict,
    reason: Reason,
    evidence: Evidence,
    execution_settled: Annotated[
        bool,
        Parameter(help="you declare: every execution of it has ended and has no further effect"),
    ] = False,
    result: Result = None,
    late_report_id: str | None = None,
    task_id: str | None = None,
    task_revision: str | None = None,
    revision: Revision = None,
    from_shown: Shown = None,
    step: Annotated[str | None, Parameter(help="which step, with --from-shown")] = None,
    key: Key = None,
    dry_run: DryRun = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Settle what an execution did, by evidence (REV-1)."""
    given = {
        "step_key": step,
        "expected_revision": revision,
        "task_id": task_id,
        "expected_task_revision": task_revision,
        "verdict": verdict,
        "reason": reason,
        "evidence_ref": evidence,
        "execution_settled": execution_settled or None,
        "result": json_argument(result) if result is not None else None,
        "late_report_id": late_report_id,
    }
    command = _command("REVIEW_TASK", instance_id, from_shown, given)
    command.pop("step_key", None)
    _require(command, "expected_revision", "task_id", "expected_task_revision")
    recovery = client(url, token).recovery
    _tell(recovery.review_task(instance_id, key=key, dry_run=dry_run, **command), json=json)


@app.command(name="resolve-step")
def resolve_step(
    instance_id: str,
    *,
    verdict: Verdict,
    reason: Reason,
    evidence: Evidence,
    result: Result = None,
    execution_settled: Annotated[
        bool,
        Parameter(help="you declare: every execution of it has ended and has no further effect"),
    ] = False,
    step: str | None = None,
    activation_id: str | None = None,
    step_revision: str | None = None,
    revision: Revision = None,
    from_shown: Shown = None,
    key: Key = None,
    dry_run: DryRun = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Conclude a step whose executions are all known; runs nothing again (RES-1)."""
    given = {
        "step_key": step,
        "activation_id": activation_id,
        "expected_step_revision": step_revision,
        "expected_revision": revision,
        "verdict": verdict,
        "reason": reason,
        "evidence_ref": evidence,
        "execution_settled": execution_settled or None,
    }
    command = _command("RESOLVE_STEP", instance_id, from_shown, given)
    if result is not None:
        command["result"] = json_argument(result)
    _require(command, "expected_revision", "step_key", "activation_id", "expected_step_revision")
    recovery = client(url, token).recovery
    _tell(recovery.resolve_step(instance_id, key=key, dry_run=dry_run, **command), json=json)


@app.command(name="retry-step")
def retry_step(
    instance_id: str,
    *,
    reason: Reason,
    evidence: Evidence,
    safe_to_retry: Annotated[
        bool, Parameter(help="you declare: running it again does no harm")
    ] = False,
    step: str | None = None,
    activation_id: str | None = None,
    step_revision: str | None = None,
    revision: Revision = None,
    from_shown: Shown = None,
    key: Key = None,
    dry_run: DryRun = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """A new activation inside the original budget and deadline (RET-1)."""
    given = {
        "step_key": step,
        "activation_id": activation_id,
        "expected_step_revision": step_revision,
        "expected_revision": revision,
        "reason": reason,
        "evidence_ref": evidence,
        "safe_to_retry": safe_to_retry or None,
    }
    command = _command("RETRY_STEP", instance_id, from_shown, given)
    _require(command, "expected_revision", "step_key", "activation_id", "expected_step_revision")
    recovery = client(url, token).recovery
    _tell(recovery.retry_step(instance_id, key=key, dry_run=dry_run, **command), json=json)


@app.command(name="continue-poll")
def continue_poll(
    instance_id: str,
    *,
    reason: Reason,
    evidence: Evidence,
    pending_confirmed: Annotated[
        bool, Parameter(help="you declare: the outside operation is still pending")
    ] = False,
    step: str | None = None,
    activation_id: str | None = None,
    step_revision: str | None = None,
    revision: Revision = None,
    from_shown: Shown = None,
    key: Key = None,
    dry_run: DryRun = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """A poll verified PENDING waits for its next round (CPO-1)."""
    given = {
        "step_key": step,
        "activation_id": activation_id,
        "expected_step_revision": step_revision,
        "expected_revision": revision,
        "reason": reason,
        "evidence_ref": evidence,
        "pending_confirmed": pending_confirmed or None,
    }
    command = _command("CONTINUE_POLL", instance_id, from_shown, given)
    _require(command, "expected_revision", "step_key", "activation_id", "expected_step_revision")
    recovery = client(url, token).recovery
    _tell(recovery.continue_poll(instance_id, key=key, dry_run=dry_run, **command), json=json)


@app.command(name="rearm-wait")
def rearm_wait(
    instance_id: str,
    *,
    reason: Reason,
    evidence: Evidence,
    wait_verified: Annotated[
        bool, Parameter(help="you declare: what it waits for has not come another way")
    ] = False,
    step: str | None = None,
    activation_id: str | None = None,
    step_revision: str | None = None,
    revision: Revision = None,
    from_shown: Shown = None,
    key: Key = None,
    dry_run: DryRun = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """A signal or timer in review waits again (REA-1)."""
    given = {
        "step_key": step,
        "activation_id": activation_id,
        "expected_step_revision": step_revision,
        "expected_revision": revision,
        "reason": reason,
        "evidence_ref": evidence,
        "wait_verified": wait_verified or None,
    }
    command = _command("REARM_WAIT", instance_id, from_shown, given)
    _require(command, "expected_revision", "step_key", "activation_id", "expected_step_revision")
    recovery = client(url, token).recovery
    _tell(recovery.rearm_wait(instance_id, key=key, dry_run=dry_run, **command), json=json)


@app.command(name="continue")
def continue_instance(
    instance_id: str,
    *,
    reason: Reason,
    evidence: Evidence,
    review_resolved: Annotated[bool, Parameter(help="you declare: the review is resolved")] = False,
    revision: Revision = None,
    from_shown: Shown = None,
    key: Key = None,
    dry_run: DryRun = False,
    url: Url = None,
    token: Token = None,
    json: Json = False,
) -> None:
    """Leave review: the gate opens unless paused or stopping (CON-1)."""
    given = {
        "expected_revision": revision,
        "reason": reason,
        "evidence_ref": evidence,
        "review_resolved": review_resolved or None,
    }
    command = _command("CONTINUE", instance_id, from_shown, given)
    _require(command, "expected_revision")
    recovery = client(url, token).recovery
    _tell(recovery.continue_instance(instance_id, key=key, dry_run=dry_run, **command), json=json)
