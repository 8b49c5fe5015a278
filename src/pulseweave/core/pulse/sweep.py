"""What time alone does to a task: the sweeper's decision, made on the locked row (PUL-2, PUL-3,
PUL-7).
"""

from typing import assert_never

from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.expire import expire
from pulseweave.core.pulse.hold import end_delay
from pulseweave.core.pulse.lease import lose_unstarted
from pulseweave.core.pulse.outcome import Chance, lose_outcome
from pulseweave.core.pulse.review import lost
from pulseweave.core.pulse.task import InReview, Leased, Queued, Running, Settled, Task


def sweep(task: Task, *, now: int, chance: Chance) -> TaskChange | None:
    """Expire, take a lapsed lease back, or end a delay; None when nothing is due."""
    match task.phase:
        case Queued():
            return expire(task, now=now) or end_delay(task, now=now)
        case Leased(expires_at=expires_at):
            expired = expire(task, now=now)
            if expired is not None or now < expires_at:
                return expired
            return lose_unstarted(task, now=now)
        case Running(expires_at=expires_at) if now >= expires_at:
            return lose_outcome(task, lost(task, now=now, by="LEASE_LOST"), chance, now=now)
        case Running() | InReview() | Settled():
            return None
        case _:
            assert_never(task.phase)
