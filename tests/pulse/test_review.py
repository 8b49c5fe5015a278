"""What a person settles: a review of a task that no workflow owns, a lease declared lost."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse.policy import Effect
from pulseweave.kernel.errors import Rejected
from pulseweave.store import schema as t
from pulseweave.store.facts.tasks import task_results
from pulseweave.txn.admin.tokens import revoke_token
from pulseweave.txn.pulse import declare_lost, review
from pulseweave.txn.unit import read
from tests.pulse.threads import together
from tests.pulse.world import EVERYTHING, World, failed, succeeded, unknown


def in_review(world: World, **told: Any) -> str:
    task_id = world.create(**told)
    world.report(world.running(), unknown())
    assert world.state(task_id) == "NEEDS_REVIEW"
    return task_id


def review_command(world: World, task_id: str, **told: Any) -> review.ReviewOwnTask:
    plain: dict[str, Any] = {
        "principal": world.principal,
        "task_id": task_id,
        "idempotency_key": "review-1",
        "reason": "looked at the provider's records",
        "evidence_ref": "provider:charge/c1",
        "expected_task_revision": world.task(task_id).revision,
        "declared": True,
        "succeeded": True,
        "result": '{"charge":"c1"}',
        "late_report_id": None,
    }
    return review.ReviewOwnTask(**{**plain, **told})


def judge(world: World, command: review.ReviewOwnTask) -> Mapping[str, Any]:
    return review.execute(world.database, command, ids=world.ids)


@pytest.mark.rule("PUL-13")
@pytest.mark.parametrize(("succeeds", "state"), [(True, "SUCCEEDED"), (False, "FAILED")])
def test_a_verdict_settles_the_task_for_good(world: World, *, succeeds: bool, state: str) -> None:
    task_id = in_review(world, max_attempts=5, concurrency_key="k")
    receipt = judge(world, review_command(world, task_id, succeeded=succeeds))
    assert receipt["state_after"] == state
    task = world.task(task_id)
    assert (task.state, task.holds_key) == (state, False)
    assert world.kinds(task_id) == ["NEEDS_REVIEW", state]
    (audit,) = world.rows(t.execution_audit)
    assert (audit.operation, audit.actor, audit.verdict) == ("REVIEW_TASK", "worker", state)
    assert audit.result == '{"charge":"c1"}'
    assert audit.prior == '{"revision":4,"state":"NEEDS_REVIEW"}'
    (attempt,) = world.attempts(task_id)
    assert (attempt.outcome, attempt.reviewed_by) == ("UNKNOWN", audit.id)
    results = read(world.database, lambda tx: task_results(tx, [task_id]))
    assert results == {task_id: (audit.result, audit.result_digest)}
    assert world.claim() == [], "whatever budget is left"


@pytest.mark.rule("PUL-13")
def test_all_unknown_attempts_are_closed_by_one_verdict(world: World) -> None:
    task_id = world.create(effect=Effect.IDEMPOTENT, max_attempts=2)
    for _ in range(2):
        world.report(world.running(), unknown())
        world.pass_ms(1_000)
        world.sweep()
    judge(world, review_command(world, task_id))
    reviewed = {attempt.reviewed_by for attempt in world.attempts(task_id)}
    assert len(reviewed) == 1
    assert None not in reviewed


@pytest.mark.rule("PUL-13")
def test_a_late_reports_result_can_be_the_verdicts(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    world.pass_ms(30_000)
    world.sweep()
    late_id = world.report(lease, succeeded({"charge": "c9"})).late_report_id
    judge(world, review_command(world, task_id, result=None, late_report_id=late_id))
    assert world.detail(task_id).result == '{"charge":"c9"}'
    assert world.rows(t.execution_audit)[0].late_report_id == late_id


@pytest.mark.rule("PUL-13", "PUL-6")
def test_a_review_decided_without_a_late_report_conflicts(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    world.pass_ms(30_000)
    world.sweep()
    command = review_command(world, task_id)
    world.report(lease, failed())
    with pytest.raises(Rejected) as refusal:
        judge(world, command)
    assert refusal.value.code == "TASK_REVISION_CONFLICT"
    assert world.state(task_id) == "NEEDS_REVIEW"
    judge(world, review_command(world, task_id, succeeded=False))


@pytest.mark.rule("PUL-17")
def test_a_late_report_after_a_verdict_appends_a_late_event(world: World) -> None:
    task_id = world.create()
    lease = world.running()
    world.pass_ms(30_000)
    world.sweep()
    judge(world, review_command(world, task_id, succeeded=False))
    world.report(lease, succeeded())
    assert world.kinds(task_id) == ["NEEDS_REVIEW", "FAILED", "LATE"]
    assert world.state(task_id) == "FAILED", "nothing reported moves a verdict"


@pytest.mark.rule("PUL-13")
@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"declared": False}, "DECLARATION_REQUIRED"),
        ({"expected_task_revision": 1}, "TASK_REVISION_CONFLICT"),
        ({"result": "null"}, "INVALID_COMMAND"),
        ({"result": None}, "INVALID_COMMAND"),
        ({"result": None, "late_report_id": "nothing"}, "INVALID_COMMAND"),
        ({"task_id": "no-such-task"}, "TASK_NOT_FOUND"),
    ],
)
def test_a_refused_review_leaves_nothing(world: World, told: dict[str, Any], code: str) -> None:
    task_id = in_review(world)
    before = (world.task(task_id), world.events(), world.attempts(task_id))
    with pytest.raises(Rejected) as refusal:
        judge(world, replace(review_command(world, task_id), **told))
    assert refusal.value.code == code
    assert (world.task(task_id), world.events(), world.attempts(task_id)) == before
    assert world.rows(t.execution_audit) == world.rows(t.operations) == []
    judge(world, review_command(world, task_id))


@pytest.mark.rule("PUL-13")
def test_only_tasks_in_review_are_reviewed(world: World) -> None:
    task_id = world.create()
    world.running()
    with pytest.raises(Rejected) as refusal:
        judge(world, review_command(world, task_id))
    assert refusal.value.code == "TASK_NOT_IN_REVIEW"


@pytest.mark.rule("PUL-13")
def test_a_workflows_task_is_reviewed_only_through_recovery(world: World) -> None:
    task_id = world.owned("instance")
    world.report(world.running(), unknown())
    with pytest.raises(Rejected) as refusal:
        judge(world, review_command(world, task_id))
    assert refusal.value.code == "NOT_OWNED"
    assert refusal.value.detail["instance_id"] == "instance"


@pytest.mark.rule("PUL-13")
def test_a_review_needs_its_permission_and_queue_as_they_are_now(world: World) -> None:
    task_id = in_review(world)

    def code_for(principal: Principal) -> str:
        with pytest.raises(Rejected) as refusal:
            judge(world, review_command(world, task_id, principal=principal))
        return refusal.value.code

    weak = world.credential("weak", permissions=EVERYTHING - {Permission.TASKS_REVIEW})
    assert code_for(weak) == "PERMISSION_DENIED"
    assert code_for(world.credential("far", queues=frozenset({"other"}))) == "QUEUE_ACCESS_DENIED"
    gone = world.credential("gone")
    revoke_token(world.database, "default", gone.credential_id, actor="test", ids=world.ids)
    assert code_for(gone) == "UNAUTHENTICATED", "the principal in hand is old"
    assert world.state(task_id) == "NEEDS_REVIEW"


@pytest.mark.rule("PUL-13")
def test_the_same_key_and_command_give_the_first_receipt(world: World) -> None:
    task_id = in_review(world)
    command = review_command(world, task_id)
    first = judge(world, command)
    world.pass_ms(60_000)
    assert judge(world, command) == first
    assert judge(world, replace(command, principal=world.credential("colleague"))) == first
    assert len(world.rows(t.execution_audit)) == len(world.rows(t.operations)) == 1
    with pytest.raises(Rejected) as refusal:
        judge(world, replace(command, succeeded=False))
    assert refusal.value.code == "IDEMPOTENCY_CONFLICT"
    with pytest.raises(Rejected) as refusal:
        judge(world, replace(command, idempotency_key="another"))
    assert refusal.value.code == "TASK_REVISION_CONFLICT"


def test_one_key_from_many_threads_is_one_verdict(real_world: World) -> None:
    world = real_world
    task_id = in_review(world)
    command = review_command(world, task_id)
    answers = together([lambda: judge(world, command)] * 6)
    assert all(answer == answers[0] for answer in answers), answers
    assert world.kinds(task_id) == ["NEEDS_REVIEW", "SUCCEEDED"]


def test_many_keys_from_many_threads_are_one_verdict_and_conflicts(real_world: World) -> None:
    world = real_world
    task_id = in_review(world)
    command = review_command(world, task_id)

    def told(number: int) -> str:
        try:
            judge(world, replace(command, idempotency_key=f"key-{number}"))
        except Rejected as refusal:
            return refusal.code
        return "ACCEPTED"

    answers = together([partial(told, number) for number in range(6)])
    assert sorted(answers) == ["ACCEPTED", *["TASK_REVISION_CONFLICT"] * 5]
    assert world.kinds(task_id) == ["NEEDS_REVIEW", "SUCCEEDED"]


def lost_command(world: World, task_id: str, **told: Any) -> declare_lost.DeclareLost:
    plain: dict[str, Any] = {
        "principal": world.principal,
        "task_id": task_id,
        "idempotency_key": "lost-1",
        "expected_task_revision": world.task(task_id).revision,
        "reason": "the machine burned down",
        "evidence_ref": "incident:77",
    }
    return declare_lost.DeclareLost(**{**plain, **told})


def declare(world: World, command: declare_lost.DeclareLost) -> Mapping[str, Any]:
    return declare_lost.execute(world.database, command, ids=world.ids, entropy=world.entropy)


@pytest.mark.rule("REC-17", "PUL-3")
@pytest.mark.parametrize(
    ("effect", "state"),
    [
        (Effect.AT_MOST_ONCE, "NEEDS_REVIEW"),
        (Effect.IDEMPOTENT, "QUEUED"),
        (Effect.NONE, "QUEUED"),
    ],
)
def test_a_lease_declared_lost_is_lost_before_it_expires(
    world: World, effect: Effect, state: str
) -> None:
    task_id = world.create(effect=effect)
    lease = world.running()
    assert declare(world, lost_command(world, task_id))["state_after"] == state
    (attempt,) = world.attempts(task_id)
    assert attempt.closed_by == "DECLARED_LOST"
    assert attempt.outcome == ("FAILED" if effect is Effect.NONE else "UNKNOWN")
    refused = world.heartbeat(lease)
    assert refused.rejected is not None
    assert refused.rejected.code == "LEASE_LOST"
    (audit,) = world.rows(t.execution_audit)
    assert (audit.operation, audit.evidence_ref) == ("DECLARE_LOST", '"incident:77"')


@pytest.mark.rule("REC-17")
def test_declaring_lost_what_does_not_run_or_moved_on_is_refused(world: World) -> None:
    task_id = world.create()
    with pytest.raises(Rejected) as refusal:
        declare(world, lost_command(world, task_id))
    assert refusal.value.code == "NOT_STARTED"
    command = lost_command(world, task_id)
    lease = world.running()
    with pytest.raises(Rejected) as refusal:
        declare(world, command)
    assert refusal.value.code == "TASK_REVISION_CONFLICT"
    assert world.report(lease, succeeded()).state == "SUCCEEDED"
    assert world.rows(t.execution_audit) == []


@pytest.mark.rule("REC-17")
def test_declaring_lost_needs_the_permission_to_recover(world: World) -> None:
    task_id = world.create()
    world.running()
    weak = world.credential("weak", permissions=EVERYTHING - {Permission.WORKFLOWS_RECOVER})
    with pytest.raises(Rejected) as refusal:
        declare(world, lost_command(world, task_id, principal=weak))
    assert refusal.value.code == "PERMISSION_DENIED"
    assert world.state(task_id) == "RUNNING"
