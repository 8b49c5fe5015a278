"""What recovery decides from: ownership seen from both sides, quotas, time, and its receipts."""

from collections.abc import Callable
from typing import Any

import pytest

from pulseweave.core.identity import Permission
from pulseweave.core.recovery.command import Command
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InstanceState
from pulseweave.kernel.clock import ManualClock
from pulseweave.kernel.errors import Rejected
from pulseweave.store import schema as t
from tests.pulse.world import failed, unknown
from tests.weave.world import WeaveWorld, task

BLOCKER = {"what", "who", "step_key", "task_id", "detail"}
RECEIPT = {
    "operation",
    "operation_id",
    "instance_id",
    "state_after",
    "gate",
    "paused",
    "stop_kind",
    "revision",
    "control_revision",
    "deadline_at",
    "blocking",
    "details",
    "warnings",
    "dry_run",
}


def settled_failure(world: WeaveWorld, key: str = "k", **more: Any) -> str:
    """An instance whose only step a person has settled as failed; it may be retried."""
    if not world.rows(t.definitions):
        world.define(task("one", max_attempts=3), deadline="1h")
    run = world.begin(key)
    world.work(unknown())
    world.recover(run, world.review_task(run, "one", succeeded=False, result='"gone"', **more))
    world.settle()
    return run


def commands(world: WeaveWorld, run: str) -> dict[str, Command]:
    return {
        "RESOLVE_STEP": world.resolve_step(run, "one"),
        "RETRY_STEP": world.retry_step(run, "one"),
        "CONTINUE": world.go_on(run),
    }


def told(world: WeaveWorld, run: str) -> dict[str, str | None]:
    """What the system says of each operation."""
    return {
        operation.operation: operation.refusal.code if operation.refusal else None
        for item in world.look(run).items
        for operation in item.operations
    }


def _activation_of_another_instance(world: WeaveWorld, run: str) -> None:
    """Another instance's activation names this one's task."""
    other = world.begin("other")
    foreign = world.leaf(other, "one")
    world.break_row(t.activations, foreign.id, task_id=world.leaf(run, "one").task_id)


def _task_of_another_instance(world: WeaveWorld, run: str) -> None:
    """This instance's activation names another one's task, which names it back."""
    other = settled_failure(world, "other")
    foreign = world.leaf(other, "one")
    world.break_row(t.activations, world.leaf(run, "one").id, task_id=foreign.task_id)
    world.break_row(t.tasks, foreign.task_id or "", activation_id=world.leaf(run, "one").id)


def _task_of_another_namespace(world: WeaveWorld, run: str) -> None:
    world.break_row(t.tasks, world.leaf(run, "one").task_id or "", namespace="elsewhere")


def _task_of_another_queue(world: WeaveWorld, run: str) -> None:
    world.break_row(t.tasks, world.leaf(run, "one").task_id or "", queue="elsewhere")


@pytest.mark.rule("REC-9")
@pytest.mark.parametrize(
    "damage",
    [
        _activation_of_another_instance,
        _task_of_another_instance,
        _task_of_another_namespace,
        _task_of_another_queue,
    ],
)
def test_whoever_else_owns_or_claims_a_task_every_command_refuses(
    world: WeaveWorld, damage: Callable[[WeaveWorld, str], None]
) -> None:
    run = settled_failure(world)
    damage(world, run)
    for name, command in commands(world, run).items():
        refusal = world.refusal(run, command, dry_run=True)
        assert (name, refusal.code, refusal.rule) == (name, "NOT_OWNED", "REC-9")
    assert set(told(world, run).values()) >= {"NOT_OWNED"}


@pytest.mark.rule("REC-9")
def test_a_review_looks_at_the_whole_history_of_the_step(world: WeaveWorld) -> None:
    run = settled_failure(world)
    world.recover(run, world.retry_step(run, "one"))
    world.recover(run, world.go_on(run))
    world.settle()
    world.work(unknown())
    first = world.look(run).activations[0]
    world.break_row(t.tasks, first.task_id or "", activation_id=world.ids.next())
    assert world.refusal(run, world.review_task(run, "one")).code == "NOT_OWNED"
    world.break_row(t.tasks, first.task_id or "", activation_id=first.id)
    world.recover(run, world.review_task(run, "one"))


