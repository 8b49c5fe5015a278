"""Workflows on each database: starts, sequences, parallels, failures, deadlines, pause and stop."""

import pytest

from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InstanceState, LeafState, ReviewCause, WakeReason
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected
from pulseweave.txn.weave.start import Started
from tests.pulse.world import cancelled, failed, succeeded, unknown
from tests.weave.world import WeaveWorld, task

PARALLEL = {"parallel": "both", "branches": {"a": [task("a")], "b": [task("b")]}}


@pytest.mark.rule("WEA-2")
def test_a_sequence_and_a_parallel_run_to_their_end_and_pass_outputs_on(world: WeaveWorld) -> None:
    last = task("last", input={"a": "${steps.a.output.n}", "both": "${steps.both.output}"})
    world.define(task("first", input={"x": "${input.x}"}), PARALLEL, last)
    run = world.begin(value={"x": 7})
    assert canonical.parse(world.look(run).tasks[0].spec.input) == {"x": 7}
    world.work()
    assert len(world.work(succeeded({"n": 3}), limit=5)) == 2
    world.work(succeeded({"end": True}))
    detail = world.look(run)
    assert detail.instance.state is InstanceState.SUCCEEDED
    assert detail.output == '{"end":true}'
    assert canonical.parse(detail.tasks[-1].spec.input) == {
        "a": 3,
        "both": {"a": {"n": 3}, "b": {"n": 3}},
    }
    assert world.findings() == []


@pytest.mark.rule("WEA-3")
def test_a_start_is_idempotent_by_definition_and_key(world: WeaveWorld) -> None:
    world.define(task("one"))
    first, again = world.try_begin("k", {"n": 1}), world.try_begin("k", {"n": 1})
    assert isinstance(first, Started)
    assert isinstance(again, Started)
    assert (first.created, again.created) == (True, False)
    assert first.instance.id == again.instance.id
    other = world.try_begin("k", {"n": 2})
    assert isinstance(other, Rejected)
    assert other.code == "INSTANCE_KEY_CONFLICT"
    assert len(world.look(first.instance.id).tasks) == 1


@pytest.mark.rule("WEA-1")
def test_a_version_is_immutable_and_running_instances_keep_theirs(world: WeaveWorld) -> None:
    world.define(task("one"), task("two"))
    run = world.begin("old")
    with pytest.raises(Rejected, match="DEFINITION_CONFLICT"):
        world.define(task("one"))
    world.define(task("one"), version=2)
    newer = world.begin("new")
    world.work(limit=5)
    assert world.instance(newer).state is InstanceState.SUCCEEDED
    assert world.instance(run).state is InstanceState.RUNNING


@pytest.mark.rule("WEA-7", "WEA-6")
def test_an_unknown_outcome_puts_leaf_and_instance_in_review_and_closes_the_gate(
    world: WeaveWorld,
) -> None:
    world.define(PARALLEL)
    run = world.begin()
    (lease,) = world.claim(1)
    world.start(lease)
    world.report(lease, unknown())
    world.settle()
    detail = world.look(run)
    assert detail.instance.state is InstanceState.NEEDS_REVIEW
    assert not detail.instance.gate_open
    states = {leaf.state: leaf for leaf in detail.activations}
    assert states[LeafState.NEEDS_REVIEW].review_cause is ReviewCause.OUTCOME_UNKNOWN
    assert world.claim(5) == []  # the sibling is held by the gate
    assert world.findings() == []


@pytest.mark.rule("WEA-8")
@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ("fail", InstanceState.FAILED),
        ("review", InstanceState.NEEDS_REVIEW),
        ("ignore", InstanceState.RUNNING),
    ],
)
def test_on_failure_decides_what_a_known_failure_means(
    world: WeaveWorld, policy: str, state: InstanceState
) -> None:
    world.define(task("one", on_failure=policy), task("two"))
    run = world.begin()
    world.work(failed("REFUSED", retryable=False))
    detail = world.look(run)
    assert detail.instance.state is state
    if policy == "fail":
        error = canonical.parse(detail.instance.error or "")
        assert (error["code"], error["step"]) == ("REFUSED", "one")
    if policy == "ignore":
        world.work()
        assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-7")
