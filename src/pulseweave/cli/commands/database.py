"""``weave db upgrade|check|prune``."""

from contextlib import nullcontext
from typing import Annotated

from cyclopts import App, Parameter

from pulseweave.cli import output
from pulseweave.cli.options import DEFAULT_DATABASE, DatabaseUrl, Json
from pulseweave.kernel import duration
from pulseweave.kernel.errors import reject
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import check_schema, current_version, newest_version
from pulseweave.store.migrate import upgrade as upgrade_schema
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.weave.prune import prune as prune_step

app = App(name="db", help="The database's schema.")


@app.command
def upgrade(*, database: DatabaseUrl = DEFAULT_DATABASE) -> None:
    """Bring the schema to this program's version, and make the namespace `default` if there is
    none.
    """
    opened = open_database(database)
    before = current_version(opened)
    upgrade_schema(opened)
    create_namespace(opened, "default")
    after = current_version(opened)
    output.out.print(f"schema {before or 'none'} → {after}")
    opened.close()


@app.command
def prune(
    *,
    older_than: Annotated[str, Parameter(help="keep what ended later, like 90d")],
    database: DatabaseUrl = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Remove instances that ended long ago, whole; their keys never start again."""
    retention_ms = retention(older_than)
    opened = open_database(database)
    check_schema(opened)
    instances = events = 0
    with output.out.status("pruning") if not json else nullcontext():
        while (done := prune_step(opened, retention_ms=retention_ms)).more:
            instances += done.instances
            events += done.events
    opened.close()
    told = {"instances": instances, "events": events}
    output.as_json(told) if json else output.out.print(
        f"pruned {instances} instances and {events} events of streams"
    )


def retention(text: str) -> int:
    """Milliseconds of a duration that an option gave."""
    try:
        return duration.parse(text)
    except duration.InvalidDuration as error:
        raise reject("INVALID_COMMAND", str(error)) from None


@app.command
def check(*, database: DatabaseUrl = DEFAULT_DATABASE, json: Json = False) -> None:
    """Whether this program can run on the database as it is."""
    opened = open_database(database)
    check_schema(opened)
    told = {
        "database": opened.capabilities.name,
        "schema": newest_version(),
        "clock_at": opened.clock.now(),
    }
    opened.close()
    output.as_json(told) if json else output.out.print(
        f"fine: {told['database']}, schema {told['schema']}"
    )
