"""Recovery on each database: the ways back, receipts, audits, and what they must not do."""

import threading

import pytest

from pulseweave.core.identity import Permission
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InstanceState, LeafState
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected
from pulseweave.store import schema as t
from tests.pulse.world import EVERYTHING, failed, succeeded, unknown
from tests.weave.world import WeaveWorld, task


def in_review(world: WeaveWorld, **more: object) -> str:
    """An instance whose first step's outcome is unknown."""
    world.define(task("one", **more), task("two"))
    run = world.begin()
    world.work(unknown())
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    return run


@pytest.mark.rule("REV-1", "REV-2", "RES-1", "CON-2")
def test_verified_success_leads_on_to_the_successor(world: WeaveWorld) -> None:
    run = in_review(world)
    world.recover(run, world.review_task(run, "one"))
    after_review = world.look(run)
    assert after_review.instance.state is InstanceState.NEEDS_REVIEW
    assert world.leaf(run, "one").state is LeafState.NEEDS_REVIEW
    assert world.refusal(run, world.resolve_step(run, "one")).code == "INBOX_PENDING"
    world.settle()
    world.recover(run, world.resolve_step(run, "one", result='{"id":5}'))
    assert len(world.look(run).tasks) == 1
    receipt = world.recover(run, world.go_on(run))
    assert (receipt["state_after"], receipt["gate"]) == ("RUNNING", "OPEN")
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("RET-3", "RET-4", "RET-6", "RET-8")
def test_a_retry_keeps_deadline_and_budget_and_waits_for_continue(world: WeaveWorld) -> None:
    world.define(task("one", max_attempts=3, deadline="1h", on_failure="review"))
    run = world.begin()
    world.work(failed("REFUSED", retryable=False))
    first = world.look(run).tasks[0].task
    world.pass_ms(60_000)
    receipt = world.recover(run, world.retry_step(run, "one"))
    assert receipt["details"]["seconds_to_deadline"] == 3540
    second = world.look(run).tasks[1]
    assert second.task.deadline_at == first.deadline_at
    assert second.task.max_attempts == 2
    assert second.spec.retry_of == first.id
    assert world.claim(5) == []
    world.recover(run, world.go_on(run))
    world.settle()
    world.work(succeeded(1))
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert len(world.attempts(second.task.id)) == 1
    assert world.findings() == []


@pytest.mark.rule("RET-5", "PUL-18")
def test_cancelling_a_retry_before_its_start_can_not_be_used_to_retry_for_ever(
    world: WeaveWorld,
) -> None:
    world.define(task("one", max_attempts=2, on_failure="review"))
    run = world.begin()
    world.work(failed("REFUSED", retryable=False))
    world.recover(run, world.retry_step(run, "one"))
    mistaken = world.look(run).tasks[1].task
    world.app.tasks.cancel(
        world.principal,
        task_id=mistaken.id,
        instance_id=run,
        key=world.key(),
        expected_task_revision=mistaken.revision,
        reason="a mistake",
    )
    world.settle()
    refusal = world.refusal(run, world.retry_step(run, "one"))
    assert (refusal.code, refusal.rule) == ("BUDGET_EXHAUSTED", "RET-5")


@pytest.mark.rule("CON-3", "S5")
def test_a_stop_goes_on_to_its_end_and_no_success_withdraws_it(world: WeaveWorld) -> None:
    world.define(task("one"), task("two"))
    run = world.begin()
    lease = world.running()
    world.control(run, ControlVerb.CANCEL)
    world.report(lease, unknown())
    world.settle()
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    assert world.refusal(run, world.retry_step(run, "one")).code == "STOP_REQUESTED"
    world.recover(run, world.review_task(run, "one"))
    world.settle()
    world.recover(run, world.resolve_step(run, "one"))
    receipt = world.recover(run, world.go_on(run))
    assert (receipt["state_after"], receipt["gate"]) == ("CANCELLING", "CLOSED")
    world.settle()
    assert world.instance(run).state is InstanceState.CANCELLED
    assert len(world.look(run).tasks) == 1
    assert world.findings() == []


