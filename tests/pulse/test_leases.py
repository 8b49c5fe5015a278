"""Claim, start, and what the loss of a lease before or after the start means."""

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import Leased, Queued, Running
from pulseweave.kernel import limits
from tests.pulse.world import Lease, World, failed, succeeded, unknown


@pytest.mark.rule("PUL-2")
def test_a_claim_leases_and_authorises_nothing(world: World) -> None:
    task_id = world.create()
    (lease,) = world.claim()
    assert lease.task_id == task_id
    phase = world.task(task_id).phase
    expires_at = world.now + limits.UNSTARTED_LEASE_MS * 1000
    assert phase == Leased(token=lease.token, expires_at=expires_at)
    assert world.attempts(task_id) == []
    assert world.task(task_id).attempt_count == 0
    assert world.claim() == [], "a leased task is nobody else's"


@pytest.mark.rule("PUL-2")
@pytest.mark.parametrize("effect", list(Effect))
def test_a_start_makes_the_attempt_and_counts_it(world: World, effect: Effect) -> None:
    task_id = world.create(effect=effect, lease_ms=30_000)
    (lease,) = world.claim()
    answer = world.start(lease)
    assert (answer.rejected, answer.attempt, answer.lease_ms) == (None, 1, 30_000)
    task = world.task(task_id)
    expires_at = world.now + 30_000_000
    assert task.phase == Running(token=lease.token, expires_at=expires_at, stop_at=None)
    (attempt,) = world.attempts(task_id)
    assert (attempt.number, attempt.lease_token, attempt.outcome) == (1, lease.token, None)
    assert task.attempt_count == 1


@pytest.mark.rule("PUL-2")
def test_a_start_asked_again_is_the_same_start(world: World) -> None:
    world.create()
    lease = world.running()
    again = world.start(lease)
    assert (again.rejected, again.attempt) == (None, 1)
    assert len(world.attempts(lease.task_id)) == 1


@pytest.mark.rule("PUL-2", "PUL-6")
def test_a_start_needs_the_lease(world: World) -> None:
    task_id = world.create()
    (lease,) = world.claim()
    wrong = world.start(Lease(task_id, "not-the-token"))
    assert wrong.rejected is not None
    assert wrong.rejected.code == "LEASE_LOST"
    world.pass_ms(limits.UNSTARTED_LEASE_MS)
    late = world.start(lease)
    assert late.rejected is not None
    assert late.rejected.code == "LEASE_LOST"
    assert world.attempts(task_id) == []


@pytest.mark.rule("PUL-2")
def test_work_handed_to_a_caller_that_vanished_comes_back(world: World) -> None:
    task_id = world.create(max_attempts=1)
    world.claim()
    world.pass_ms(limits.UNSTARTED_LEASE_MS - 1)
    assert world.sweep() == 0
    world.pass_ms(1)
    assert world.sweep() == 1
    task = world.task(task_id)
    assert task.phase == Queued(due_at=world.now + 1_000_000)
    assert (task.attempt_count, task.unstarted_losses) == (0, 1)
    assert world.events(task_id) == [], "a known non-execution is no result"
    world.pass_ms(1_000)
    assert world.sweep() == 1
    lease = world.running()
    assert world.report(lease, succeeded()).state == "SUCCEEDED", "the only attempt is unused"