@pytest.mark.rule("REC-9", "RET-3")
def test_a_successor_elsewhere_is_seen(world: WeaveWorld) -> None:
    run = settled_failure(world)
    other = world.begin("other")
    foreign = world.leaf(other, "one").task_id or ""
    with world.database.writer.begin() as connection:
        connection.execute(
            t.task_specs.update()
            .where(t.task_specs.c.task_id == foreign)
            .values(retry_of=world.leaf(run, "one").task_id)
        )
    assert world.refusal(run, world.retry_step(run, "one")).code == "NOT_OWNED"


@pytest.mark.rule("REC-15", "RET-7", "PUL-12")
@pytest.mark.parametrize("limited", ["queue", "application"])
def test_quotas_are_told_and_enforced_alike(world: WeaveWorld, limited: str) -> None:
    run = settled_failure(world)
    assert told(world, run)["RETRY_STEP"] is None
    if limited == "queue":
        world.queue("q", max_open=1)
    else:
        world.application(max_open_tasks=1)
    world.create()
    assert told(world, run)["RETRY_STEP"] == "QUOTA_EXCEEDED"
    before = world.counts()
    assert world.refusal(run, world.retry_step(run, "one"), dry_run=True).code == "QUOTA_EXCEEDED"
    assert world.counts() == before
    world.work()
    assert told(world, run)["RETRY_STEP"] is None
    world.recover(run, world.retry_step(run, "one"))


@pytest.mark.rule("PUL-15")
def test_a_clock_that_steps_back_opens_no_deadline_again(world: WeaveWorld) -> None:
    run = settled_failure(world)
    world.pass_ms(3600 * 1000)
    world.control(run, ControlVerb.PAUSE)  # the journal has told a time behind the deadline
    clock = world.clock
    assert isinstance(clock, ManualClock)
    clock.advance_ms(-10_000)
    assert world.refusal(run, world.retry_step(run, "one")).code == "DEADLINE_PASSED"
    world.recover(run, world.resolve_step(run, "one"))
    assert world.refusal(run, world.go_on(run)).code == "DEADLINE_PASSED"
    assert told(world, run) == {"CONTINUE": "DEADLINE_PASSED"}
    audits = {row.operation: row.at for row in world.rows(t.workflow_audit) if row.code is None}
    assert audits["RESOLVE_STEP"] >= audits["PAUSE"]


@pytest.mark.rule("REC-19")
def test_every_receipt_tells_what_is_so_and_what_still_needs_whom(world: WeaveWorld) -> None:
    world.define(task("one", max_attempts=3), task("two"), deadline="1h")
    run = world.begin()
    (lease,) = world.work(unknown())
    receipts = {"REVIEW_TASK": world.recover(run, world.review_task(run, "one", succeeded=False))}
    world.settle()
    receipts["RETRY_STEP"] = world.recover(run, world.retry_step(run, "one"), dry_run=True)
    receipts["RESOLVE_STEP"] = world.recover(run, world.resolve_step(run, "one"))
    world.report(lease, failed("LATE", retryable=False))
    world.report(lease, unknown())
    world.settle()
    assert not world.instance(run).contradicted, "FAILED agrees, UNKNOWN tells nothing"
    receipts["CONTINUE"] = world.recover(run, world.go_on(run))
    blocking = {
        name: [blocker["what"] for blocker in told["blocking"]] for name, told in receipts.items()
    }
    assert blocking == {
        "REVIEW_TASK": ["RESULT_NOT_CONSUMED", "STEP_UNRESOLVED", "CONTINUE"],
        "RETRY_STEP": ["CONTINUE"],
        "RESOLVE_STEP": ["CONTINUE"],
        "CONTINUE": [],
    }
    for name, receipt in receipts.items():
        assert set(receipt) == RECEIPT
        assert receipt["operation"] == name
        assert all(set(blocker) == BLOCKER for blocker in receipt["blocking"])
        assert receipt["deadline_at"] == world.instance(run).deadline_at
        assert (receipt["gate"] == "OPEN") == (receipt["state_after"] == "RUNNING")


