"""Scripted races on the servers: one transaction stands before its commit while another comes."""

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import Holds
from pulseweave.kernel.errors import Rejected
from pulseweave.txn.pulse import cancel
from pulseweave.txn.pulse.turn import Reported
from tests.pulse.races import race
from tests.pulse.test_stream import assert_gapless
from tests.pulse.world import Lease, World, failed, succeeded, unknown


def cancel_call(world: World, task_id: str) -> cancel.CancelTask:
    return cancel.CancelTask(
        principal=world.principal,
        task_id=task_id,
        instance_id=None,
        idempotency_key=f"cancel-{task_id}",
        expected_task_revision=world.task(task_id).revision,
        reason="not wanted",
    )


@pytest.mark.rule("PUL-9", "PUL-10")
def test_two_claims_meet_at_a_free_key(server_world: World) -> None:
    world = server_world
    first = world.create(queue="a", concurrency_key="k")
    second = world.create(queue="b", concurrency_key="k")
    with race() as running:
        one = running.hold(lambda: world.claim(1, ["a"]))
        two = running.run(lambda: world.claim(1, ["b"]))
        two.waits(world.database)
        one.go()
        assert [lease.task_id for lease in one.result()] == [first]
        assert two.result() == []
    assert world.task(second).holds is Holds.KEY
    assert world.database.retries == 0


@pytest.mark.rule("PUL-9", "PUL-10")
def test_a_key_given_back_while_a_claim_looks_is_not_lost(server_world: World) -> None:
    world = server_world
    world.create(concurrency_key="k")
    lease = world.running()
    second = world.create(concurrency_key="k")
    with race() as running:
        reporting = running.hold(lambda: world.report(lease, succeeded()))
        claiming = running.run(lambda: world.claim(1))
        assert claiming.result() == [], "the key is held until the report commits"
        reporting.go()
        assert reporting.result().state == "SUCCEEDED"
    assert world.task(second).holds is Holds.KEY
    assert world.promote() == 1
    assert [found.task_id for found in world.claim(1)] == [second]


@pytest.mark.rule("PUL-10")
def test_a_promotion_and_a_claim_of_the_same_key_take_turns(server_world: World) -> None:
    world = server_world
    world.create(concurrency_key="k")
    lease = world.running()
    waiter = world.create(concurrency_key="k")
    assert world.claim(1) == []
    world.report(lease, succeeded())
    newcomer = world.create(concurrency_key="k")
    with race() as running:
        promoting = running.hold(world.promote)
        claiming = running.run(lambda: world.claim(2))
        claiming.waits(world.database)
        promoting.go()
        assert promoting.result() == 1
        leased = [found.task_id for found in claiming.result()]
    assert len(leased) == 1
    assert leased[0] in (waiter, newcomer)


@pytest.mark.rule("PUL-6")
def test_a_report_before_the_sweeper(server_world: World) -> None:
    world = server_world
    task_id = world.create(lease_ms=1)
    lease = world.running()
    with race() as running:
        reporting = running.hold(lambda: world.report(lease, succeeded()))
        assert world.sweep() == 0, "what another holds is left to it"
        reporting.go()
        assert reporting.result().state == "SUCCEEDED"
    assert world.sweep() == 0
    assert world.kinds(task_id) == ["SUCCEEDED"]


@pytest.mark.rule("PUL-3", "PUL-6")
def test_the_sweeper_before_a_report(server_world: World) -> None:
    world = server_world
    task_id = world.create(lease_ms=1)
    lease = world.running()
    with race() as running:
        sweeping = running.hold(world.sweep)
        reporting = running.run(lambda: world.report(lease, succeeded()))
        reporting.waits(world.database)
        sweeping.go()
        assert sweeping.result() == 1
        refused = reporting.result().rejected
    assert refused is not None
    assert refused.code == "LEASE_LOST"
    assert world.state(task_id) == "NEEDS_REVIEW"
    assert len(world.late_reports(task_id)) == 1
    assert world.kinds(task_id) == ["NEEDS_REVIEW"]


@pytest.mark.rule("PUL-3")
def test_two_sweepers_lose_a_lease_once(server_world: World) -> None:
    world = server_world
    task_id = world.create(lease_ms=1)
    world.running()
    with race() as running:
        sweeping = running.hold(world.sweep)
        assert world.sweep() == 0
        sweeping.go()
        assert sweeping.result() == 1
    assert len(world.events(task_id)) == 1


@pytest.mark.rule("PUL-8")
def test_a_claim_before_a_cancel(server_world: World) -> None:
    world = server_world
    task_id = world.create()
    command = cancel_call(world, task_id)
    with race() as running:
        claiming = running.hold(lambda: world.claim(1))
        cancelling = running.run(lambda: cancel.execute(world.database, command, ids=world.ids))
        cancelling.waits(world.database)
        claiming.go()
        (lease,) = claiming.result()
        with pytest.raises(Rejected) as refusal:
            cancelling.result()
    assert refusal.value.code == "TASK_REVISION_CONFLICT"
    assert world.start(lease).rejected is None


