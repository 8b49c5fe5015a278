"""Whose time it is: the database's, where there is one, read after the last row lock."""

import pytest

from pulseweave.core.pulse.task import Leased
from pulseweave.kernel import limits
from pulseweave.kernel.check import InvariantViolation
from pulseweave.kernel.clock import ManualClock
from pulseweave.store import locks
from pulseweave.store.engine import open_database
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import read, run
from tests.pulse.world import World, succeeded

YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.mark.rule("PUL-15")
@pytest.mark.parametrize("skew_ms", [-YEAR_MS, YEAR_MS])
def test_leases_hold_whatever_a_hosts_clock_says(
    real_world: World, pulse_url: str, skew_ms: int
) -> None:
    """A second host, a year off, shares the database; on SQLite there is only one host."""
    world = real_world
    if world.database.capabilities.now_sql is None:
        assert read(world.database, lambda tx: tx.now()) == pytest.approx(world.now, abs=60e6)
        return
    world.create()
    lease = world.running()
    skewed = ManualClock(world.now + skew_ms * 1000)
    there = open_database(pulse_url, clock=skewed)
    try:
        here, world.database = world.database, there
        assert world.sweep() == 0, "the lease has not lapsed"
        assert world.heartbeat(lease).rejected is None
        task_id = world.create()
        (second,) = world.claim()
        phase = world.task(task_id).phase
        assert isinstance(phase, Leased)
        world.database = here
        database_now = read(here, lambda tx: tx.now())
        left_us = phase.expires_at - database_now
        assert 0 < left_us <= limits.UNSTARTED_LEASE_MS * 1000
        assert world.start(second).rejected is None
        assert world.report(lease, succeeded()).state == "SUCCEEDED"
    finally:
        there.close()


@pytest.mark.rule("PUL-15")
def test_now_is_read_again_after_each_lock_and_never_under_the_stream_lock(
    world: World,
) -> None:
    task_id = world.create()
    clock = world.clock
    assert isinstance(clock, ManualClock)

    def work(tx: Tx) -> None:
        first = tx.now()
        clock.advance_ms(5_000)
        assert tx.now() == first, "one transaction, one time"
        locks.lock_tasks(tx, [task_id])
        assert tx.now() == first + 5_000_000, "waiting for the lock took its time"
        clock.advance_ms(5_000)
        locks.lock_partitions(tx, world.partitions()[:1])
        assert tx.now() == first + 5_000_000

    run(world.database, work)

    def too_late(tx: Tx) -> None:
        locks.lock_partitions(tx, world.partitions()[:1])
        tx.now()

    with pytest.raises(InvariantViolation, match="before the stream is locked"):
        run(world.database, too_late)