@pytest.mark.rule("CON-4")
def test_continue_does_not_unpause(world: WeaveWorld) -> None:
    run = in_review(world)
    world.control(run, ControlVerb.PAUSE)
    world.recover(run, world.review_task(run, "one"))
    world.settle()
    world.recover(run, world.resolve_step(run, "one"))
    receipt = world.recover(run, world.go_on(run))
    assert (receipt["state_after"], receipt["gate"], receipt["paused"]) == (
        "RUNNING",
        "CLOSED",
        True,
    )
    world.settle()
    assert len(world.look(run).activations) == 1
    world.control(run, ControlVerb.RESUME)
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED


@pytest.mark.rule("REC-5", "WEA-4")
def test_a_success_adds_one_to_both_revisions_and_one_journal_entry(world: WeaveWorld) -> None:
    run = in_review(world)
    before = world.instance(run)
    receipt = world.recover(run, world.review_task(run, "one"))
    after = world.instance(run)
    assert after.revision == before.revision + 1
    assert after.control_revision == before.control_revision + 1
    assert receipt["revision"] == str(after.revision)
    entries = [row for row in world.rows(t.journal) if row.instance_id == run]
    assert [row.revision for row in entries] == list(range(1, after.revision + 1))
    assert entries[-1].cause == "REVIEW_TASK"
    world.settle()
    assert world.instance(run).control_revision == after.control_revision


@pytest.mark.rule("REC-3", "REC-12")
def test_receipts_are_frozen_and_keys_belong_to_one_command(world: WeaveWorld) -> None:
    run = in_review(world)
    command = world.review_task(run, "one")
    first = world.recover(run, command, key="mine")
    world.settle()
    assert world.recover(run, command, key="mine") == first
    assert world.refusal(run, world.go_on(run), key="mine").code == "IDEMPOTENCY_CONFLICT"
    stale = world.refusal(run, command, key="other")
    assert stale.code == "REVISION_CONFLICT"
    assert stale.detail["current_revision"] == str(world.instance(run).revision)
    assert [entry["cause"] for entry in stale.detail["journal_since"]] == ["REVIEW_TASK", "RESULTS"]


@pytest.mark.rule("REC-14", "REC-7")
def test_a_refusal_is_audited_and_leaves_nothing_else(world: WeaveWorld) -> None:
    run = in_review(world)
    before = world.counts()
    world.refusal(run, world.go_on(run), key="k1")
    after = world.counts()
    assert after.pop("workflow_audit") == before.pop("workflow_audit") + 1
    assert after == before
    entry = world.rows(t.workflow_audit)[-1]
    assert (entry.outcome, entry.code, entry.operation) == (
        "REFUSED",
        "EXECUTION_UNSETTLED",
        "CONTINUE",
    )


@pytest.mark.rule("REC-14")
def test_a_dry_run_writes_nothing_and_leaves_the_key_free(world: WeaveWorld) -> None:
    run = in_review(world)
    before = world.counts()
    told = world.recover(run, world.review_task(run, "one"), key="k1", dry_run=True)
    assert told["dry_run"]
    assert told["operation_id"] is None
    world.refusal(run, world.go_on(run), key="k2", dry_run=True)
    assert world.counts() == before
    world.recover(run, world.review_task(run, "one"), key="k1")


@pytest.mark.rule("REC-8")
def test_both_audits_tell_who_why_and_what_was_before(world: WeaveWorld) -> None:
    run = in_review(world)
    world.recover(run, world.review_task(run, "one"))
    execution = world.rows(t.execution_audit)[-1]
    workflow = world.rows(t.workflow_audit)[-1]
    assert workflow.execution_audit_id == execution.id
    assert workflow.id != execution.id
    assert canonical.parse(execution.prior)["state"] == "NEEDS_REVIEW"
    assert canonical.parse(execution.evidence_ref) == "provider:1"
    assert execution.result == '{"ok":true}'
    assert execution.command_digest == workflow.command_digest


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize(
    ("permissions", "queues", "code"),
    [
        (EVERYTHING - {Permission.WORKFLOWS_RECOVER}, None, "PERMISSION_DENIED"),
        (frozenset({Permission.WORKFLOWS_RECOVER}), frozenset({"other"}), "QUEUE_ACCESS_DENIED"),
    ],
)
def test_recovery_needs_its_own_permission_and_every_queue(
    world: WeaveWorld,
    permissions: frozenset[Permission],
    queues: frozenset[str] | None,
    code: str,
) -> None:
    run = in_review(world)
    somebody = world.credential("somebody", permissions=permissions, queues=queues)
    refusal = world.refusal(run, world.review_task(run, "one"), principal=somebody)
    assert refusal.code == code


