"""What people do when a charge failed, and when its outcome got lost after a cancel."""

import pytest

from tests.process.scene import BRISK, PATIENT, Scene


@pytest.mark.rule("S2")
def test_a_known_failure_is_retried_once_with_its_original_deadline(scene: Scene) -> None:
    [order] = scene.names(1)
    scene.provider.set_fault("charge", "refuse", order_id=order, times=1)
    run = scene.start(order, PATIENT)
    scene.processes.start_worker()
    command = scene.command(run, "RETRY_STEP")
    first = scene.get(run).tasks[0]
    scene.client.recovery.retry_step(run, **command, safe_to_retry=True)
    second = scene.get(run).tasks[-1]
    assert (second.retry_of, second.deadline_at) == (first.id, first.deadline_at)
    assert second.holds == ["GATE"]
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    charge = scene.task(run)
    assert (charge.id, charge.attempt_count) == (second.id, 1)
    scene.check(order)
    assert scene.accepted(run) == ["RETRY_STEP", "CONTINUE"]


@pytest.mark.rule("S5")
def test_an_outcome_unknown_after_cancel_settles_the_original_stop(scene: Scene) -> None:
    [order] = scene.names(1)
    scene.provider.set_fault("charge", "hold", order_id=order, times=1)
    run = scene.start(order, BRISK)
    scene.processes.start_worker()
    scene.provider.wait_held(order_id=order)
    control = scene.get(run).control_revision
    receipt = scene.client.instances.cancel(
        run, expected_control_revision=control, reason="the customer called"
    )
    assert (receipt.state_after, receipt.stop_kind) == ("CANCELLING", "CANCEL")
    scene.kill_worker()
    scene.provider.release(order_id=order)
    scene.processes.start_worker()
    scene.until_state(run, "NEEDS_REVIEW")
    assert scene.get(run).stop_kind == "CANCEL"
    scene.conclude(run, order)
    detail = scene.get(run)
    assert (detail.state, detail.stop_kind) == ("NEEDS_REVIEW", "CANCEL")
    scene.go_on(run)
    scene.until_state(run, "CANCELLED")
    detail = scene.get(run)
    assert [(a.step_key, a.sequence) for a in detail.activations] == [("charge", 1)]
    assert [task.handler for task in detail.tasks] == ["payments.charge"]
    effects = scene.provider.effects(order_id=order)
    assert [effect["kind"] for effect in effects] == ["charge"], "no successor ran"
    scene.check(order)
    operations = scene.accepted(run)
    assert operations == ["CANCEL", "REVIEW_TASK", "RESOLVE_STEP", "CONTINUE"]
