"""Who gets what: priority, rotation, paused and limited queues."""

from collections.abc import Sequence

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import Holds
from pulseweave.kernel.errors import Rejected
from pulseweave.store.tx import Tx
from pulseweave.txn.pulse.claim import something_claimable
from pulseweave.txn.pulse.turn import ClaimOrder, Named, Reported
from tests.pulse.world import World, failed, succeeded, unknown


@pytest.mark.rule("PUL-10")
def test_claims_go_by_priority_then_by_creation(world: World) -> None:
    low = [world.create(priority=-5) for _ in range(2)]
    plain = [world.create() for _ in range(2)]
    high = [world.create(priority=50) for _ in range(2)]
    assert [lease.task_id for lease in world.claim(4)] == [*high, *plain]
    assert [lease.task_id for lease in world.claim(4)] == low


@pytest.mark.rule("PUL-10")
def test_several_queues_are_taken_from_in_rotation(world: World) -> None:
    for queue in ("a", "b", "c"):
        for _ in range(6):
            world.create(queue=queue)
    for _ in range(2):
        leases = world.claim(9, ["a", "b", "c"])
        queues = [world.task(lease.task_id).queue for lease in leases]
        assert sorted(queues) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


@pytest.mark.rule("PUL-10")
def test_no_queue_is_always_last(world: World) -> None:
    for queue in ("a", "b"):
        for _ in range(20):
            world.create(queue=queue)
    first = {world.task(world.claim(1, ["a", "b"])[0].task_id).queue for _ in range(20)}
    assert first == {"a", "b"}


@pytest.mark.rule("PUL-10")
def test_a_busy_queue_takes_what_the_others_leave(world: World) -> None:
    for _ in range(10):
        world.create(queue="busy")
    world.create(queue="quiet")
    assert len(world.claim(8, ["quiet", "busy", "empty"])) == 8


@pytest.mark.rule("PUL-10")
def test_a_paused_queue_is_skipped(world: World) -> None:
    task_id = world.create()
    other = world.create(queue="other")
    world.queue(paused=1)
    assert [lease.task_id for lease in world.claim(5, ["q", "other"])] == [other]
    world.queue(paused=0)
    assert [lease.task_id for lease in world.claim(5, ["q", "other"])] == [task_id]


def test_a_claim_sees_its_namespace_and_queues_alone(world: World) -> None:
    world.create()
    stranger = world.credential("stranger", queues=frozenset({"other"}))
    with pytest.raises(Rejected) as refusal:
        world.claim(1, ["q", "other"], stranger)
    assert refusal.value.code == "QUEUE_ACCESS_DENIED"
    assert world.claim(1, ["other"], stranger) == []


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_claim_is_bounded(world: World, limit: int) -> None:
    with pytest.raises(Rejected) as refusal:
        world.claim(limit)
    assert refusal.value.code == "INVALID_COMMAND"


def test_a_turn_is_bounded(world: World) -> None:
    with pytest.raises(Rejected) as refusal:
        world.turn(starts=[Named("t", "t")] * 1_001)
    assert refusal.value.code == "INVALID_COMMAND"


@pytest.mark.rule("PUL-9")
def test_max_running_counts_leased_and_running(world: World) -> None:
    world.queue(max_running=3)
    for _ in range(6):
        world.create()
    first = world.claim(2)
    world.start(first[0])
    assert len(world.claim(5)) == 1
    assert world.claim(5) == []
    world.report(first[0], succeeded())
    assert len(world.claim(5)) == 1
    world.release(first[1])
    assert len(world.claim(5)) == 1
    assert world.claim(5) == []


@pytest.mark.rule("PUL-9")
def test_a_turn_may_use_the_slots_that_it_gives_back(world: World) -> None:
    world.queue(max_running=2)
    for _ in range(6):
        world.create()
    leases = world.claim(2)
    for lease in leases:
        world.start(lease)
    answer = world.turn(
        reports=[Reported(lease.task_id, lease.token, succeeded()) for lease in leases],
        claim=ClaimOrder(("q",), 5),
    )
    assert [a.state for a in answer.reports] == ["SUCCEEDED", "SUCCEEDED"]
    assert len(answer.claimed) == 2
    refused = world.turn(
        reports=[Reported(task.id, task.token or "", succeeded()) for task, _ in answer.claimed],
        claim=ClaimOrder(("q",), 5),
    )
    assert [a.state for a in refused.reports] == [None, None], "they were never started"
    assert refused.claimed == [], "so they give no slot back"