@pytest.mark.rule("REC-13", "REC-19")
def test_an_acknowledgement_tells_what_is_left_too(world: WeaveWorld) -> None:
    world.define(task("one"), task("two"))
    run = world.begin()
    (lease,) = world.work(unknown())
    world.recover(run, world.review_task(run, "one"))
    world.settle()
    world.report(lease, failed("REFUSED", retryable=False))
    world.settle()
    (item,) = world.look(run).items
    assert item.leaf is not None
    receipt = world.app.recovery.acknowledge_contradiction(
        world.principal,
        instance_id=run,
        key=world.key(),
        expected_revision=world.instance(run).revision,
        reason="the provider's own report is wrong",
        evidence_ref="provider:2",
    )
    assert set(receipt) == RECEIPT
    assert [blocker["what"] for blocker in receipt["blocking"]] == ["STEP_UNRESOLVED", "CONTINUE"]
    assert receipt["state_after"] == InstanceState.NEEDS_REVIEW.value


@pytest.mark.rule("REC-19", "WEA-13")
def test_a_passed_deadline_is_named_with_the_way_out(world: WeaveWorld) -> None:
    run = settled_failure(world)
    world.pass_ms(3600 * 1000)
    receipt = world.recover(run, world.resolve_step(run, "one"))
    blockers = {blocker["what"]: blocker for blocker in receipt["blocking"]}
    assert blockers["DEADLINE_PASSED"]["who"] == "workflows:control"
    assert "cancel" in blockers["DEADLINE_PASSED"]["detail"]
    world.control(run, ControlVerb.CANCEL)
    assert {b.what for b in world.look(run).blocking} == {"CONTINUE"}
    world.recover(run, world.go_on(run))
    world.settle()
    assert world.instance(run).state is InstanceState.CANCELLED


@pytest.mark.rule("REC-13", "REC-12", "REC-14")
def test_a_refused_acknowledgement_is_audited_and_tells_what_happened_since(
    world: WeaveWorld,
) -> None:
    run = settled_failure(world)
    reader = world.credential("reader", permissions=frozenset({Permission.WORKFLOWS_READ}))

    def refusal(**more: Any) -> Rejected:
        told = {
            "instance_id": run,
            "key": world.key(),
            "expected_revision": world.instance(run).revision,
            "reason": "looked at it",
            "evidence_ref": "provider:2",
        }
        principal = more.pop("principal", world.principal)
        with pytest.raises(Rejected) as caught:
            world.app.recovery.acknowledge_contradiction(principal, **{**told, **more})
        return caught.value

    before = world.counts()
    old = refusal(expected_revision=world.instance(run).revision - 1)
    assert (old.code, len(old.detail["journal_since"])) == ("REVISION_CONFLICT", 1)
    codes = [
        old.code,
        refusal().code,
        refusal(principal=reader).code,
        refusal(evidence_ref="two words").code,
        refusal(instance_id="nobody").code,
    ]
    assert codes[1:] == [
        "NOT_IN_REVIEW",
        "PERMISSION_DENIED",
        "INVALID_COMMAND",
        "INSTANCE_NOT_FOUND",
    ]
    audits = [row for row in world.rows(t.workflow_audit) if row.outcome == "REFUSED"]
    assert sorted(row.code for row in audits) == sorted(codes)
    assert {row.operation for row in audits} == {"ACKNOWLEDGE_CONTRADICTION"}
    assert world.counts() == {**before, "workflow_audit": before["workflow_audit"] + 5}
