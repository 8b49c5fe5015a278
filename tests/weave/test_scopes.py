"""Choices and maps on each database: taken once, bounded, nested, failing (WEA-2)."""

from typing import Any

import pytest

from pulseweave.core.weave.states import InstanceState
from pulseweave.kernel import canonical
from tests.pulse.world import failed, succeeded
from tests.weave.world import WeaveWorld, task

ROUTE: dict[str, Any] = {
    "choice": "route",
    "cases": [
        {"when": "${ input.amount > 100 }", "steps": [task("large")]},
        {"when": "${ input.amount > 10 }", "steps": [task("medium"), task("more")]},
    ],
}


def each(**more: Any) -> dict[str, Any]:
    body = [task("one", input={"n": "${item}", "i": "${item_index}"})]
    return {"map": "all", "items": "${input.items}", "steps": body, **more}


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(("amount", "keys"), [(500, ["large"]), (50, ["medium", "more"])])
def test_a_choice_takes_the_first_case_that_holds(
    world: WeaveWorld, amount: int, keys: list[str]
) -> None:
    world.define(ROUTE, task("then", input="${steps.route.output}"))
    run = world.begin(value={"amount": amount})
    for key in keys:
        world.work(succeeded({"did": key}))
    detail = world.look(run)
    assert [leaf.step_key for leaf in detail.activations] == [*keys, "then"]
    assert canonical.parse(detail.tasks[-1].spec.input) == {"did": keys[-1]}
    world.work()
    assert world.instance(run).state is InstanceState.SUCCEEDED
    assert world.findings() == []


@pytest.mark.rule("WEA-2", "WEA-20")
def test_no_case_holds(world: WeaveWorld) -> None:
    world.define(ROUTE)
    run = world.begin(value={"amount": 1})
    detail = world.look(run)
    assert detail.instance.state is InstanceState.FAILED
    assert canonical.parse(detail.instance.error or "")["code"] == "NO_CASE_HOLDS"
    world.define({**ROUTE, "else": []}, version=2)
    silent = world.begin("other", {"amount": 1})
    assert world.look(silent).output == "null"
    broken = world.begin("broken", {"amount": "many"})
    error = canonical.parse(world.instance(broken).error or "")
    assert (error["code"], error["step"]) == ("EXPRESSION_ERROR", "route")


@pytest.mark.rule("WEA-2")
def test_a_map_runs_its_body_for_each_item_and_gives_their_outputs_in_order(
    world: WeaveWorld,
) -> None:
    world.define(each(max_concurrency=2), task("then", input="${steps.all.output}"))
    run = world.begin(value={"items": ["a", "b", "c"]})
    inputs = []
    while world.instance(run).state is InstanceState.RUNNING:
        leases = world.claim(5)
        assert len(leases) <= 2
        for lease in reversed(leases):
            world.start(lease)
            given = canonical.parse(world.detail(lease.task_id).spec.input)
            inputs.append(given)
            result = given if isinstance(given, list) else given["n"] * 2
            world.report(lease, succeeded(result))
        world.settle()
    detail = world.look(run)
    keys = {leaf.step_key for leaf in detail.activations}
    assert keys == {"one[0]", "one[1]", "one[2]", "then"}
    assert detail.output == '["aa","bb","cc"]'
    assert {given["i"] for given in inputs[:3]} == {0, 1, 2}
    assert world.findings() == []


@pytest.mark.rule("WEA-2")
def test_an_empty_map_is_complete(world: WeaveWorld) -> None:
    world.define(each())
    run = world.begin(value={"items": []})
    assert world.look(run).output == "[]"


@pytest.mark.rule("WEA-2", "WEA-20")
@pytest.mark.parametrize("items", [None, {"a": 1}, "abc"])
def test_a_map_over_no_array_stops_the_instance(world: WeaveWorld, items: Any) -> None:
    world.define(each())
    run = world.begin(value={"items": items})
    assert canonical.parse(world.instance(run).error or "")["code"] == "EXPRESSION_ERROR"


@pytest.mark.rule("WEA-2")
def test_maps_nest_and_each_sees_the_items_around_it(world: WeaveWorld) -> None:
    inner = {
        "map": "inner",
        "as": "cell",
        "items": "${row.cells}",
        "steps": [
            task("pre", input="${row.name}"),
            task("one", input="${row.name + ':' + cell + ':' + steps.pre.output}"),
        ],
    }
    world.define({"map": "outer", "as": "row", "items": "${input}", "steps": [inner]})
    rows = [{"name": "r0", "cells": ["x", "y"]}, {"name": "r1", "cells": []}]
    run = world.begin(value=[*rows, {"name": "r2", "cells": ["z"]}])
    while world.instance(run).state is InstanceState.RUNNING:
        for lease in world.claim(10):
            world.start(lease)
            world.report(lease, succeeded(canonical.parse(world.detail(lease.task_id).spec.input)))
        world.settle()
    detail = world.look(run)
    assert canonical.parse(detail.output or "") == [
        ["r0:x:r0", "r0:y:r0"],
        [],
        ["r2:z:r2"],
    ]
    assert "one[0][1]" in {leaf.step_key for leaf in detail.activations}
    assert world.findings() == []


@pytest.mark.rule("WEA-2", "WEA-8")
def test_a_choice_in_a_map_and_a_failure_that_is_ignored(world: WeaveWorld) -> None:
    body = {
        "choice": "kind",
        "cases": [{"when": "${item > 1}", "steps": [task("big", on_failure="ignore")]}],
        "else": [],
    }
    world.define({"map": "all", "items": "${input}", "steps": [body]})
    run = world.begin(value=[1, 2, 3])
    world.work(failed("NOPE", retryable=False))
    world.work(succeeded("ok"))
    output = canonical.parse(world.look(run).output or "")
    assert output[0] is None
    assert output[1]["code"] == "NOPE"
    assert output[2] == "ok"
    assert world.findings() == []


@pytest.mark.rule("WEA-2", "PUL-16")
def test_a_failing_item_stops_the_instance_and_no_item_follows(world: WeaveWorld) -> None:
    world.define(each(max_concurrency=2))
    run = world.begin(value={"items": list(range(5))})
    world.work(failed("NOPE", retryable=False))
    detail = world.look(run)
    assert detail.instance.state is InstanceState.FAILED
    assert {leaf.step_key for leaf in detail.activations} == {"one[0]", "one[1]"}


@pytest.mark.rule("RET-1", "CON-1", "WEA-17")
def test_an_item_is_reviewed_and_retried_like_any_step(world: WeaveWorld) -> None:
    body = [task("one", max_attempts=2, on_failure="review")]
    world.define({"map": "all", "items": "${input}", "max_concurrency": 1, "steps": body})
    run = world.begin(value=[1, 2])
    world.work(succeeded(1))
    world.work(failed("NOPE", retryable=False))
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    world.recover(run, world.retry_step(run, "one[1]"))
    world.recover(run, world.go_on(run))
    world.settle()
    world.work(succeeded(2))
    assert world.look(run).output == "[1,2]"
    assert world.findings() == []
