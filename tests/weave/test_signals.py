"""Signals on each database: early, duplicate, correlated, contracted, in time and too late."""

from typing import Any

import pytest

from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import (
    CloseReason,
    InstanceState,
    LeafState,
    ReviewCause,
    WaitState,
)
from pulseweave.kernel.errors import Rejected
from tests.weave.world import WeaveWorld, task

APPROVAL = {
    "signal": "approval",
    "output": {"type": "object", "required": ["by"]},
    "timeout": "1h",
}


def waits(key: str, **more: Any) -> dict[str, Any]:
    return {"signal": key, **more}


@pytest.mark.rule("WEA-10")
def test_a_signal_is_taken_by_the_wait_that_is_armed(world: WeaveWorld) -> None:
    world.define(APPROVAL, task("then", input="${steps.approval.output.by}"))
    run = world.begin()
    told = world.signal(run, "approval", {"by": "ann"})
    assert told.wait_id == world.look(run).waits[0].id
    world.work()
    detail = world.look(run)
    assert detail.instance.state is InstanceState.SUCCEEDED
    assert detail.tasks[0].spec.input == '"ann"'
    assert detail.waits[0].state is WaitState.TAKEN
    assert world.findings() == []


@pytest.mark.rule("WEA-10", "WEA-4")
def test_a_signal_may_come_before_its_wait_and_then_changes_nothing(world: WeaveWorld) -> None:
    world.define(task("first"), APPROVAL)
    run = world.begin()
    revision = world.instance(run).revision
    assert world.signal(run, "approval", {"by": "early"}).wait_id is None
    assert world.instance(run).revision == revision
    world.work()
    detail = world.look(run)
    assert detail.output == '{"by":"early"}'
    assert world.findings() == []


@pytest.mark.rule("WEA-10")
def test_a_signal_is_accepted_once_per_key(world: WeaveWorld) -> None:
    world.define(APPROVAL, task("then"))
    run = world.begin()
    first = world.signal(run, "approval", {"by": "ann"}, key="s1")
    again = world.signal(run, "approval", {"by": "ann"}, key="s1")
    assert (first.created, again.created) == (True, False)
    assert (again.signal_id, again.wait_id) == (first.signal_id, first.wait_id)
    with pytest.raises(Rejected, match="IDEMPOTENCY_CONFLICT"):
        world.signal(run, "approval", {"by": "bob"}, key="s1")


@pytest.mark.rule("WEA-10")
def test_first_in_first_out_and_the_earlier_wait_first(world: WeaveWorld) -> None:
    both = {"a": [waits("a", name="go")], "b": [task("late"), waits("b", name="go")]}
    world.define({"parallel": "both", "branches": both})
    run = world.begin()
    world.work()
    world.signal(run, "go", 1)
    world.signal(run, "go", 2)
    assert world.look(run).output == '{"a":1,"b":2}'


@pytest.mark.rule("WEA-10")
def test_kept_signals_are_taken_in_the_order_in_which_they_came(world: WeaveWorld) -> None:
    world.define(task("first"), waits("a", name="go"), waits("b", name="go"))
    run = world.begin()
    for number in (1, 2, 3):
        world.signal(run, "go", number)
    world.work()
    assert world.look(run).output == "2"
    with pytest.raises(Rejected, match="INSTANCE_ENDED"):
        world.signal(run, "go", 4)


@pytest.mark.rule("WEA-10")
def test_a_correlation_tells_waits_of_one_name_apart(world: WeaveWorld) -> None:
    branches = {
        side: [waits(side, name="go", correlation=f"${{input.{side}}}")] for side in ("a", "b")
    }
    world.define({"parallel": "both", "branches": branches})
    run = world.begin(value={"a": "x", "b": "y"})
    assert world.signal(run, "go", 0).wait_id is None
    world.signal(run, "go", 2, correlation="y")
    world.signal(run, "go", 1, correlation="x")
    assert world.look(run).output == '{"a":1,"b":2}'


@pytest.mark.rule("WEA-10")
def test_a_payload_that_meets_no_contract_of_the_name_is_refused_at_the_door(
    world: WeaveWorld,
) -> None:
    world.define(APPROVAL)
    run = world.begin()
    with pytest.raises(Rejected, match="CONTRACT_VIOLATION") as refused:
        world.signal(run, "approval", {"who": "ann"})
    assert refused.value.detail["problems"][0]["pointer"] == "/payload"
    with pytest.raises(Rejected, match="CONTRACT_VIOLATION"):
        world.signal(run, "aproval", {"by": "ann"})
    assert world.rows_of("signals") == 0


