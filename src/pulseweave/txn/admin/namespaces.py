"""Create a namespace with its default application, result partitions and cursors."""

from pulseweave.kernel import limits
from pulseweave.kernel.errors import reject
from pulseweave.store import locks
from pulseweave.store.changes.identity import insert_application, insert_namespace
from pulseweave.store.engine import Database
from pulseweave.store.facts import identity as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.form import check_name
from pulseweave.txn.unit import run

_UNLIMITED = {"max_open_tasks": None, "max_open_instances": None}


def create_namespace(database: Database, name: str) -> bool:
    """True when it was made, False when it was there. Raises INVALID_COMMAND."""
    check_name(name, "/namespace", chars_max=limits.NAMESPACE_CHARS_MAX)

    def work(tx: Tx) -> bool:
        locks.lock_start_stripes(tx, "", ["namespaces"])
        if any(row.name == name for row in facts.namespaces(tx)):
            return False
        now = tx.now()
        insert_namespace(tx, name, number=facts.next_namespace_number(tx), now=now)
        insert_application(tx, name, "default", _UNLIMITED, now=now)
        return True

    return run(database, work)


def require_namespace(tx: Tx, name: str) -> None:
    if all(row.name != name for row in facts.namespaces(tx)):
        raise reject("NOT_FOUND", f"there is no namespace {name}")
