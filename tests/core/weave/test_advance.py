"""Advance: what is set to work, with which task, and how an instance ends (WEA-2, WEA-20)."""

from typing import Any

import pytest

from pulseweave.core.pulse.task import Holds, Queued
from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.order import key_hash
from pulseweave.core.weave.states import (
    InstanceState,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
)
from pulseweave.kernel import canonical, limits
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import NAMESPACE, NOW, SECOND, draft, instance, leaf

BOTH = {
    "parallel": "both",
    "branches": {"a": [task("a"), task("c")], "b": [task("b")]},
}


def advanced(*steps: object, value: object = None, **more: Any) -> Draft:
    """An instance with its input and, maybe, leaves, evaluated once."""
    leaves: list[Leaf] = more.pop("leaves", [])
    payloads = {"": {} if value is None else value, **more.pop("payloads", {})}
    at = draft(more.pop("at", instance()), compiled(*steps, **more), leaves, payloads=payloads)
    advance(at)
    return at


def done(step_key: str, **facts: Any) -> Leaf:
    return leaf(LeafState.SUCCEEDED, step_key=step_key, **facts)


# --- the graph ------------------------------------------------------------------------------------


@pytest.mark.rule("WEA-2", "WEA-16")
@pytest.mark.parametrize(
    ("finished", "entered"),
    [
        ([], {"a", "b"}),
        (["a"], {"b", "c"}),
        (["b"], {"a"}),
        (["a", "b"], {"c"}),
        (["a", "c"], {"b"}),
        (["a", "b", "c"], {"last"}),
    ],
)
def test_what_may_begin_begins(finished: list[str], entered: set[str]) -> None:
    at = advanced(BOTH, task("last"), leaves=[done(key) for key in finished])
    assert {created.task.activation_id for created in at.tasks} == {
        at.leaves[key].id for key in entered
    }
    assert set(at.leaves) == {*finished, *entered}


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(
    "state", [LeafState.ACTIVE, LeafState.NEEDS_REVIEW, LeafState.FAILED, LeafState.CANCELLED]
)
def test_nothing_begins_behind_a_step_that_is_not_done(state: LeafState) -> None:
    at = advanced(task("charge"), task("ship"), leaves=[leaf(state)])
    assert set(at.leaves) == {"charge"}
    assert at.instance.state is InstanceState.RUNNING


@pytest.mark.rule("WEA-16", "PUL-12")
@pytest.mark.parametrize(
    "facts", [{"paused": True}, {"state": InstanceState.NEEDS_REVIEW}, {"deferred": True}]
)
def test_nothing_begins_while_the_gate_is_closed_or_the_advance_deferred(
    facts: dict[str, Any],
) -> None:
    at = draft(
        instance(facts.get("state", InstanceState.RUNNING), paused=facts.get("paused", False)),
        compiled(task("charge")),
    )
    at.deferred = facts.get("deferred", False)
    advance(at)
    assert (at.leaves, at.tasks) == ({}, [])


@pytest.mark.rule("PUL-7", "WEA-4")
def test_a_new_task_is_what_the_definition_says() -> None:
    at = advanced(
        task(
            "charge",
            input={"amount": "${input.amount}"},
            concurrency_key="account-${input.account}",
            business_key="${input.order}",
            priority=7,
            max_attempts=4,
            lease="45s",
            deadline="10s",
            start_within="4s",
        ),
        value={"amount": 3, "account": 17, "order": "o-1"},
        at=instance(deadline_at=NOW + 60 * SECOND),
    )
    (created,) = at.tasks
    held, spec = created.task, created.spec
    assert (held.deadline_at, held.start_by) == (NOW + 10 * SECOND, NOW + 4 * SECOND)
    assert (held.priority, held.max_attempts, held.lease_ms) == (7, 4, 45_000)
    assert held.key == key_hash(NAMESPACE, "account-17")
    assert (spec.concurrency_key, spec.business_key) == ("account-17", "o-1")
    assert (spec.input, spec.input_digest) == ('{"amount":3}', canonical.digest('{"amount":3}'))
    assert (spec.retry_of, spec.task_key) == (None, None)
    assert isinstance(held.phase, Queued)
    step = at.leaves["charge"]
    assert (held.id, held.activation_id) == (step.task_id, step.id)
    assert (step.sequence, step.state, step.entered_at) == (1, LeafState.ACTIVE, NOW)
    plan = at.finish(actor="engine", cause="WAKE")
    assert plan.tasks[0].task.holds is Holds.NONE, "the gate is open"


