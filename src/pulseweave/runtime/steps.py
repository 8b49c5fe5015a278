"""What the engine does, as steps: each does a bounded amount of work and says whether there is
more.

A test or a simulator calls them with its own clock; ``runtime.loop`` calls them on threads.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pulseweave.kernel import limits
from pulseweave.kernel.entropy import Entropy
from pulseweave.kernel.ids import IdSource
from pulseweave.kernel.points import reach
from pulseweave.store.engine import Database
from pulseweave.txn.pulse.promote import promote_keys
from pulseweave.txn.pulse.sweep import sweep_tasks
from pulseweave.txn.weave.lost_waits import review_lost_waits
from pulseweave.txn.weave.prune import prune
from pulseweave.txn.weave.pump import pump
from pulseweave.txn.weave.waker import wake_due


@dataclass(frozen=True, slots=True)
class Steps:
    """The engine's steps over one database. Each answers True when it should be called again at
    once.
    """

    database: Database
    ids: IdSource
    entropy: Entropy
    retention_ms: int | None = None

    def pump(self) -> bool:
        """Consume one batch of the streams that are ahead of the inbox (WEA-5)."""
        reach("engine.before_pump")
        read = pump(self.database, ids=self.ids, entropy=self.entropy)
        if read:
            reach("engine.after_pump")
        return read > 0

    def wake(self) -> bool:
        """Instances whose continuation is due (WEA-13, WEA-14)."""
        woken = wake_due(self.database, ids=self.ids)
        reach("engine.after_wake")
        return woken >= limits.WAKE_INSTANCES_MAX

    def find_lost_waits(self) -> bool:
        """Leaves that wait with nothing armed go into review (WEA-19)."""
        return review_lost_waits(self.database, ids=self.ids) >= limits.WAKE_INSTANCES_MAX

    def prune(self) -> bool:
        """Instances that ended before the retention leave a tombstone (WEA-18)."""
        if self.retention_ms is None:
            return False
        return prune(self.database, retention_ms=self.retention_ms).more

    def sweep(self) -> bool:
        """Lapsed leases, passed deadlines, ended delays (PUL-2, PUL-3, PUL-7)."""
        swept = sweep_tasks(self.database, entropy=self.entropy)
        reach("engine.after_sweep")
        return swept >= limits.SWEEP_ROWS_MAX

    def promote(self) -> bool:
        """First waiters of free concurrency keys (PUL-10)."""
        promoted = promote_keys(self.database)
        reach("engine.after_promote")
        return promoted >= limits.PROMOTE_KEYS_MAX

    def settle(self, *, rounds: int = 1000) -> int:
        """Run all steps until none has more to do; for tests and simulators. Answers the rounds
        taken.
        """
        for done in range(rounds):
            steps: tuple[Callable[[], bool], ...] = (
                self.sweep,
                self.promote,
                self.wake,
                self.find_lost_waits,
                self.pump,
            )
            more = [step() for step in steps]
            if not any(more):
                return done
        return rounds
