"""Concurrency keys: one holder at a time, waiting, handing over."""

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import Holds
from pulseweave.txn.pulse.turn import ClaimOrder, Reported
from tests.pulse.world import World, failed, succeeded, unknown


@pytest.mark.rule("PUL-9", "PUL-10")
def test_one_key_has_one_holder(world: World) -> None:
    first, second = (world.create(concurrency_key="k") for _ in range(2))
    other = world.create(concurrency_key="other")
    leased = [lease.task_id for lease in world.claim(5)]
    assert leased == [first, other]
    assert world.claim(5) == []
    assert world.task(second).holds is Holds.KEY


@pytest.mark.rule("PUL-9")
def test_keys_of_different_queues_are_the_same_keys(world: World) -> None:
    world.create(queue="a", concurrency_key="k")
    world.create(queue="b", concurrency_key="k")
    assert len(world.claim(5, ["a", "b"])) == 1


@pytest.mark.rule("PUL-9", "PUL-10")
def test_a_key_is_handed_over_when_its_holder_settles(world: World) -> None:
    waiting = [world.create(concurrency_key="k") for _ in range(4)]
    order = []
    while waiting:
        (lease,) = world.claim(10)
        order.append(lease.task_id)
        assert world.claim(10) == [], "those that find the key held leave the index"
        assert world.promote() == 0, "the key is held"
        world.start(lease)
        world.report(lease, succeeded())
        waiting.remove(lease.task_id)
        if waiting:
            assert world.claim(10) == [], "waiters are out of the index until promoted"
            assert world.promote() == 1, "the first waiter alone"
    assert order == sorted(order)


@pytest.mark.rule("PUL-10")
def test_the_first_waiter_goes_by_priority_then_creation(world: World) -> None:
    world.create(concurrency_key="k")
    (lease,) = world.claim()
    world.create(concurrency_key="k")
    urgent = world.create(concurrency_key="k", priority=9)
    assert world.claim(5) == []
    world.release(lease)
    again = world.claim(5)
    assert [found.task_id for found in again] == [lease.task_id], "it is in the index itself"
    world.start(again[0])
    world.report(again[0], succeeded())
    world.promote()
    assert [found.task_id for found in world.claim(5)] == [urgent]


@pytest.mark.rule("PUL-9")
@pytest.mark.parametrize("back", ["released", "lapsed", "failed"])
def test_a_key_is_free_again_when_its_task_goes_back_untainted(world: World, back: str) -> None:
    world.create(concurrency_key="k")
    (lease,) = world.claim()
    world.create(concurrency_key="k", priority=5)
    assert world.claim(5) == []
    match back:
        case "released":
            world.release(lease)
        case "lapsed":
            world.pass_ms(10_000)
            world.sweep()
        case _:
            world.start(lease)
            world.report(lease, failed())
    assert not world.task(lease.task_id).holds_key
    assert world.promote() == 1
    (found,) = world.claim(5)
    assert found.task_id != lease.task_id, "the more urgent one has the key now"


@pytest.mark.rule("PUL-9", "PUL-3")
def test_a_key_stays_held_while_an_execution_is_unknown(world: World) -> None:
    world.create(concurrency_key="k")
    world.create(concurrency_key="k")
    world.report(world.running(), unknown())
    assert world.claim(5) == []
    assert world.promote() == 0
    assert world.claim(5) == []


@pytest.mark.rule("PUL-9")
def test_a_tainted_task_that_waits_keeps_its_key_and_is_claimed_with_it(world: World) -> None:
    tainted = world.create(concurrency_key="k", effect=Effect.IDEMPOTENT)
    world.create(concurrency_key="k", priority=5)
    lease = world.claim(1)[0]
    if lease.task_id != tainted:
        world.start(lease)
        world.report(lease, succeeded())
        world.promote()
        (lease,) = world.claim(1)
    assert lease.task_id == tainted
    rival = world.create(concurrency_key="k", priority=9)
    world.start(lease)
    world.report(lease, unknown())
    assert world.task(tainted).holds_key
    assert world.claim(5) == []
    world.pass_ms(1_000)
    world.sweep()
    assert world.promote() == 0
    assert [found.task_id for found in world.claim(5)] == [tainted]
    assert world.task(rival).holds is Holds.KEY


@pytest.mark.rule("PUL-10")
def test_those_who_wait_for_more_than_the_key_do_not_stand_in_the_way(world: World) -> None:
    holder = world.create(concurrency_key="k", priority=9)
    gated = world.owned("instance", concurrency_key="k", priority=5)
    plain = world.create(concurrency_key="k")
    (lease,) = world.claim(5)
    assert lease.task_id == holder
    assert world.claim(5) == []
    world.set_gate("instance", is_open=False)
    world.start(lease)
    world.report(lease, succeeded())
    assert world.promote() == 1
    assert [found.task_id for found in world.claim(5)] == [plain]
    assert world.task(gated).holds == Holds.KEY | Holds.GATE


@pytest.mark.rule("PUL-10")
def test_blocked_tasks_in_front_hide_no_others(world: World) -> None:
    """A long line behind one key does not keep a claim from what stands behind the line."""
    world.create(concurrency_key="k")
    world.claim()
    blocked = [world.create(concurrency_key="k") for _ in range(20)]
    free = [world.create() for _ in range(3)]
    assert [lease.task_id for lease in world.claim(2)] == free[:2]
    assert all(world.task(task_id).holds is Holds.KEY for task_id in blocked)


@pytest.mark.rule("PUL-9")
def test_a_key_that_a_turn_gives_back_is_free_after_it(world: World) -> None:
    world.create(concurrency_key="k")
    lease = world.running()
    following = world.create(concurrency_key="k")
    hints: list[dict[str, set[object]]] = []
    world.database.on_hints.append(hints.append)
    answer = world.turn(
        reports=[Reported(lease.task_id, lease.token, succeeded())],
        claim=ClaimOrder(("q",), 3),
    )
    assert answer.claimed == []
    assert ("default", "q") in hints[-1]["queue"], "look again at once"
    assert world.task(following).holds is Holds.NONE
    assert [found.task_id for found in world.claim(3)] == [following]


def test_a_promoter_reads_past_long_lines_and_held_keys(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the pages fall, every free key gets its first waiter."""
    monkeypatch.setattr("pulseweave.txn.pulse.promote.PAGE_ROWS", 3)
    names = [f"k{n}" for n in range(6)]
    for name in names:
        world.create(concurrency_key=name, priority=9)
    leases = world.claim(6)
    first = {}
    for name in names:
        first[name] = world.create(concurrency_key=name)
        for _ in range(4):
            world.create(concurrency_key=name)
    assert world.claim(100) == []
    for lease in leases[::2]:
        world.start(lease)
        world.report(lease, succeeded())
    assert world.promote() == 3
    assert {lease.task_id for lease in world.claim(100)} == {first[name] for name in names[::2]}


@pytest.mark.rule("PUL-10")
def test_a_release_hints_the_promoter(world: World) -> None:
    world.create(concurrency_key="k")
    lease = world.running()
    hints: list[dict[str, set[object]]] = []
    world.database.on_hints.append(hints.append)
    world.report(lease, succeeded())
    assert "key" in hints[-1]