@pytest.mark.rule("PUL-7")
@pytest.mark.parametrize(
    ("deadline_at", "fields", "expected"),
    [
        (None, {}, (None, None)),
        (NOW + 5 * SECOND, {}, (NOW + 5 * SECOND, None)),
        (
            NOW + 5 * SECOND,
            {"deadline": "9s", "start_within": "8s"},
            (NOW + 5 * SECOND, NOW + 5 * SECOND),
        ),
        (None, {"deadline": "9s", "start_within": "8s"}, (NOW + 9 * SECOND, NOW + 8 * SECOND)),
    ],
)
def test_a_tasks_instants_are_at_most_the_instances(
    deadline_at: int | None, fields: dict[str, Any], expected: tuple[int | None, int | None]
) -> None:
    at = advanced(task("charge", **fields), at=instance(deadline_at=deadline_at))
    held = at.tasks[0].task
    assert (held.deadline_at, held.start_by) == expected


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(
    ("value", "key"),
    [
        (None, None),
        ("account-1", "account-1"),
        (17, "17"),
        ([1, None], "[1,null]"),
        ("null", "null"),
    ],
)
def test_an_expression_that_gives_null_gives_no_key(value: object, key: str | None) -> None:
    at = advanced(
        task("charge", concurrency_key="${input.key}", business_key="${input.key}"),
        value={"key": value},
    )
    (created,) = at.tasks
    assert (created.spec.concurrency_key, created.spec.business_key) == (key, key)
    assert created.task.key == key_hash(NAMESPACE, key)
    assert (created.task.key is None) == (key is None)


def test_keys_belong_to_their_namespace() -> None:
    assert key_hash("acme", "k") != key_hash("other", "k")


# --- values not loaded yet ------------------------------------------------------------------------


@pytest.mark.rule("WEA-2")
def test_what_an_expression_reads_is_asked_for_and_nothing_begins_without_it() -> None:
    steps = (task("charge"), task("ship", input="${steps.charge.output}"))
    at = advanced(*steps, leaves=[done("charge")])
    assert at.missing == {"charge"}
    assert (set(at.leaves), at.tasks) == ({"charge"}, [])
    loaded = advanced(*steps, leaves=[done("charge")], payloads={"charge": {"ok": True}})
    assert loaded.tasks[0].spec.input == '{"ok":true}'


@pytest.mark.rule("WEA-2")
def test_an_output_of_several_steps_is_read_from_its_leaves() -> None:
    steps = (BOTH, task("last", input="${steps.both.output}"))
    leaves = [done("a"), done("b"), done("c")]
    at = advanced(*steps, leaves=leaves, payloads={"c": 1, "b": 2})
    assert at.tasks[0].spec.input == '{"a":1,"b":2}'
    assert advanced(*steps, leaves=leaves).missing == {"b", "c"}


# --- what can't be evaluated ----------------------------------------------------------------------


