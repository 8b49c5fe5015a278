"""``weave doctor``: proves over the whole database what must hold between its rows."""

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pulseweave.cli import output
from pulseweave.cli.options import DEFAULT_DATABASE, DatabaseUrl, Json
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import check_schema
from pulseweave.txn.doctor import Finding, examine


def doctor(*, database: DatabaseUrl = DEFAULT_DATABASE, json: Json = False) -> int:
    """Replay every journal, check ownership, gates, and that everything open will move.
    Reads only.
    """
    opened = open_database(database)
    check_schema(opened)
    examined, findings = 0, list[Finding]()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed} instances examined"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=output.err, transient=True) as progress:
        task = progress.add_task("", total=None)
        for page in examine(opened):
            examined += page.instances
            findings += page.findings
            progress.update(task, completed=examined)
    opened.close()
    if json:
        told = [
            {"rule": f.rule, "instance_id": f.instance_id, "message": f.message} for f in findings
        ]
        output.as_json({"instances": examined, "findings": told})
    elif findings:
        output.table(
            ("RULE", "INSTANCE", "FINDING"), ((f.rule, f.instance_id, f.message) for f in findings)
        )
    else:
        output.out.print(f"{examined} instances examined, everything holds", style="green")
    return 1 if findings else 0