@pytest.mark.rule("REC-1", "REC-3")
def test_a_receipt_is_given_only_to_whoever_may_recover_now(world: WeaveWorld) -> None:
    run = in_review(world)
    somebody = world.credential("somebody")
    command = world.review_task(run, "one")
    world.recover(run, command, key="k", principal=somebody)
    world.app.admin.revoke_token(world.principal, somebody.credential_id)
    assert world.refusal(run, command, key="k", principal=somebody).code == "UNAUTHENTICATED"


@pytest.mark.rule("REC-3", "REC-6")
@pytest.mark.case("B090")
def test_one_key_from_eight_threads_is_one_decision_and_one_receipt(
    real_world: WeaveWorld,
) -> None:
    run = in_review(real_world)
    command = real_world.review_task(run, "one")
    barrier = threading.Barrier(8)
    answers: list[object] = []

    def ask() -> None:
        barrier.wait()
        try:
            answers.append(dict(real_world.recover(run, command, key="same")))
        except Rejected as refused:
            answers.append(refused)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers), answers
    assert len(real_world.rows(t.execution_audit)) == 1


@pytest.mark.rule("PUL-17", "REC-13")
def test_a_contradiction_is_seen_blocks_continue_and_is_acknowledged(world: WeaveWorld) -> None:
    world.define(task("one"), task("two"))
    run = world.begin()
    lease = world.running()
    world.pass_ms(30_000)
    world.settle()
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    world.recover(run, world.review_task(run, "one"))
    world.settle()
    late = world.report(lease, failed("REFUSED", retryable=False))
    assert late.rejected is not None
    world.settle()
    assert world.instance(run).contradicted
    world.recover(run, world.resolve_step(run, "one"))
    assert world.refusal(run, world.go_on(run)).code == "CONTRADICTED"
    before = world.instance(run)
    world.app.recovery.acknowledge_contradiction(
        world.principal,
        instance_id=run,
        key=world.key(),
        expected_revision=before.revision,
        reason="the provider's own report is wrong",
        evidence_ref="provider:2",
    )
    after = world.instance(run)
    assert (after.contradicted, after.state) == (False, before.state)
    world.recover(run, world.go_on(run))
    assert world.findings() == []


@pytest.mark.rule("WEA-5", "REC-4", "REC-16")
def test_a_broken_source_is_set_aside_and_taken_again_when_mended(world: WeaveWorld) -> None:
    world.define(task("one"), task("two"))
    broken, fine = world.begin("broken"), world.begin("fine")
    owner = world.look(broken).activations[0]
    world.break_row(t.activations, owner.id, task_id=world.ids.next())
    world.work(limit=2)
    assert world.instance(fine).state is InstanceState.RUNNING
    assert len(world.look(fine).tasks) == 2
    hurt = world.instance(broken)
    assert (hurt.state, hurt.quarantined) == (InstanceState.NEEDS_REVIEW, True)
    assert world.refusal(broken, world.go_on(broken)).code == "INBOX_QUARANTINED"
    again = world.app.admin.requeue(world.principal, broken)
    assert (again.taken, again.processed) == (1, 0)
    world.break_row(t.activations, owner.id, task_id=owner.task_id)
    again = world.app.admin.requeue(world.principal, broken)
    assert (again.taken, again.processed) == (1, 1)
    mended = world.instance(broken)
    assert (mended.state, mended.quarantined) == (InstanceState.NEEDS_REVIEW, False)
    world.recover(broken, world.go_on(broken))
    world.settle()
    world.work(limit=2)
    assert world.instance(broken).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-4", "WEA-14", "REC-9")
def test_the_doctor_finds_what_was_damaged(world: WeaveWorld) -> None:
    world.define(task("one"))
    run = world.begin()
    assert world.findings() == []
    leaf = world.leaf(run, "one")
    world.break_row(t.activations, leaf.id, revision=9)
    assert [f.rule for f in world.findings()] == ["WEA-4"]
    world.break_row(t.activations, leaf.id, revision=leaf.revision)
    world.break_row(t.tasks, leaf.task_id or "", activation_id=world.ids.next())
    assert {f.rule for f in world.findings()} == {"REC-9"}
