"""``weave db upgrade|check``."""

from cyclopts import App

from pulseweave.cli import output
from pulseweave.cli.options import DEFAULT_DATABASE, DatabaseUrl, Json
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import check_schema, current_version, newest_version
from pulseweave.store.migrate import upgrade as upgrade_schema
from pulseweave.txn.admin.namespaces import create_namespace

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
