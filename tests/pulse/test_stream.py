"""The result stream: one event for each settlement, gapless and ordered within a partition."""

from collections import defaultdict
from functools import partial
from typing import Any

import pytest
from sqlalchemy import delete

from pulseweave.kernel.check import InvariantViolation
from pulseweave.store import locks
from pulseweave.store import schema as t
from pulseweave.store.changes.events import append_events
from pulseweave.store.tx import Tx
from pulseweave.store.views.tasks import stream
from pulseweave.txn.pulse.turn import Reported
from pulseweave.txn.unit import read, run
from tests.pulse.threads import together
from tests.pulse.world import Lease, World, failed, succeeded, unknown


def assert_gapless(world: World) -> None:
    """Every partition counts 1, 2, 3, … up to its head, one event for each (task, revision)."""
    by_partition = defaultdict(list)
    for event in world.events():
        by_partition[event.partition_id].append(event)
    for row in world.rows(t.result_partitions):
        seqs = [event.seq for event in by_partition[row.id]]
        assert seqs == list(range(1, row.head_seq + 1))
    facts = [(e.task_id, e.task_revision, e.late_report_id) for e in world.events()]
    assert len(facts) == len(set(facts))


@pytest.mark.rule("PUL-11")
def test_every_settlement_and_review_is_one_event(world: World) -> None:
    told = [succeeded(), failed(retryable=False), unknown(), failed()]
    tasks = [world.create() for _ in told]
    leases = world.claim(len(told))
    world.turn(starts=[lease.named for lease in leases])
    world.turn(
        reports=[
            Reported(lease.task_id, lease.token, report)
            for lease, report in zip(leases, told, strict=True)
        ]
    )
    kinds = [world.kinds(task_id) for task_id in tasks]
    assert kinds == [["SUCCEEDED"], ["FAILED"], ["NEEDS_REVIEW"], []]
    for task_id in tasks[:3]:
        assert world.events(task_id)[0].task_revision == world.task(task_id).revision
    assert_gapless(world)


@pytest.mark.rule("PUL-11")
def test_all_events_of_an_instance_share_a_partition_in_order(world: World) -> None:
    instances = ["one", "two", "three"]
    for _ in range(4):
        for instance in instances:
            world.owned(instance)
    while leases := world.claim(5):
        for lease in leases:
            world.start(lease)
            world.report(lease, succeeded())
    for instance in instances:
        events = [e for e in world.events() if e.instance_id == instance]
        assert len(events) == 4
        assert len({e.partition_id for e in events}) == 1
        assert [e.task_id for e in events] == sorted(e.task_id for e in events)
    assert_gapless(world)


@pytest.mark.rule("PUL-11")
def test_if_the_append_fails_everything_rolls_back(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    before = world.task(task_id)

    def drop(partition_id: int) -> None:
        gone = delete(t.result_partitions).where(t.result_partitions.c.id == partition_id)
        run(world.database, lambda tx: tx.execute(gone, {}))

    (row,) = [r for r in world.rows(t.result_partitions) if r.id == before.partition_id]
    drop(before.partition_id)
    with pytest.raises(InvariantViolation):
        world.report(lease, succeeded())
    assert world.task(task_id) == before
    assert world.attempts(task_id)[0].outcome is None
    assert world.events() == []
    run(
        world.database,
        lambda tx: tx.insert_many(t.result_partitions, [dict(row._mapping)]),
    )
    assert world.report(lease, succeeded()).state == "SUCCEEDED"


@pytest.mark.rule("PUL-11")
def test_partitions_are_locked_last_and_once(world: World) -> None:
    """The guard watches every transaction of these tests; here it is seen to bite."""
    task_id = world.create()

    def wrong(tx: Tx) -> None:
        locks.lock_partitions(tx, world.partitions())
        locks.lock_tasks(tx, [task_id])

    with pytest.raises(InvariantViolation, match="rank order"):
        run(world.database, wrong)


@pytest.mark.rule("PUL-11")
def test_the_stream_is_gapless_under_concurrency(real_world: World) -> None:
    """Eight workers report batches that fall into all partitions."""
    world, workers, each = real_world, 8, 12
    for _ in range(workers * each):
        world.create()
    leases = world.claim(workers * each)
    world.turn(starts=[lease.named for lease in leases])

    def work(own: list[Lease]) -> int:
        for at in range(0, each, 4):
            world.turn(
                reports=[
                    Reported(lease.task_id, lease.token, succeeded(at))
                    for lease in own[at : at + 4]
                ]
            )
        return len(own)

    shares = [leases[n::workers] for n in range(workers)]
    assert together([partial(work, share) for share in shares]) == [each] * workers
    assert len(world.events()) == workers * each
    assert len({e.partition_id for e in world.events()}) > 1
    assert_gapless(world)


def test_the_stream_is_read_in_pages(world: World) -> None:
    for _ in range(5):
        world.owned("instance")
    leases = world.claim(5)
    for lease in leases:
        world.start(lease)
        world.report(lease, succeeded())
    partition = world.events()[0].partition_id

    def page(namespace: str, after: int) -> list[Any]:
        return list(
            read(
                world.database,
                lambda tx: stream(tx, namespace, partition_id=partition, after=after, limit=2),
            )
        )

    seen: list[Any] = []
    while found := page("default", seen[-1].seq if seen else 0):
        assert len(found) <= 2
        seen += found
    assert [row.task_id for row in seen] == [lease.task_id for lease in leases]
    assert page("another", 0) == []


def test_an_append_answers_where_the_events_stand(world: World) -> None:
    world.create()
    world.report(world.running(), succeeded())
    assert run(world.database, lambda tx: append_events(tx, [])) == []
    (event,) = world.events()
    assert event.seq == 1