@pytest.mark.rule("PUL-9")
@pytest.mark.parametrize(("hold", "claimed"), [(0, 1), (1, 0)])
def test_a_queue_may_say_that_reviews_hold_its_slots(world: World, hold: int, claimed: int) -> None:
    world.queue(max_running=1, reviews_hold_slots=hold)
    world.create()
    world.create()
    world.report(world.running(), unknown())
    assert len(world.claim(1)) == claimed


@pytest.mark.rule("PUL-10")
def test_gate_and_delay_keep_a_task_out_of_the_index(world: World) -> None:
    task_id = world.owned("instance", gate_open=False)
    assert world.claim() == []
    world.set_gate("instance", is_open=True)
    (lease,) = world.claim()
    assert lease.task_id == task_id
    world.start(lease)
    world.report(lease, failed())
    assert world.task(task_id).holds is Holds.DELAY
    assert world.claim() == []


@pytest.mark.rule("PUL-10")
@pytest.mark.parametrize("back", ["released", "lapsed", "failed", "told before the start"])
def test_the_gate_bit_is_kept_by_every_requeue(world: World, back: str) -> None:
    """The gate closes while a worker holds the task; it must not run again until it opens."""
    task_id = world.owned("instance", effect=Effect.NONE)
    (lease,) = world.claim()
    if back == "failed":
        world.start(lease)
    world.set_gate("instance", is_open=False)
    match back:
        case "released":
            world.release(lease)
        case "lapsed":
            world.pass_ms(10_000)
            world.sweep()
        case _:
            world.report(lease, failed())
    assert world.task(task_id).holds & Holds.GATE
    world.pass_ms(60_000)
    world.sweep()
    assert world.task(task_id).holds is Holds.GATE
    assert world.claim() == []
    world.set_gate("instance", is_open=True)
    assert [found.task_id for found in world.claim()] == [task_id]


@pytest.mark.rule("PUL-10", "PUL-2")
def test_a_closed_gate_refuses_the_start_of_what_is_leased(world: World) -> None:
    task_id = world.owned("instance")
    (lease,) = world.claim()
    world.set_gate("instance", is_open=False)
    answer = world.start(lease)
    assert answer.rejected is not None
    assert answer.rejected.code == "GATE_CLOSED"
    assert world.attempts(task_id) == []
    world.set_gate("instance", is_open=True)
    assert world.start(lease).rejected is None


@pytest.mark.rule("PUL-14")
def test_a_worker_drains(world: World) -> None:
    """Unstarted leases go back at once, what runs is finished, what is abandoned is UNKNOWN."""
    for _ in range(3):
        world.create()
    unstarted, finished, abandoned = world.claim(3)
    world.turn(starts=[finished.named, abandoned.named])
    answer = world.turn(
        releases=[unstarted.named, finished.named],
        reports=[Reported(abandoned.task_id, abandoned.token, unknown("the worker shut down"))],
    )
    given_back, refused = answer.releases
    assert (given_back.rejected, given_back.state) == (None, "QUEUED")
    assert refused.rejected is not None
    assert refused.rejected.code == "REPORT_CONFLICT"
    assert world.report(finished, succeeded()).state == "SUCCEEDED"
    assert world.state(abandoned.task_id) == "NEEDS_REVIEW"
    assert world.task(unstarted.task_id).unstarted_losses == 0
    assert [lease.task_id for lease in world.claim(3)] == [unstarted.task_id]


def test_what_comes_while_a_turn_looks_is_not_promised_and_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task appears just after the look that found nothing: leased for good, or not at all."""
    made: list[str] = []

    def look_and_create(tx: Tx, namespace: str, queues: Sequence[str]) -> bool:
        found = something_claimable(tx, namespace, queues)
        made.append(world.create())
        return found

    monkeypatch.setattr("pulseweave.txn.pulse.turn.something_claimable", look_and_create)
    leases = world.claim()
    monkeypatch.undo()
    for task_id in made:
        assert world.state(task_id) == ("LEASED" if leases else "QUEUED")
    assert bool(made) == (world.database.write_lock is not None)


@pytest.mark.parametrize("queues", [("q",), ("q", "other")])
def test_a_turn_with_nothing_to_do_writes_nothing(world: World, queues: tuple[str, ...]) -> None:
    """On SQLite it does not even take the write lock."""
    world.create(queue="elsewhere")
    commits = world.database.commits
    assert world.claim(5, queues) == []
    if world.database.write_lock is not None:
        assert world.database.commits == commits
    world.create()
    world.queue(paused=1)
    commits = world.database.commits
    assert world.claim(5, queues) == []
    if world.database.write_lock is not None:
        assert world.database.commits == commits