@pytest.mark.rule("PUL-2")
def test_what_kills_its_workers_does_not_hot_loop(world: World) -> None:
    task_id = world.create()
    delays_ms = []
    for _ in range(10):
        assert len(world.claim()) == 1
        world.pass_ms(limits.UNSTARTED_LEASE_MS)
        world.sweep()
        phase = world.task(task_id).phase
        assert isinstance(phase, Queued)
        assert phase.due_at is not None
        assert world.claim() == [], "it is out of the claim index while it waits"
        delays_ms.append((phase.due_at - world.now) // 1000)
        world.pass_ms(delays_ms[-1])
        world.sweep()
    assert delays_ms[:4] == [1_000, 2_000, 4_000, 8_000]
    assert delays_ms[-1] == limits.UNSTARTED_DELAY_MS_MAX
    assert world.task(task_id).unstarted_losses == 10
    assert world.attempts(task_id) == []


@pytest.mark.rule("PUL-2")
def test_a_lease_belongs_to_one_claim_not_to_a_workers_name(world: World) -> None:
    """All turns here come from a worker of one name; only the token counts."""
    first = world.create()
    old = world.running()
    world.create()
    new = world.running()
    world.pass_ms(20_000)
    assert world.heartbeat(new).rejected is None
    world.pass_ms(10_000)
    assert world.sweep() == 1, "the heartbeats of a namesake keep nothing alive"
    assert world.state(first) == "NEEDS_REVIEW"
    refused = world.heartbeat(Lease(old.task_id, new.token))
    assert refused.rejected is not None
    assert refused.rejected.code == "LEASE_LOST"


@pytest.mark.rule("PUL-2")
def test_the_attempt_count_is_the_number_of_attempt_rows(world: World) -> None:
    task_id = world.create(max_attempts=4, effect=Effect.IDEMPOTENT)
    for told in (failed(), unknown(), failed()):
        world.report(world.running(), told)
        world.pass_ms(1_000)
        world.sweep()
        assert world.task(task_id).attempt_count == len(world.attempts(task_id))
    world.claim()
    world.pass_ms(limits.UNSTARTED_LEASE_MS)
    world.sweep()
    assert world.task(task_id).attempt_count == len(world.attempts(task_id)) == 3


@pytest.mark.rule("PUL-3")
def test_at_most_once_lost_after_the_start_needs_a_person(world: World) -> None:
    task_id = world.create(effect=Effect.AT_MOST_ONCE, max_attempts=3)
    world.running()
    world.pass_ms(30_000)
    assert world.sweep() == 1
    task = world.task(task_id)
    assert (task.state, task.tainted) == ("NEEDS_REVIEW", True)
    (attempt,) = world.attempts(task_id)
    assert (attempt.outcome, attempt.closed_by, attempt.code) == (
        "UNKNOWN",
        "LEASE_LOST",
        "LEASE_LOST",
    )
    assert world.kinds(task_id) == ["NEEDS_REVIEW"]
    assert world.claim() == []


@pytest.mark.rule("PUL-3")
def test_idempotent_work_is_tried_again_within_its_budget(world: World) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT, max_attempts=2)
    world.running()
    world.pass_ms(30_000)
    world.sweep()
    task = world.task(task_id)
    assert task.phase == Queued(due_at=world.now + 1_000_000)
    assert task.tainted
    assert world.events(task_id) == []
    world.pass_ms(1_000)
    world.sweep()
    world.running()
    world.pass_ms(30_000)
    world.sweep()
    assert world.state(task_id) == "NEEDS_REVIEW", "the budget is used up"
    assert [a.outcome for a in world.attempts(task_id)] == ["UNKNOWN", "UNKNOWN"]


@pytest.mark.rule("PUL-3")
def test_work_without_effect_just_failed(world: World) -> None:
    task_id = world.create(effect=Effect.NONE, max_attempts=2)
    for state in ("QUEUED", "FAILED"):
        world.running()
        world.pass_ms(30_000)
        world.sweep()
        assert world.state(task_id) == state
        world.pass_ms(1_000)
        world.sweep()
    task = world.task(task_id)
    assert not task.tainted
    assert [a.outcome for a in world.attempts(task_id)] == ["FAILED", "FAILED"]
    assert world.kinds(task_id) == ["FAILED"]


@pytest.mark.rule("PUL-3", "PUL-7")
def test_a_tainted_task_that_expires_needs_a_person(world: World) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT, deadline_ms=60_000)
    world.report(world.running(), unknown())
    assert world.state(task_id) == "QUEUED"
    world.pass_ms(60_000)
    world.sweep()
    assert world.state(task_id) == "NEEDS_REVIEW"
    (event,) = world.events(task_id)
    assert (event.kind, event.code) == ("NEEDS_REVIEW", "DEADLINE_EXCEEDED")


@pytest.mark.rule("PUL-3")
@pytest.mark.parametrize(("retryable", "state"), [(False, "FAILED"), (True, "NEEDS_REVIEW")])
def test_a_tainted_task_settles_only_on_success_or_a_final_failure(
    world: World, *, retryable: bool, state: str
) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT, max_attempts=2)
    world.report(world.running(), unknown())
    world.pass_ms(1_000)
    world.sweep()
    world.report(world.running(), failed(retryable=retryable))
    assert world.state(task_id) == state


def test_a_heartbeat_renews_and_moves_no_revision(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    revision = world.task(task_id).revision
    for _ in range(5):
        world.pass_ms(29_000)
        answer = world.heartbeat(lease)
        assert (answer.rejected, answer.lease_ms, answer.cancel) == (None, 30_000, False)
        assert world.sweep() == 0
    assert world.task(task_id).revision == revision
    assert len(world.attempts(task_id)) == 1


def test_a_lapsed_lease_is_never_revived(world: World) -> None:
    world.create()
    lease = world.running()
    world.pass_ms(30_000)
    answer = world.heartbeat(lease)
    assert answer.rejected is not None
    assert answer.rejected.code == "LEASE_LOST"
