"""What workers report, once, twice, late, or wrongly."""

from dataclasses import replace

import pytest

from pulseweave.core.pulse.policy import Backoff, Effect
from pulseweave.core.pulse.report import Report
from pulseweave.core.pulse.task import Queued
from pulseweave.kernel import limits
from pulseweave.txn.pulse.turn import Reported
from tests.pulse.world import Lease, World, cancelled, failed, succeeded, unknown


@pytest.mark.rule("PUL-4")
def test_success_settles_with_its_result(world: World) -> None:
    task_id = world.create()
    answer = world.report(world.running(), succeeded({"charge": "c1"}))
    assert (answer.rejected, answer.state) == (None, "SUCCEEDED")
    detail = world.detail(task_id)
    assert detail.result == '{"charge":"c1"}'
    (attempt,) = detail.attempts
    assert (attempt.outcome, attempt.closed_by, attempt.task_state) == (
        "SUCCEEDED",
        "REPORT",
        "SUCCEEDED",
    )
    (event,) = world.events(task_id)
    assert (event.kind, event.attempt, event.task_revision) == ("SUCCEEDED", 1, 4)
    assert event.task_revision == detail.task.revision


@pytest.mark.rule("PUL-4", "PUL-5")
def test_a_retryable_failure_is_tried_again_by_the_fixed_policy(world: World) -> None:
    backoff = Backoff(initial_ms=2_000, factor=3, max_ms=10_000, jitter=0)
    task_id = world.create(max_attempts=4, backoff=backoff)
    delays_ms = []
    for _ in range(3):
        assert world.report(world.running(), failed("BUSY")).state == "QUEUED"
        phase = world.task(task_id).phase
        assert isinstance(phase, Queued)
        assert phase.due_at is not None
        delays_ms.append((phase.due_at - world.now) // 1000)
        world.pass_ms(delays_ms[-1] - 1)
        assert world.sweep() == 0
        assert world.claim() == []
        world.pass_ms(1)
        assert world.sweep() == 1
    assert delays_ms == [2_000, 6_000, 10_000]
    assert world.report(world.running(), failed("BUSY")).state == "FAILED"
    (event,) = world.events(task_id)
    assert (event.kind, event.code, event.attempt) == ("FAILED", "BUSY", 4)


@pytest.mark.rule("PUL-5")
def test_jitter_spreads_the_delay_within_its_share(world: World) -> None:
    backoff = Backoff(initial_ms=10_000, factor=1, max_ms=10_000, jitter=0.5)
    delays_ms = set()
    for _ in range(8):
        task_id = world.create(backoff=backoff)
        world.report(world.running(), failed())
        phase = world.task(task_id).phase
        assert isinstance(phase, Queued)
        assert phase.due_at is not None
        delays_ms.add((phase.due_at - world.now) // 1000)
    assert len(delays_ms) > 1
    assert all(5_000 <= delay <= 15_000 for delay in delays_ms)


@pytest.mark.rule("PUL-5", "PUL-7")
def test_no_attempt_is_made_past_the_deadline(world: World) -> None:
    task_id = world.create(deadline_ms=30_000, lease_ms=60_000)
    lease = world.running()
    world.pass_ms(29_500)
    assert world.report(lease, failed("BUSY")).state == "FAILED", "1 s of delay ends past it"
    assert world.events(task_id)[0].code == "BUSY"


@pytest.mark.rule("PUL-4")
def test_a_final_failure_leaves_the_budget_unused(world: World) -> None:
    task_id = world.create(max_attempts=3)
    assert world.report(world.running(), failed(retryable=False)).state == "FAILED"
    assert world.task(task_id).attempt_count == 1


@pytest.mark.rule("PUL-4", "PUL-3")
@pytest.mark.parametrize(
    ("effect", "state"),
    [
        (Effect.AT_MOST_ONCE, "NEEDS_REVIEW"),
        (Effect.IDEMPOTENT, "QUEUED"),
        (Effect.NONE, "QUEUED"),
    ],
)
def test_unknown_is_never_taken_for_a_failure_of_what_may_have_acted(
    world: World, effect: Effect, state: str
) -> None:
    task_id = world.create(effect=effect)
    assert world.report(world.running(), unknown()).state == state
    (attempt,) = world.attempts(task_id)
    assert attempt.outcome == ("FAILED" if effect is Effect.NONE else "UNKNOWN")
    assert world.task(task_id).tainted == (effect is not Effect.NONE)


@pytest.mark.rule("PUL-4")
def test_cancelled_is_refused_where_nobody_asked(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    answer = world.report(lease, cancelled())
    assert answer.rejected is not None
    assert answer.rejected.code == "REPORT_CONFLICT"
    assert world.state(task_id) == "RUNNING"
    assert world.report(lease, succeeded()).state == "SUCCEEDED"


@pytest.mark.rule("PUL-4")
@pytest.mark.parametrize("told", [succeeded(), unknown(), cancelled()])
def test_only_a_known_failure_can_be_told_before_the_start(world: World, told: Report) -> None:
    task_id = world.create()
    (lease,) = world.claim()
    answer = world.report(lease, told)
    assert answer.rejected is not None
    assert answer.rejected.code == "NOT_STARTED"
    assert world.state(task_id) == "LEASED"


@pytest.mark.rule("PUL-4")
def test_a_failure_before_the_start_uses_no_attempt(world: World) -> None:
    task_id = world.create(max_attempts=1)
    (lease,) = world.claim()
    assert world.report(lease, failed()).state == "QUEUED"
    task = world.task(task_id)
    assert (task.attempt_count, task.unstarted_losses) == (0, 1)
    assert task.phase == Queued(due_at=world.now + 1_000_000)
    world.pass_ms(1_000)
    world.sweep()
    (lease,) = world.claim()
    assert world.report(lease, failed("BAD_INPUT", retryable=False)).state == "FAILED"
    assert world.attempts(task_id) == []
    (event,) = world.events(task_id)
    assert (event.kind, event.code, event.attempt) == ("FAILED", "BAD_INPUT", None)


@pytest.mark.rule("PUL-6")
@pytest.mark.parametrize(
    ("told", "state"),
    [(succeeded(1), "SUCCEEDED"), (failed(), "QUEUED"), (unknown(), "NEEDS_REVIEW")],
)
def test_the_same_report_twice_gets_the_same_answer(world: World, told: Report, state: str) -> None:
    task_id = world.create()
    lease = world.running()
    first = world.report(lease, told)
    revision = world.task(task_id).revision
    world.pass_ms(1_000)
    world.sweep()
    again = world.report(lease, told)
    assert (first.state, again.state) == (state, state), "also after the task has moved on"
    assert again.rejected is None
    assert again.repeated
    assert world.task(task_id).revision == revision
    assert world.late_reports(task_id) == []
    assert len(world.attempts(task_id)) == 1


@pytest.mark.rule("PUL-6")
def test_the_same_report_twice_in_one_turn_gets_the_same_answer(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    told = Reported(lease.task_id, lease.token, succeeded(1))
    answers = world.turn(reports=[told, told]).reports
    assert [a.state for a in answers] == ["SUCCEEDED", "SUCCEEDED"]
    assert [a.rejected for a in answers] == [None, None]
    assert world.kinds(task_id) == ["SUCCEEDED"]
    assert world.late_reports(task_id) == []


@pytest.mark.rule("PUL-6")
def test_another_report_of_a_closed_attempt_is_refused_and_kept(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    world.report(lease, succeeded(1))
    other = world.report(lease, succeeded(2))
    assert other.rejected is not None
    assert other.rejected.code == "REPORT_CONFLICT"
    assert world.detail(task_id).result == "1"
    (late,) = world.late_reports(task_id)
    assert (late.id, late.attempt, late.result) == (other.late_report_id, 1, "2")


@pytest.mark.rule("PUL-6")
def test_a_stale_report_is_kept_on_its_attempt_and_moves_nothing(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    world.pass_ms(30_000)
    world.sweep()
    before = world.task(task_id)
    answer = world.report(lease, succeeded({"charge": "c1"}))
    assert answer.rejected is not None
    assert answer.rejected.code == "LEASE_LOST"
    (late,) = world.late_reports(task_id)
    assert (late.id, late.attempt, late.outcome, late.result) == (
        answer.late_report_id,
        1,
        "SUCCEEDED",
        '{"charge":"c1"}',
    )
    after = world.task(task_id)
    assert after == replace(before, revision=before.revision + 1), "a review must see it"
    assert world.kinds(task_id) == ["NEEDS_REVIEW"]


@pytest.mark.rule("PUL-6")
def test_the_same_stale_report_twice_is_kept_once(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    world.pass_ms(30_000)
    world.sweep()
    first = world.report(lease, succeeded(1))
    revision = world.task(task_id).revision
    told = Reported(lease.task_id, lease.token, succeeded(1))
    for again in world.turn(reports=[told, told]).reports:
        assert again.rejected is not None
        assert again.rejected.code == "LEASE_LOST"
        assert again.late_report_id == first.late_report_id
    assert len(world.late_reports(task_id)) == 1
    assert world.task(task_id).revision == revision


@pytest.mark.rule("PUL-6")
def test_a_stale_report_while_another_attempt_runs_disturbs_it_in_nothing(world: World) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT)
    old = world.running()
    world.pass_ms(30_000)
    world.sweep()
    world.pass_ms(1_000)
    world.sweep()
    new = world.running()
    assert world.report(old, failed()).late_report_id is not None
    assert world.heartbeat(new).rejected is None
    assert world.report(new, succeeded(2)).state == "SUCCEEDED"
    assert [a.outcome for a in world.attempts(task_id)] == ["UNKNOWN", "SUCCEEDED"]


@pytest.mark.rule("PUL-6")
def test_nothing_is_kept_of_a_failure_under_a_lease_that_was_never_started(world: World) -> None:
    task_id = world.create()
    (lease,) = world.claim()
    world.pass_ms(limits.UNSTARTED_LEASE_MS)
    world.sweep()
    revision = world.task(task_id).revision
    answer = world.report(lease, failed())
    assert answer.rejected is not None
    assert answer.rejected.code == "LEASE_LOST"
    assert world.late_reports(task_id) == []
    assert world.task(task_id).revision == revision
    kept = world.report(lease, succeeded())
    assert kept.late_report_id is not None, "an effect without authority is evidence"
    (late,) = world.late_reports(task_id)
    assert late.attempt is None


@pytest.mark.rule("PUL-6", "PUL-7")
def test_a_report_counts_while_nobody_else_was_authorised(world: World) -> None:
    """The lease's instant has passed, but the token still stands on the row."""
    world.create()
    lease = world.running()
    world.pass_ms(40_000)
    assert world.report(lease, succeeded()).state == "SUCCEEDED"


@pytest.mark.rule("PUL-17")
@pytest.mark.parametrize("told", [succeeded(2), failed(retryable=False)])
def test_a_late_report_after_settlement_appends_a_late_event(world: World, told: Report) -> None:
    task_id = world.create()
    lease = world.running()
    world.report(lease, succeeded(1))
    revision = world.task(task_id).revision
    answer = world.report(lease, told)
    events = world.events(task_id)
    assert [e.kind for e in events] == ["SUCCEEDED", "LATE"]
    assert [e.seq for e in events] == [1, 2], "in order with the rest"
    assert events[1].late_report_id == answer.late_report_id
    assert (world.state(task_id), world.task(task_id).revision) == ("SUCCEEDED", revision)


@pytest.mark.parametrize(
    "entry", [lambda w, n: w.start(n), lambda w, n: w.heartbeat(n), lambda w, n: w.release(n)]
)
def test_other_namespaces_and_queues_have_no_such_task(world: World, entry: object) -> None:
    task_id = world.create(queue="secret")
    (lease,) = world.claim(1, ["secret"])
    blind = world.credential("blind", queues=frozenset({"q"}))
    world.principal, full = blind, world.principal
    assert callable(entry)
    answer = entry(world, lease)
    assert answer.rejected.code == "TASK_NOT_FOUND"
    assert world.report(lease, succeeded()).rejected is not None
    world.principal = full
    assert world.state(task_id) == "LEASED"
    assert world.start(Lease("no-such-task", "t")).rejected is not None


def test_each_entry_of_a_turn_is_answered_on_its_own(world: World) -> None:
    good_id, bad_id = world.create(), world.create()
    good, bad = world.claim(2)
    assert {good.task_id, bad.task_id} == {good_id, bad_id}
    assert world.start(good).rejected is None
    answer = world.turn(
        reports=[
            Reported(bad.task_id, bad.token, succeeded()),
            Reported(good.task_id, good.token, succeeded()),
        ]
    )
    refused, accepted = answer.reports
    assert refused.rejected is not None
    assert refused.rejected.code == "NOT_STARTED"
    assert (accepted.rejected, accepted.state) == (None, "SUCCEEDED")


def test_one_turn_may_start_and_report_the_same_task(world: World) -> None:
    """Reports come before starts: what is told of an unstarted lease is refused, then it starts."""
    world.create()
    (lease,) = world.claim()
    answer = world.turn(
        reports=[Reported(lease.task_id, lease.token, succeeded())],
        heartbeats=[lease.named],
        starts=[lease.named],
    )
    assert answer.reports[0].rejected is not None
    assert answer.heartbeats[0].rejected is None
    assert (answer.starts[0].rejected, answer.starts[0].attempt) == (None, 1)
