"""A poll between two rounds whose wait got lost, on each database (WEA-19, CPO-1)."""

from typing import Any

import pytest

from pulseweave.core.weave.states import InstanceState, ReviewCause, WaitKind
from tests.pulse.world import succeeded
from tests.weave.world import WeaveWorld, task

POLL: dict[str, Any] = {
    "poll": "ready",
    "queue": "q",
    "handler": "ask",
    "interval": "10s",
    "max_rounds": 3,
    "mapping": {"path": "/status", "pending": ["WAIT"], "succeeded": ["READY"]},
    "lease": "30s",
}


@pytest.mark.rule("WEA-19", "CPO-1")
@pytest.mark.parametrize("signalled", [False, True], ids=["alone", "with-final-signal"])
def test_a_lost_round_is_found_and_a_person_lets_the_poll_go_on(
    world: WeaveWorld, signalled: bool
) -> None:
    """The final signal's wait is armed all the while: it does not stand in for the round's."""
    more = {"final_signal": {"name": "done"}} if signalled else {}
    world.define(POLL | more, task("then"))
    run = world.begin()
    world.work(succeeded({"status": "WAIT"}))
    [round_wait] = [wait for wait in world.armed(run) if wait.kind is WaitKind.ROUND]
    world.break_wait(round_wait.id)
    world.settle()
    assert world.leaf(run, "ready").review_cause is ReviewCause.WAIT_LOST
    assert world.armed(run) == []
    refused = world.refusal(run, world.rearm_wait(run, "ready"))
    assert refused.code == "WAIT_NOT_REARMABLE"
    receipt = world.recover(run, world.continue_poll(run, "ready"))
    assert receipt["details"]["next_round_due_at"] == round_wait.due_at
    world.recover(run, world.go_on(run))
    kinds = {WaitKind.ROUND, WaitKind.SIGNAL} if signalled else {WaitKind.ROUND}
    assert {wait.kind for wait in world.armed(run)} == kinds
    world.pass_ms(10_000)
    world.settle()
    world.work(succeeded({"status": "READY"}))
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert [found.message for found in world.findings()] == [
        f"wait {round_wait.id} differs in closed_at, state"
    ]