@pytest.mark.rule("WEA-10", "WEA-7")
@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ("fail", InstanceState.FAILED),
        ("ignore", InstanceState.SUCCEEDED),
        ("review", InstanceState.NEEDS_REVIEW),
    ],
)
def test_a_wait_times_out_by_its_policy(
    world: WeaveWorld, policy: str, state: InstanceState
) -> None:
    world.define({**APPROVAL, "on_timeout": policy})
    run = world.begin()
    world.pass_ms(3_599_999)
    world.settle()
    assert world.instance(run).state is InstanceState.RUNNING
    world.pass_ms(1)
    world.settle()
    assert world.instance(run).state is state
    leaf = world.leaf(run, "approval")
    assert "WAIT_TIMED_OUT" in (leaf.error or "")
    if policy == "review":
        assert leaf.review_cause is ReviewCause.TIMED_OUT
    assert world.findings() == []


@pytest.mark.rule("WEA-10")
def test_a_signal_that_comes_after_the_deadline_is_not_taken(world: WeaveWorld) -> None:
    world.define({**APPROVAL, "on_timeout": "ignore"}, task("then"))
    run = world.begin()
    world.pass_ms(3_600_000)
    assert world.signal(run, "approval", {"by": "late"}).wait_id is None
    assert world.leaf(run, "approval").ignored


@pytest.mark.rule("WEA-12")
def test_a_stop_closes_all_waits_and_cancels_leaves_without_tasks(world: WeaveWorld) -> None:
    branches = {"a": [APPROVAL], "b": [{"timer": "nap", "for": "1h"}]}
    world.define({"parallel": "both", "branches": branches})
    run = world.begin()
    world.control(run, ControlVerb.CANCEL)
    world.settle()
    detail = world.look(run)
    assert detail.instance.state is InstanceState.CANCELLED
    assert {wait.reason for wait in detail.waits} == {CloseReason.STOP}
    assert {leaf.state for leaf in detail.activations} == {LeafState.CANCELLED}
    assert world.findings() == []


@pytest.mark.rule("WEA-16")
def test_signals_and_timers_are_collected_while_paused_and_in_review(world: WeaveWorld) -> None:
    branches = {
        "a": [waits("a"), task("then_a")],
        "b": [{"timer": "b", "for": "1m"}],
        "c": [task("c", on_failure="review")],
    }
    world.define({"parallel": "all", "branches": branches})
    run = world.begin()
    world.control(run, ControlVerb.PAUSE)
    world.signal(run, "a", 1)
    assert world.leaf(run, "a").state is LeafState.SUCCEEDED
    assert "then_a" not in {leaf.step_key for leaf in world.look(run).activations}
    world.control(run, ControlVerb.RESUME)
    world.settle()
    world.fail_next("do.c")
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    world.pass_ms(60_000)
    world.settle()
    assert world.leaf(run, "b").state is LeafState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-17", "REA-1")
def test_a_broken_payload_needs_a_person_and_the_next_generation_takes_what_is_kept(
    world: WeaveWorld,
) -> None:
    strict = {"type": "object", "required": ["by"]}
    lax = waits("b", name="approval", correlation="b")
    world.define({"parallel": "p", "branches": {"a": [APPROVAL | {"output": strict}], "b": [lax]}})
    run = world.begin()
    world.signal(run, "approval", {"who": "nobody"})
    leaf = world.leaf(run, "approval")
    assert leaf.review_cause is ReviewCause.OUTPUT_CONTRACT
    assert world.signal(run, "approval", {"by": "ann"}).wait_id is None
    receipt = world.recover(run, world.rearm_wait(run, "approval"))
    assert receipt["details"]["generation"] == 2
    assert receipt["details"]["signal_taken"] is True
    assert receipt["state_after"] == "NEEDS_REVIEW"
    assert world.leaf(run, "approval").state is LeafState.SUCCEEDED
    world.recover(run, world.go_on(run))
    world.signal(run, "approval", 0, correlation="b")
    assert world.look(run).output == '{"a":{"by":"ann"},"b":0}'
    assert world.findings() == []


@pytest.mark.rule("REA-1")
def test_a_wait_is_not_armed_again_after_its_deadline_or_while_it_waits(world: WeaveWorld) -> None:
    world.define({**APPROVAL, "on_timeout": "review"})
    run = world.begin()
    world.pass_ms(3_600_000)
    world.settle()
    refused = world.refusal(run, world.rearm_wait(run, "approval"))
    assert refused.code == "DEADLINE_PASSED"
    world.recover(run, world.resolve_step(run, "approval", result='{"by":"phone"}'))
    assert world.refusal(run, world.rearm_wait(run, "approval")).code == "WAIT_NOT_REARMABLE"
    world.recover(run, world.go_on(run))
    world.settle()
    assert world.look(run).output == '{"by":"phone"}'


@pytest.mark.rule("WEA-19", "REA-1", "S6")
def test_a_lost_wait_is_found_and_put_before_a_person(world: WeaveWorld) -> None:
    world.define(APPROVAL, task("then"))
    run = world.begin()
    wait = world.armed(run)[0]
    world.break_wait(wait.id)
    world.settle()
    leaf = world.leaf(run, "approval")
    assert leaf.review_cause is ReviewCause.WAIT_LOST
    assert world.signal(run, "approval", {"by": "ann"}).wait_id is None
    world.recover(run, world.rearm_wait(run, "approval"))
    world.recover(run, world.go_on(run))
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
