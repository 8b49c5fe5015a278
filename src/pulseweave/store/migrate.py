"""The schema's versions: one Alembic history for all databases, expand first, contract later.

A server starts only on the version that it knows; ``weave db upgrade`` brings a database there.
MariaDB and MySQL commit every DDL statement by itself, so an interrupted upgrade is simply run
again.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from pulseweave.kernel.errors import WeaveError
from pulseweave.store.engine import Database, reached


def _config(database: Database) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["engine"] = database.writer
    return config


def newest_version() -> str:
    script = ScriptDirectory(str(Path(__file__).parent / "migrations"))
    head = script.get_current_head()
    return head or ""


def current_version(database: Database) -> str | None:
    """The version of the database's schema; None when there is none yet."""
    with reached(database.writer), database.writer.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(database: Database) -> None:
    """Bring the schema to the newest version; nothing to do is fine."""
    command.upgrade(_config(database), "head")


def check_schema(database: Database) -> None:
    """Raise SCHEMA_VERSION unless the database has the version that this program knows."""
    found, needed = current_version(database), newest_version()
    if found == needed:
        return
    told = f"is at version {found}" if found else "has no schema yet"
    raise WeaveError(
        "SCHEMA_VERSION", f"the database {told}, {needed} is needed: run `weave db upgrade`"
    )
