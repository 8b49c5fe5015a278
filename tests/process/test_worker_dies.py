"""The worker is killed at each of its named points, and is frozen beyond its lease."""

import os
import signal
from typing import Any

import pytest

from tests.process.scene import BRISK, Scene


@pytest.mark.rule("S1", "PUL-3")
@pytest.mark.parametrize(
    ("point", "charges"),
    [("worker.after_start", 0), ("worker.after_effect", 1), ("worker.before_report:2", 1)],
)
def test_an_unknown_outcome_is_verified_and_the_order_goes_on(
    scene: Scene, point: str, charges: int
) -> None:
    [order] = scene.names(1)
    run = scene.start(order, BRISK)
    scene.worker_dies_at(point)
    scene.processes.start_worker()
    scene.until_state(run, "NEEDS_REVIEW")
    task = scene.task(run)
    assert (task.state, task.attempt_count, task.tainted) == ("NEEDS_REVIEW", 1, True)
    assert [attempt.outcome for attempt in task.attempts] == ["UNKNOWN"]
    scene.check(order, charges=charges)
    scene.conclude(run, order)
    assert scene.state(run) == "NEEDS_REVIEW", "only Continue leaves the review"
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    scene.check(order)
    second = "RESOLVE_STEP" if charges else "RETRY_STEP"
    assert scene.accepted(run) == ["REVIEW_TASK", second, "CONTINUE"]


@pytest.mark.rule("PUL-2")
def test_a_claim_that_was_never_started_runs_again_by_itself(scene: Scene) -> None:
    [order] = scene.names(1)
    run = scene.start(order, BRISK)
    scene.worker_dies_at("worker.after_claim")
    task = scene.task(run)
    assert (task.state, task.attempt_count) == ("LEASED", 0)
    scene.processes.start_worker()
    scene.until_state(run, "SUCCEEDED")
    task = scene.task(run)
    assert (task.attempt_count, task.unstarted_losses, task.tainted) == (1, 1, False)
    scene.check(order)
    assert scene.accepted(run) == []


@pytest.mark.rule("PUL-6")
def test_a_report_that_was_accepted_counts_once_though_its_answer_was_lost(scene: Scene) -> None:
    [order] = scene.names(1)
    run = scene.start(order, BRISK)
    scene.worker_dies_at("worker.after_report:2")
    task = scene.task(run)
    assert (task.state, task.settled_by) == ("SUCCEEDED", "ATTEMPT")
    scene.processes.start_worker()
    scene.until_state(run, "SUCCEEDED")
    assert scene.task(run) == task, "nothing touched it again"
    assert task.late_reports == []
    scene.check(order)
    assert scene.accepted(run) == []


@pytest.mark.rule("PUL-6")
def test_a_worker_that_wakes_after_its_lease_leaves_a_late_report_as_evidence(
    scene: Scene,
) -> None:
    [order] = scene.names(1)
    scene.provider.set_fault("charge", "hold", order_id=order, times=1)
    run = scene.start(order, BRISK)
    scene.processes.start_worker()
    scene.provider.wait_held(order_id=order)
    pid = scene.freeze_worker()
    scene.until_state(run, "NEEDS_REVIEW")
    before = scene.get(run)
    assert scene.task(run).late_reports == []
    scene.provider.release(order_id=order)
    os.kill(pid, signal.SIGCONT)
    scene.until(lambda: scene.task(run).late_reports != [], "the late report")
    task = scene.task(run)
    [late] = task.late_reports
    assert (late.outcome, late.attempt, late.result["order_id"]) == ("SUCCEEDED", 1, order)
    assert (task.state, [a.outcome for a in task.attempts]) == ("NEEDS_REVIEW", ["UNKNOWN"])
    assert (scene.state(run), scene.get(run).revision) == ("NEEDS_REVIEW", before.revision)
    command = scene.command(run, "REVIEW_TASK")
    assert int(command["expected_task_revision"]) == int(before.tasks[0].revision) + 1
    told: dict[str, Any] = {"verdict": "SUCCEEDED", "execution_settled": True}
    scene.client.recovery.review_task(run, **command, **told, late_report_id=late.id)
    command = scene.command(run, "RESOLVE_STEP")
    scene.client.recovery.resolve_step(run, **command, **told, result=late.result)
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    scene.check(order)
    assert scene.accepted(run) == ["REVIEW_TASK", "RESOLVE_STEP", "CONTINUE"]
