"""Deadlines, latest starts, attempt timeouts and cancelling: before the start and while it runs."""

from collections.abc import Callable
from typing import Any

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.report import Report
from pulseweave.kernel import limits
from pulseweave.kernel.errors import Rejected
from pulseweave.txn.pulse import cancel
from tests.pulse.world import World, cancelled, failed, succeeded, unknown


def ask_to_cancel(
    world: World, task_id: str, *, key: str = "k", instance_id: str | None = None
) -> str:
    command = cancel.CancelTask(
        principal=world.principal,
        task_id=task_id,
        instance_id=instance_id,
        idempotency_key=key,
        expected_task_revision=world.task(task_id).revision,
        reason="not wanted any more",
    )
    receipt = cancel.execute(world.database, command, ids=world.ids)
    return str(receipt["state_after"])


def in_a_paused_queue(world: World, told: dict[str, Any]) -> str:
    world.queue(paused=1)
    return world.create(**told)


def behind_a_closed_gate(world: World, told: dict[str, Any]) -> str:
    return world.owned("instance", gate_open=False, **told)


def under_a_lease(world: World, told: dict[str, Any]) -> str:
    task_id = world.create(**told)
    world.pass_ms(4_000)
    world.claim()
    return task_id


def in_a_delay(world: World, told: dict[str, Any]) -> str:
    task_id = world.create(**told)
    for delay_ms in (1_000, 2_000):
        (lease,) = world.claim()
        world.report(lease, failed())
        world.pass_ms(delay_ms)
        world.sweep()
    (lease,) = world.claim()
    world.report(lease, failed())
    return task_id


def behind_a_key(world: World, told: dict[str, Any]) -> str:
    world.create(concurrency_key="k")
    task_id = world.create(concurrency_key="k", **told)
    world.claim(2)
    world.pass_ms(1_000)
    return task_id


@pytest.mark.rule("PUL-7")
@pytest.mark.parametrize(
    ("told", "code"),
    [({"deadline_ms": 5_000}, "DEADLINE_EXCEEDED"), ({"start_within_ms": 5_000}, "START_EXPIRED")],
)
@pytest.mark.parametrize(
    "held",
    [in_a_paused_queue, behind_a_closed_gate, under_a_lease, in_a_delay, behind_a_key],
)
def test_passing_unstarted_is_a_failure_whatever_holds_the_task(
    world: World,
    told: dict[str, Any],
    code: str,
    held: Callable[[World, dict[str, Any]], str],
) -> None:
    made_at = world.now
    task_id = held(world, told)
    left_ms = 5_000 - (world.now - made_at) // 1000
    world.pass_ms(left_ms - 1)
    world.sweep()
    assert world.events(task_id) == []
    world.pass_ms(1)
    world.sweep()
    (event,) = world.events(task_id)
    assert (event.kind, event.code, event.attempt) == ("FAILED", code, None)
    assert world.state(task_id) == "FAILED"
    assert world.attempts(task_id) == []


@pytest.mark.rule("PUL-7")
def test_a_claim_settles_what_has_expired_rather_than_hand_it_out(world: World) -> None:
    expired = world.create(deadline_ms=1_000)
    alive = world.create()
    world.pass_ms(1_000)
    (lease,) = world.claim(2)
    assert lease.task_id == alive
    assert world.state(expired) == "FAILED"
    assert world.kinds(expired) == ["FAILED"]


@pytest.mark.rule("PUL-2", "PUL-7")
def test_a_start_checks_deadline_and_latest_start_on_the_row(world: World) -> None:
    task_id = world.create(start_within_ms=5_000)
    (lease,) = world.claim()
    world.pass_ms(5_000)
    answer = world.start(lease)
    assert answer.rejected is not None
    assert answer.rejected.code == "START_REFUSED"
    assert world.state(task_id) == "FAILED"
    assert world.events(task_id)[0].code == "START_EXPIRED"
    assert world.attempts(task_id) == []


@pytest.mark.rule("PUL-7")
def test_the_deadline_while_running_asks_to_cancel_and_ends_renewal(world: World) -> None:
    task_id = world.create(deadline_ms=60_000, lease_ms=30_000)
    lease = world.running()
    world.pass_ms(25_000)
    assert world.heartbeat(lease).cancel is False
    world.pass_ms(25_000)
    world.heartbeat(lease)
    world.pass_ms(10_000)
    answer = world.heartbeat(lease)
    assert answer.cancel is True
    assert answer.lease_ms == limits.CANCEL_GRACE_MS, "renewal ends a grace after it"
    world.pass_ms(limits.CANCEL_GRACE_MS - 1)
    assert world.heartbeat(lease).lease_ms == 1
    world.pass_ms(1)
    refused = world.heartbeat(lease)
    assert refused.rejected is not None
    assert refused.rejected.code == "LEASE_LOST"
    world.sweep()
    assert world.state(task_id) == "NEEDS_REVIEW"


@pytest.mark.rule("PUL-7")
def test_a_report_within_the_lease_is_a_fact_even_after_the_deadline(world: World) -> None:
    task_id = world.create(deadline_ms=5_000)
    lease = world.running()
    world.pass_ms(20_000)
    assert world.sweep() == 0
    assert world.report(lease, succeeded()).state == "SUCCEEDED"
    assert world.kinds(task_id) == ["SUCCEEDED"]