@pytest.mark.rule("PUL-8")
def test_a_cancel_before_a_claim(server_world: World) -> None:
    world = server_world
    task_id = world.create()
    command = cancel_call(world, task_id)
    with race() as running:
        cancelling = running.hold(lambda: cancel.execute(world.database, command, ids=world.ids))
        assert world.claim(1) == [], "what another holds is skipped"
        cancelling.go()
        assert cancelling.result()["state_after"] == "CANCELLED"
    assert world.claim(1) == []
    assert world.kinds(task_id) == ["CANCELLED"]


@pytest.mark.rule("PUL-8")
def test_a_cancel_meets_a_start(server_world: World) -> None:
    world = server_world
    task_id = world.create()
    (lease,) = world.claim(1)
    command = cancel_call(world, task_id)
    with race() as running:
        cancelling = running.hold(lambda: cancel.execute(world.database, command, ids=world.ids))
        starting = running.run(lambda: world.start(lease))
        starting.waits(world.database)
        cancelling.go()
        cancelling.result()
        refused = starting.result().rejected
    assert refused is not None
    assert refused.code == "LEASE_LOST"
    assert world.attempts(task_id) == []


@pytest.mark.rule("PUL-10", "PUL-2")
def test_a_gate_that_closes_meets_a_start(server_world: World) -> None:
    world = server_world
    task_id = world.owned("instance")
    (lease,) = world.claim(1)
    with race() as running:
        closing = running.hold(lambda: world.set_gate("instance", is_open=False))
        starting = running.run(lambda: world.start(lease))
        starting.waits(world.database)
        closing.go()
        refused = starting.result().rejected
    assert refused is not None
    assert refused.code == "GATE_CLOSED"
    assert world.attempts(task_id) == []


@pytest.mark.rule("PUL-10")
def test_a_gate_that_closes_meets_a_requeue(server_world: World) -> None:
    """The report puts the task back while the gate closes: the bit is on it afterwards."""
    world = server_world
    task_id = world.owned("instance", effect=Effect.NONE)
    lease = world.running()
    with race() as running:
        reporting = running.hold(lambda: world.report(lease, failed()))
        closing = running.run(lambda: world.set_gate("instance", is_open=False))
        closing.waits(world.database)
        reporting.go()
        closing.result()
        assert reporting.result().state == "QUEUED"
    assert world.task(task_id).holds & Holds.GATE


@pytest.mark.rule("PUL-9")
def test_two_claims_meet_at_a_limited_queue(server_world: World) -> None:
    world = server_world
    world.queue(max_running=1)
    world.create()
    world.create()
    with race() as running:
        one = running.hold(lambda: world.claim(1))
        two = running.run(lambda: world.claim(1))
        two.waits(world.database)
        one.go()
        assert (len(one.result()), len(two.result())) == (1, 0)


@pytest.mark.rule("PUL-10")
def test_two_claims_of_an_unlimited_queue_do_not_wait(server_world: World) -> None:
    world = server_world
    tasks = [world.create() for _ in range(4)]
    with race() as running:
        one = running.hold(lambda: world.claim(2))
        assert [lease.task_id for lease in world.claim(2)] == tasks[2:]
        one.go()
        assert [lease.task_id for lease in one.result()] == tasks[:2]


@pytest.mark.rule("PUL-11")
def test_batches_over_the_same_partitions_take_turns(server_world: World) -> None:
    """Each names the other's partitions in the opposite order."""
    world = server_world
    leases: dict[int, list[Lease]] = {}
    while len(leases) < 2 or min(len(found) for found in leases.values()) < 2:
        world.create()
        lease = world.running()
        leases.setdefault(world.task(lease.task_id).partition_id, []).append(lease)
    low, high = [found for _, found in sorted(leases.items()) if len(found) > 1][:2]

    def report(batch: list[Lease]) -> list[str | None]:
        told = [Reported(lease.task_id, lease.token, unknown()) for lease in batch]
        return [answer.state for answer in world.turn(reports=told).reports]

    with race() as running:
        one = running.hold(lambda: report([low[0], high[0]]))
        two = running.run(lambda: report([high[1], low[1]]))
        two.waits(world.database)
        one.go()
        assert one.result() == two.result() == ["NEEDS_REVIEW", "NEEDS_REVIEW"]
    assert_gapless(world)
    assert world.database.retries == 0


@pytest.mark.rule("PUL-11")
def test_events_become_visible_in_order(server_world: World) -> None:
    """A reader never sees an event while one before it in the stream is still uncommitted."""
    world = server_world
    for _ in range(2):
        world.owned("instance")
    first, second = world.claim(2)
    world.turn(starts=[first.named, second.named])
    with race() as running:
        one = running.hold(lambda: world.report(first, succeeded()))
        two = running.run(lambda: world.report(second, succeeded()))
        two.waits(world.database)
        assert world.events() == []
        one.go()
        one.result()
        two.result()
    assert [event.task_id for event in world.events()] == [first.task_id, second.task_id]
