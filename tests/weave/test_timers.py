"""Timers on each database: never early, through pauses, outages and restarts (WEA-11)."""

import pytest

from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InstanceState, LeafState, WaitState
from pulseweave.kernel.instant import format_at
from tests.weave.world import WeaveWorld, task


@pytest.mark.rule("WEA-11")
def test_a_timer_fires_when_its_time_has_come_and_gives_null(world: WeaveWorld) -> None:
    world.define({"timer": "nap", "for": "90s"}, task("then", input="${steps.nap.output}"))
    run = world.begin()
    world.pass_ms(89_999)
    world.settle()
    assert world.leaf(run, "nap").state is LeafState.ACTIVE
    world.pass_ms(1)
    world.settle()
    assert world.leaf(run, "nap").state is LeafState.SUCCEEDED
    assert world.look(run).waits[0].state is WaitState.FIRED
    assert world.look(run).tasks[0].spec.input == "null"
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-11")
def test_a_timer_waits_until_an_instant_and_fires_at_once_when_it_is_past(
    world: WeaveWorld,
) -> None:
    world.define({"timer": "until", "until": "${input.at}"})
    later = format_at(world.now + 5_000_000)
    run = world.begin("later", {"at": later})
    assert world.armed(run)[0].due_at == world.now + 5_000_000
    past = world.begin("past", {"at": "2020-01-01T00:00:00+02:00"})
    assert world.instance(past).state is InstanceState.SUCCEEDED
    wrong = world.begin("wrong", {"at": "tomorrow"})
    assert world.instance(wrong).state is InstanceState.FAILED
    assert "no instant" in (world.leaf(wrong, "until").error or "")
    world.pass_ms(5_000)
    world.settle()
    assert world.instance(run).state is InstanceState.SUCCEEDED


@pytest.mark.rule("WEA-11", "WEA-13")
def test_an_outage_delays_a_timer_and_the_deadline_goes_before_it(world: WeaveWorld) -> None:
    world.define({"timer": "nap", "for": "1m"}, deadline="2m")
    run = world.begin()
    world.pass_ms(300_000)
    world.settle()
    detail = world.look(run)
    assert detail.instance.state is InstanceState.FAILED
    assert detail.activations[0].state is LeafState.CANCELLED


@pytest.mark.rule("WEA-16")
def test_a_timer_fires_while_the_instance_is_paused_and_nothing_follows(world: WeaveWorld) -> None:
    world.define({"timer": "nap", "for": "1m"}, task("then"))
    run = world.begin()
    world.control(run, ControlVerb.PAUSE)
    world.pass_ms(60_000)
    world.settle()
    assert world.leaf(run, "nap").state is LeafState.SUCCEEDED
    assert len(world.look(run).activations) == 1
    world.control(run, ControlVerb.RESUME)
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED


@pytest.mark.rule("RES-2", "REA-1")
def test_a_lost_timer_is_resolved_only_when_its_time_has_come(world: WeaveWorld) -> None:
    world.define({"timer": "nap", "for": "1m"})
    run = world.begin()
    world.break_wait(world.armed(run)[0].id)
    world.settle()
    early = world.refusal(run, world.resolve_step(run, "nap", result="null"))
    assert early.code == "TIMER_NOT_DUE"
    world.pass_ms(60_000)
    told = world.refusal(run, world.resolve_step(run, "nap", result="1"))
    assert told.code == "INVALID_COMMAND"
    world.recover(run, world.rearm_wait(run, "nap"))
    world.settle()
    assert world.leaf(run, "nap").state is LeafState.SUCCEEDED
    world.recover(run, world.go_on(run))
    world.settle()
    assert world.instance(run).state is InstanceState.SUCCEEDED
