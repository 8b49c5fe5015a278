"""When the engine has something to do next: for whoever moves a clock by hand."""

from sqlalchemy import func, select

from pulseweave.store import schema as t
from pulseweave.store.tx import Tx

_WAKE = select(func.min(t.instances.c.wake_at))
_SWEEP = select(func.min(t.tasks.c.sweep_at))


def next_due_at(tx: Tx) -> int | None:
    """The earliest continuation or sweep; it may be past."""
    found = [tx.rows(statement, {})[0][0] for statement in (_WAKE, _SWEEP)]
    known = [instant for instant in found if instant is not None]
    return min(known) if known else None
