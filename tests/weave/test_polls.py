"""Polls on each database: rounds, limits, mappings, final signals, and their recovery (WEA-9)."""

from typing import Any

import pytest

from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.states import (
    Disposition,
    InstanceState,
    LeafState,
    ReviewCause,
    WaitKind,
)
from pulseweave.kernel import canonical
from tests.pulse.world import failed, succeeded, unknown
from tests.weave.world import WeaveWorld, task

BY_VALUE = {"path": "/status", "pending": ["WAIT"], "succeeded": ["READY"], "failed": ["BAD"]}
BY_CONDITION = {
    "pending": "${ result.status == 'WAIT' }",
    "succeeded": "${ result.status == 'READY' }",
    "failed": "${ result.status == 'BAD' }",
}


def poll(**more: Any) -> dict[str, Any]:
    plain = {
        "poll": "ready",
        "queue": "q",
        "handler": "ask",
        "interval": "10s",
        "max_rounds": 3,
        "mapping": BY_VALUE,
        "lease": "30s",
    }
    return {**plain, **more}


def answer(status: str) -> Any:
    return succeeded({"status": status})


@pytest.mark.rule("WEA-9")
@pytest.mark.parametrize("mapping", [BY_VALUE, BY_CONDITION])
def test_a_poll_asks_round_by_round_until_the_answer_is_final(
    world: WeaveWorld, mapping: dict[str, Any]
) -> None:
    world.define(poll(mapping=mapping), task("then", input="${steps.ready.output.status}"))
    run = world.begin()
    world.work(answer("WAIT"))
    assert world.armed(run)[0].kind is WaitKind.ROUND
    world.pass_ms(9_999)
    world.settle()
    assert world.claim(1) == []
    world.pass_ms(1)
    world.settle()
    world.work(answer("READY"))
    detail = world.look(run)
    assert [(q.round, q.classification) for q in detail.queries] == [
        (1, Classification.PENDING),
        (2, Classification.SUCCEEDED),
    ]
    assert detail.tasks[-1].spec.input == '"READY"'
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-9")
def test_an_answer_that_means_failed_is_the_poll_s_failure(world: WeaveWorld) -> None:
    world.define(poll())
    run = world.begin()
    world.work(answer("BAD"))
    error = canonical.parse(world.instance(run).error or "")
    assert (error["code"], error["step"]) == ("POLL_FAILED", "ready")
    assert world.instance(run).state is InstanceState.FAILED


@pytest.mark.rule("WEA-7", "WEA-9")
def test_an_answer_that_is_not_classified_needs_a_person(world: WeaveWorld) -> None:
    world.define(poll())
    run = world.begin()
    world.work(answer("?"))
    assert world.leaf(run, "ready").review_cause is ReviewCause.UNCLASSIFIED
    wrong = world.refusal(run, world.resolve_step(run, "ready", result='{"status":"WAIT"}'))
    assert wrong.code == "CLASSIFICATION_MISMATCH"
    assert world.refusal(run, world.continue_poll(run, "ready")).code == "POLL_NOT_PENDING"
    world.recover(run, world.resolve_step(run, "ready", result='{"status":"READY"}'))
    world.recover(run, world.go_on(run))
    world.settle()
    assert world.instance(run).state is InstanceState.SUCCEEDED


@pytest.mark.rule("WEA-7", "WEA-9", "S4")
@pytest.mark.parametrize("policy", ["review", "fail"])
def test_a_poll_runs_out_of_rounds(world: WeaveWorld, policy: str) -> None:
    world.define(poll(max_rounds=2, on_exhausted=policy), task("then"))
    run = world.begin()
    world.work(answer("WAIT"))
    world.pass_ms(10_000)
    world.settle()
    world.work(answer("WAIT"))
    if policy == "fail":
        error = canonical.parse(world.instance(run).error or "")
        assert error["code"] == "ROUNDS_EXHAUSTED"
        return
    assert world.leaf(run, "ready").review_cause is ReviewCause.ROUNDS_EXHAUSTED
    assert world.refusal(run, world.continue_poll(run, "ready")).code == "ROUNDS_EXHAUSTED"
    assert world.refusal(run, world.retry_step(run, "ready")).code == "ROUND_PENDING"
    rounds = world.look(run).queries
    world.recover(run, world.resolve_step(run, "ready", result='{"status":"READY"}'))
    world.recover(run, world.go_on(run))
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.look(run).queries == rounds
    assert world.findings() == []


@pytest.mark.rule("WEA-7", "WEA-9")
def test_a_poll_reaches_its_query_deadline(world: WeaveWorld) -> None:
    world.define(poll(max_rounds=100, query_deadline="15s"))
    run = world.begin()
    world.work(answer("WAIT"))
    world.pass_ms(10_000)
    world.settle()
    world.work(answer("WAIT"))
    assert world.leaf(run, "ready").review_cause is ReviewCause.QUERY_DEADLINE
    silent = world.begin("unasked")
    world.pass_ms(15_000)
    world.settle()
    assert world.leaf(silent, "ready").review_cause is ReviewCause.QUERY_DEADLINE
    assert world.findings() == []


@pytest.mark.rule("WEA-16", "WEA-9")
def test_a_round_is_collected_in_a_pause_and_the_next_starts_after_it(world: WeaveWorld) -> None:
    world.define(poll())
    run = world.begin()
    lease = world.running()
    world.control(run, ControlVerb.PAUSE)
    world.report(lease, answer("WAIT"))
    world.settle()
    assert world.look(run).queries[0].classification is Classification.PENDING
    world.pass_ms(60_000)
    world.settle()
    assert len(world.look(run).queries) == 1
    world.control(run, ControlVerb.RESUME)
    world.settle()
    assert len(world.look(run).queries) == 2