@pytest.mark.rule("WEA-20", "WEA-8")
@pytest.mark.parametrize("policy", ["fail", "review", "ignore"])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"input": "${input.gone}"}, "EXPRESSION_ERROR"),
        ({"concurrency_key": "${input.long}"}, "INPUT_CONTRACT"),
        ({"business_key": "${input.long}"}, "INPUT_CONTRACT"),
    ],
)
def test_a_step_whose_input_fails_has_no_task_and_its_policy_decides(
    fields: dict[str, Any], code: str, policy: str
) -> None:
    at = advanced(
        task("charge", on_failure=policy, **fields),
        task("ship"),
        value={"long": "x" * (limits.CONCURRENCY_KEY_CHARS_MAX + 1)},
    )
    step = at.leaves["charge"]
    assert (step.task_id, step.sequence) == (None, 1)
    assert canonical.parse(step.error or "")["code"] == code
    if policy == "fail":
        assert (step.state, at.instance.state) == (LeafState.FAILED, InstanceState.CANCELLING)
        assert at.instance.stop is not None
        assert canonical.parse(at.instance.stop.error)["step"] == "charge"
        assert at.tasks == []
    elif policy == "review":
        assert (step.state, step.review_cause) == (LeafState.NEEDS_REVIEW, ReviewCause.FAILED)
        assert (at.instance.state, at.tasks) == (InstanceState.NEEDS_REVIEW, [])
    else:
        assert (step.state, step.ignored) == (LeafState.FAILED, True)
        assert step.output is not None
        assert step.output.source is OutputSource.ERROR
        assert set(at.leaves) == {"charge", "ship"}
    at.finish(actor="engine", cause="WAKE")


@pytest.mark.rule("WEA-20", "WEA-16")
def test_nothing_begins_beside_a_failure_that_stops() -> None:
    branches = {"a": [task("a", input="${input.gone}")], "b": [task("b")]}
    at = advanced({"parallel": "both", "branches": branches})
    assert (set(at.leaves), at.tasks) == ({"a"}, [])


@pytest.mark.rule("WEA-20")
def test_the_error_says_which_expression_failed_and_where() -> None:
    at = advanced(task("charge", input={"amount": "${input.gone}"}))
    details = canonical.parse(at.leaves["charge"].error or "")["details"]
    assert details["expression"] == "input.gone"
    assert details["pointer"].endswith("/amount")


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.rule("WEA-2", "WEA-15")
@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({}, '{"ok":true}'),
        ({"output": {"from": "${input.who}", "was": "${steps.charge.output.ok}"}}, None),
        ({"output": "${steps.charge.output.ok}"}, "true"),
    ],
)
def test_when_all_is_done_the_instance_has_its_output(
    fields: dict[str, Any], output: str | None
) -> None:
    at = advanced(
        task("charge"),
        value={"who": "me"},
        leaves=[done("charge")],
        payloads={"charge": {"ok": True}},
        **fields,
    )
    expected = output or '{"from":"me","was":true}'
    assert (at.instance.state, at.keep["output"]) == (InstanceState.SUCCEEDED, expected)
    assert at.instance.output_digest == canonical.digest(expected)
    assert at.instance.ended_at == NOW
    assert at.finish(actor="engine", cause="WAKE").gate is False


@pytest.mark.rule("WEA-15")
@pytest.mark.parametrize("fields", [{}, {"output": "${steps.charge.output}"}])
def test_it_does_not_end_before_its_output_is_loaded(fields: dict[str, Any]) -> None:
    at = advanced(task("charge"), leaves=[done("charge")], **fields)
    assert (at.missing, at.instance.state) == ({"charge"}, InstanceState.RUNNING)


@pytest.mark.rule("WEA-20")
@pytest.mark.parametrize(
    ("fields", "value", "code"),
    [
        ({"output": "${steps.charge.output.gone}"}, {}, "EXPRESSION_ERROR"),
        ({}, "x" * limits.PAYLOAD_BYTES_MAX, "OUTPUT_CONTRACT"),
    ],
)
def test_an_output_that_can_not_be_made_stops_the_instance(
    fields: dict[str, Any], value: object, code: str
) -> None:
    at = advanced(task("charge"), leaves=[done("charge")], payloads={"charge": value}, **fields)
    assert at.instance.state is InstanceState.CANCELLING
    stop = at.instance.stop
    assert stop is not None
    assert (stop.kind, canonical.parse(stop.error)["code"]) == (StopKind.FAIL, code)


@pytest.mark.rule("WEA-8")
def test_an_ignored_error_is_an_output_like_any_other() -> None:
    step = leaf(LeafState.FAILED, ignored=True)
    error = {"code": "BAD", "message": "no"}
    at = advanced(
        task("charge", on_failure="ignore"),
        task("ship", input="${steps.charge.output.code}"),
        leaves=[step],
        payloads={"charge": error},
    )
    assert at.tasks[0].spec.input == '"BAD"'