def test_a_result_that_breaks_its_contract_needs_a_person(world: WeaveWorld) -> None:
    world.define(task("one", output={"type": "object", "required": ["id"]}))
    run = world.begin()
    world.work(succeeded({"other": 1}))
    assert world.leaf(run, "one").review_cause is ReviewCause.OUTPUT_CONTRACT


@pytest.mark.rule("WEA-20")
def test_an_input_that_fails_to_evaluate_is_a_failure_without_a_task(world: WeaveWorld) -> None:
    world.define(task("one", input={"x": "${input.missing}"}, on_failure="review"))
    run = world.begin()
    detail = world.look(run)
    assert detail.tasks == []
    assert detail.instance.state is InstanceState.NEEDS_REVIEW
    assert canonical.parse(detail.activations[0].error or "")["code"] == "EXPRESSION_ERROR"
    assert world.refusal(run, world.retry_step(run, "one")).code == "STEP_NOT_RETRYABLE"
    world.recover(run, world.resolve_step(run, "one"))
    world.recover(run, world.go_on(run))
    world.settle()
    assert world.instance(run).state is InstanceState.SUCCEEDED


@pytest.mark.rule("WEA-20")
@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"input": {"twice": ["${input.big}", "${input.big}"]}}, "EXPRESSION_ERROR"),
        ({"concurrency_key": "${input.big}"}, "INPUT_CONTRACT"),
    ],
)
def test_an_input_or_key_beyond_its_bounds_is_a_failure_without_a_task(
    world: WeaveWorld, more: dict[str, object], code: str
) -> None:
    world.define(task("one", on_failure="ignore", **more), task("two"))
    run = world.begin(value={"big": "x" * 600_000})
    first, second = world.look(run).activations
    assert (first.task_id, first.state, first.ignored) == (None, LeafState.FAILED, True)
    assert canonical.parse(first.error or "")["code"] == code
    assert second.state is LeafState.ACTIVE


@pytest.mark.rule("WEA-13")
def test_a_running_instance_fails_at_its_deadline_and_one_in_review_stays(
    world: WeaveWorld,
) -> None:
    world.define(task("one"), deadline="10s")
    late, review = world.begin("late"), world.begin("review")
    leases = world.claim(2)
    for lease in leases:
        world.start(lease)
    held = {d.task.id for d in world.look(review).tasks}
    unknown_lease = next(lease for lease in leases if lease.task_id in held)
    world.report(unknown_lease, unknown())
    world.settle()
    world.pass_ms(10_000)
    world.settle()
    stopped = world.instance(late)
    assert stopped.state is InstanceState.CANCELLING
    assert stopped.stop is not None
    assert canonical.parse(stopped.stop.error)["code"] == "DEADLINE_EXCEEDED"
    assert world.instance(review).state is InstanceState.NEEDS_REVIEW
    assert world.instance(review).stop is None
    running = next(lease for lease in leases if lease is not unknown_lease)
    world.report(running, cancelled())
    world.settle()
    assert world.instance(late).state is InstanceState.FAILED
    assert world.findings() == []


@pytest.mark.rule("WEA-12", "WEA-16")
def test_a_pause_collects_but_neither_starts_nor_advances(world: WeaveWorld) -> None:
    world.define(task("one"), task("two"))
    run = world.begin()
    lease = world.running()
    receipt = world.control(run, ControlVerb.PAUSE)
    assert (receipt["state_after"], receipt["gate"], receipt["paused"]) == (
        "RUNNING",
        "CLOSED",
        True,
    )
    world.report(lease, succeeded({"ok": True}))
    world.settle()
    assert world.leaf(run, "one").state is LeafState.SUCCEEDED
    assert len(world.look(run).activations) == 1
    world.control(run, ControlVerb.RESUME)
    assert world.instance(run).wake_reason is WakeReason.ADVANCE
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-12")
def test_a_pause_lists_the_deadlines_that_keep_running(world: WeaveWorld) -> None:
    world.define(task("one", deadline="1h"), deadline="2h")
    run = world.begin()
    receipt = world.control(run, ControlVerb.PAUSE)
    kept = receipt["details"]["deadlines_that_keep_running"]
    assert kept["instance"] == world.instance(run).deadline_at
    assert [one["deadline_at"] for one in kept["tasks"]] == [world.now + 3_600_000_000]