@pytest.mark.rule("RET-9", "RET-4", "S3")
def test_a_failed_query_is_asked_again_in_its_round(world: WeaveWorld) -> None:
    world.define(poll(max_attempts=2, on_failure="review"))
    run = world.begin()
    world.work(failed("NET", retryable=False))
    before = world.look(run)
    receipt = world.recover(run, world.retry_step(run, "ready"))
    assert receipt["details"]["max_attempts"] == 1
    world.recover(run, world.go_on(run))
    world.settle()
    detail = world.look(run)
    assert [(q.round, q.activation_id) for q in detail.queries] == [
        (1, before.activations[0].id),
        (1, receipt["details"]["activation_id"]),
    ]
    assert detail.tasks[1].spec.retry_of == detail.tasks[0].task.id
    world.work(answer("WAIT"))
    due_at = world.armed(run)[0].due_at
    assert due_at is not None
    assert due_at - world.now == 10_000_000
    world.pass_ms(10_000)
    world.settle()
    world.work(answer("READY"))
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("RET-4", "RET-5")
def test_the_budget_of_a_round_is_not_that_of_the_poll(world: WeaveWorld) -> None:
    world.define(poll(max_attempts=1, on_failure="review"))
    run = world.begin()
    world.work(answer("WAIT"))
    world.pass_ms(10_000)
    world.settle()
    world.work(failed("NET", retryable=False))
    assert world.refusal(run, world.retry_step(run, "ready")).code == "BUDGET_EXHAUSTED"


@pytest.mark.rule("CPO-1", "REV-3", "S6")
def test_an_unknown_query_is_verified_pending_and_polling_goes_on(world: WeaveWorld) -> None:
    world.define(poll(effect="at_most_once"))
    run = world.begin()
    world.work(unknown())
    world.recover(run, world.review_task(run, "ready", result='{"status":"WAIT"}'))
    settled_at = world.now
    world.settle()
    assert world.refusal(run, world.retry_step(run, "ready")).code == "ROUND_PENDING"
    world.pass_ms(4_000)
    receipt = world.recover(run, world.continue_poll(run, "ready"))
    assert receipt["state_after"] == "NEEDS_REVIEW"
    assert receipt["details"]["next_round_due_at"] == settled_at + 10_000_000
    world.pass_ms(10_000)
    world.settle()
    assert len(world.look(run).queries) == 1
    world.recover(run, world.go_on(run))
    world.settle()
    assert [q.round for q in world.look(run).queries] == [1, 2]
    world.work(answer("READY"))
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-9", "WEA-15")
def test_a_final_signal_wins_and_an_unstarted_query_is_cancelled(world: WeaveWorld) -> None:
    world.define(poll(final_signal={"name": "done"}))
    run = world.begin()
    world.signal(run, "done", {"status": "READY"})
    world.settle()
    detail = world.look(run)
    assert detail.instance.state is InstanceState.SUCCEEDED
    assert detail.tasks[0].task.state.value == "CANCELLED"
    assert detail.output == '{"status":"READY"}'
    assert world.dispositions(run) == [Disposition.SUPERSEDED.value]
    assert world.findings() == []


@pytest.mark.rule("WEA-9", "WEA-15")
def test_the_end_waits_for_a_query_that_a_signal_overtook(world: WeaveWorld) -> None:
    world.define(poll(final_signal={"name": "done"}), task("then"))
    run = world.begin()
    lease = world.running()
    world.signal(run, "done", {"status": "READY"})
    world.settle()
    world.work()
    assert world.instance(run).state is InstanceState.RUNNING
    assert world.instance(run).superseded == 1
    world.report(lease, answer("WAIT"))
    world.settle()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-9", "CON-1")
def test_an_overtaken_query_of_unknown_outcome_needs_a_person(world: WeaveWorld) -> None:
    world.define(poll(final_signal={"name": "done"}, effect="at_most_once"))
    run = world.begin()
    lease = world.running()
    world.signal(run, "done", {"status": "READY"})
    world.report(lease, unknown())
    world.settle()
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    assert world.refusal(run, world.go_on(run)).code == "EXECUTION_UNSETTLED"
    world.recover(run, world.review_task(run, "ready"))
    world.settle()
    world.recover(run, world.go_on(run))
    world.settle()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-9", "WEA-10")
def test_a_signal_that_is_not_final_leaves_the_poll_polling(world: WeaveWorld) -> None:
    world.define(task("first"), poll(final_signal={"name": "done"}))
    run = world.begin()
    world.signal(run, "done", {"status": "WAIT"})
    world.work()
    assert [wait.generation for wait in world.armed(run)] == [2]
    assert len(world.look(run).queries) == 1
    world.signal(run, "done", {"status": "BAD"})
    assert world.leaf(run, "ready").state is LeafState.FAILED


@pytest.mark.rule("WEA-12", "WEA-9")
def test_a_stop_ends_a_poll_between_rounds_and_one_that_asks(world: WeaveWorld) -> None:
    world.define(poll(final_signal={"name": "done"}))
    asking, waiting = world.begin("asking"), world.begin("waiting")
    first, second = world.claim(2)
    world.start(first)
    world.start(second)
    world.report(second, answer("WAIT"))
    world.settle()
    for run in (asking, waiting):
        world.control(run, ControlVerb.CANCEL)
    world.settle()
    assert world.instance(waiting).state is InstanceState.CANCELLED
    assert world.instance(asking).state is InstanceState.CANCELLING
    world.report(first, answer("WAIT"))
    world.settle()
    assert world.instance(asking).state is InstanceState.CANCELLED
    assert world.findings() == []
