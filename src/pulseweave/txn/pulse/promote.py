"""The promoter's step: the first waiter of a free key goes back into the claim index (PUL-10).

Hinted when a key is released, else found within a second. Handing a key over inside the report that
frees it would lock a task behind a task, so it is done here, stripes first.
"""

from pulseweave.core.pulse.hold import promote
from pulseweave.kernel import limits
from pulseweave.store import locks
from pulseweave.store.changes.tasks import write_task_changes
from pulseweave.store.engine import Database
from pulseweave.store.facts import tasks as facts
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run

#: Waiters read at a time; what a step reads at most is this times the keys that are waited for.
PAGE_ROWS = 500


def promote_keys(database: Database) -> int:
    """Clear hold KEY for the first waiter of each free key; answers how many, at most a batch."""

    def work(tx: Tx) -> int:
        waiters = _waiters_of_free_keys(tx, limits.PROMOTE_KEYS_MAX)
        if not waiters:
            return 0
        locks.lock_key_stripes(tx, waiters)
        held = facts.key_holders(tx, waiters)
        chosen = [task_id for key, task_id in waiters.items() if key not in held]
        tasks = locks.lock_tasks(tx, chosen, skip_locked=True)
        changes = [change for task in tasks.values() if (change := promote(task)) is not None]
        write_task_changes(tx, changes)
        return len(changes)

    return run(database, work, probe=lambda tx: bool(_waiters_of_free_keys(tx, 1)))


def _waiters_of_free_keys(tx: Tx, limit: int) -> dict[str, str]:
    """Keys that somebody waits for and nobody holds → the first of those who wait."""
    found: dict[str, str] = {}
    after = ""
    while len(found) < limit:
        page = facts.waited_keys(tx, after=after, limit=PAGE_ROWS)
        if not page:
            break
        held = facts.key_holders(tx, page)
        free = [(key, task_id) for key, task_id in page.items() if key not in held]
        found |= dict(free[: limit - len(found)])
        after = max(page)
    return found