@pytest.mark.rule("WEA-12", "PUL-8")
def test_a_cancel_stops_what_has_not_started_at_once_and_asks_what_runs(world: WeaveWorld) -> None:
    world.define(PARALLEL)
    run = world.begin()
    lease = world.running()
    receipt = world.control(run, ControlVerb.CANCEL)
    assert receipt["state_after"] == "CANCELLING"
    assert world.claim(5) == []
    assert world.heartbeat(lease).cancel
    world.settle()
    assert world.instance(run).state is InstanceState.CANCELLING
    world.report(lease, succeeded({"too": "late to matter"}))
    world.settle()
    assert world.instance(run).state is InstanceState.CANCELLED
    states = sorted(leaf.state for leaf in world.look(run).activations)
    assert states == [LeafState.CANCELLED, LeafState.SUCCEEDED]
    assert world.findings() == []


@pytest.mark.rule("WEA-12")
def test_a_second_stop_names_the_first(world: WeaveWorld) -> None:
    world.define(task("one"))
    run = world.begin()
    lease = world.running()
    world.control(run, ControlVerb.CANCEL)
    for verb in ControlVerb:
        with pytest.raises(Rejected) as refused:
            world.control(run, verb)
        assert refused.value.code == "STOP_REQUESTED"
        assert refused.value.detail["stop"]["kind"] == "CANCEL"
    world.report(lease, cancelled())
    world.settle()
    with pytest.raises(Rejected, match="INSTANCE_ENDED"):
        world.control(run, ControlVerb.PAUSE)


@pytest.mark.rule("WEA-12", "REC-3")
def test_a_control_command_needs_the_control_revision_and_has_one_receipt(
    world: WeaveWorld,
) -> None:
    world.define(task("one"))
    run = world.begin()

    def pause(key: str, revision: int) -> object:
        return world.app.workflows.control(
            world.principal,
            ControlVerb.PAUSE,
            instance_id=run,
            key=key,
            expected_control_revision=revision,
            reason="",
        )

    with pytest.raises(Rejected, match="CONTROL_REVISION_CONFLICT"):
        pause("a", 2)
    first = pause("a", 1)
    assert pause("a", 1) == first
    with pytest.raises(Rejected, match="IDEMPOTENCY_CONFLICT"):
        pause("a", 2)
    with pytest.raises(Rejected, match="CONTROL_REVISION_CONFLICT"):
        pause("b", 1)


@pytest.mark.rule("PUL-12")
def test_a_full_quota_refuses_a_start_and_defers_an_advance(world: WeaveWorld) -> None:
    world.define(task("one"), task("two", queue="small"))
    world.queue("small", max_open=1)
    first, second = world.begin("first"), world.begin("second")
    world.work(limit=2)
    assert [len(world.look(run).tasks) for run in (first, second)] in ([2, 1], [1, 2])
    waiting = first if len(world.look(first).tasks) == 1 else second
    assert world.instance(waiting).wake_reason is WakeReason.QUOTA
    assert world.instance(waiting).state is InstanceState.RUNNING
    (lease,) = world.claim(5, ["small"])
    world.start(lease)
    world.report(lease, succeeded(1))
    world.settle()
    world.pass_ms(1_000)
    world.settle()
    assert len(world.look(waiting).tasks) == 2
    world.queue("q", max_open=0 + 1)
    world.begin("third")
    before = world.counts()
    refused = world.try_begin("fourth")
    assert isinstance(refused, Rejected)
    assert refused.code == "QUOTA_EXCEEDED"
    assert world.counts() == before
    assert world.findings() == []


@pytest.mark.rule("REC-19", "WEA-12")
def test_a_control_receipt_says_what_still_needs_whom(world: WeaveWorld) -> None:
    world.define(PARALLEL, {"signal": "go", "timeout": "1h"})
    run = world.begin()
    lease = world.running()
    paused = world.control(run, ControlVerb.PAUSE)
    told = {(blocker["what"], blocker["who"]) for blocker in paused["blocking"]}
    assert told == {("PAUSED", "workflows:control"), ("EXECUTION_RUNNING", "worker")}
    assert world.control(run, ControlVerb.RESUME)["blocking"][0]["what"] == "EXECUTION_RUNNING"
    cancelled = world.control(run, ControlVerb.CANCEL)
    assert [b["task_id"] for b in cancelled["blocking"]] == [lease.task_id]