@pytest.mark.rule("PUL-5")
def test_an_attempt_timeout_asks_to_cancel_then_the_lease_is_lost(world: World) -> None:
    task_id = world.create(attempt_timeout_ms=40_000, lease_ms=30_000)
    lease = world.running()
    world.pass_ms(25_000)
    world.heartbeat(lease)
    world.pass_ms(15_000)
    assert world.heartbeat(lease).cancel is True
    world.pass_ms(limits.CANCEL_GRACE_MS)
    assert world.sweep() == 1
    assert world.state(task_id) == "NEEDS_REVIEW"


@pytest.mark.rule("PUL-5", "PUL-4")
def test_an_attempt_that_stopped_in_time_is_tried_again(world: World) -> None:
    task_id = world.create(attempt_timeout_ms=5_000)
    lease = world.running()
    world.pass_ms(5_000)
    assert world.report(lease, cancelled()).state == "QUEUED"
    (attempt,) = world.attempts(task_id)
    assert (attempt.outcome, attempt.code) == ("FAILED", "ATTEMPT_TIMEOUT")


@pytest.mark.rule("PUL-8")
def test_unstarted_work_is_cancelled_at_once(world: World) -> None:
    queued, leased = world.create(), world.create(queue="other")
    (lease,) = world.claim(1, ["other"])
    for task_id in (queued, leased):
        assert ask_to_cancel(world, task_id, key=task_id) == "CANCELLED"
        assert world.kinds(task_id) == ["CANCELLED"]
    answer = world.start(lease)
    assert answer.rejected is not None
    assert answer.rejected.code == "LEASE_LOST"
    assert world.attempts(leased) == []


@pytest.mark.rule("PUL-8", "PUL-4")
@pytest.mark.parametrize(
    ("told", "state"),
    [
        (cancelled(), "CANCELLED"),
        (succeeded(), "SUCCEEDED"),
        (failed(), "FAILED"),
        (unknown(), "NEEDS_REVIEW"),
    ],
)
def test_running_work_is_asked_and_its_report_decides(
    world: World, told: Report, state: str
) -> None:
    task_id = world.create()
    lease = world.running()
    assert ask_to_cancel(world, task_id) == "RUNNING"
    assert world.heartbeat(lease).cancel is True
    assert world.events(task_id) == []
    assert world.report(lease, told).state == state
    assert world.kinds(task_id) == [state]


@pytest.mark.rule("PUL-8", "PUL-3")
def test_a_lost_lease_decides_too_and_gets_no_further_attempt(world: World) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT, max_attempts=5)
    world.running()
    ask_to_cancel(world, task_id)
    world.pass_ms(30_000)
    world.sweep()
    assert world.state(task_id) == "NEEDS_REVIEW"


@pytest.mark.rule("PUL-3", "PUL-8")
def test_a_tainted_task_is_not_simply_cancelled(world: World) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT)
    world.report(world.running(), unknown())
    assert ask_to_cancel(world, task_id) == "NEEDS_REVIEW"
    assert world.kinds(task_id) == ["NEEDS_REVIEW"]


@pytest.mark.rule("PUL-18")
def test_a_workflows_task_may_be_cancelled_alone_by_its_instance(world: World) -> None:
    task_id = world.owned("instance")
    with pytest.raises(Rejected) as refusal:
        ask_to_cancel(world, task_id, instance_id=None)
    assert refusal.value.code == "NOT_OWNED"
    with pytest.raises(Rejected) as refusal:
        ask_to_cancel(world, task_id, instance_id="another")
    assert refusal.value.code == "NOT_OWNED"
    assert ask_to_cancel(world, task_id, instance_id="instance") == "CANCELLED"
    (event,) = world.events(task_id)
    assert (event.kind, event.instance_id) == ("CANCELLED", "instance")


@pytest.mark.rule("PUL-18")
def test_a_cancel_names_the_revision_that_it_was_decided_on(world: World) -> None:
    task_id = world.create()
    old = world.task(task_id).revision
    world.running()
    command = cancel.CancelTask(
        principal=world.principal,
        task_id=task_id,
        instance_id=None,
        idempotency_key="k",
        expected_task_revision=old,
        reason="not wanted",
    )
    with pytest.raises(Rejected) as refusal:
        cancel.execute(world.database, command, ids=world.ids)
    assert refusal.value.code == "TASK_REVISION_CONFLICT"
    assert refusal.value.detail["current_task_revision"] == str(world.task(task_id).revision)
    assert world.task(task_id).cancel_requested_at is None


def test_cancelling_what_is_asked_in_review_or_settled_says_why_not(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    ask_to_cancel(world, task_id, key="first")
    with pytest.raises(Rejected) as refusal:
        ask_to_cancel(world, task_id, key="second")
    assert refusal.value.code == "EXECUTION_UNSETTLED"
    world.report(lease, unknown())
    with pytest.raises(Rejected) as refusal:
        ask_to_cancel(world, task_id, key="third")
    assert refusal.value.code == "EXECUTION_UNSETTLED"
    settled = world.create()
    ask_to_cancel(world, settled, key="fourth")
    with pytest.raises(Rejected) as refusal:
        ask_to_cancel(world, settled, key="fifth")
    assert refusal.value.code == "TASK_SETTLED"
