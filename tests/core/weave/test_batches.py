"""Consuming a batch of events gives exactly what consuming them one by one gives (WEA-16)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.core.pulse.report import Report
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InboxState
from tests.core.pulse.tasks import failed, succeeded, unknown
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.machine import SECOND, Machine

pytestmark = pytest.mark.exhaustive

KEYS = ("a", "b", "c")
POLICIES = ("fail", "review", "ignore")
TOLD: Mapping[str, Report] = {
    "succeeded": succeeded('{"id":7}'),
    "broken": succeeded('{"id":"x"}'),
    "failed": failed(retryable=False),
    "unknown": unknown(),
}
CONTRACT = {"type": "object", "properties": {"id": {"type": "integer"}}}


def machine_of(policies: Sequence[str], *, deadline: str | None = None) -> Machine:
    """Three branches, each of two steps, with an end that reads them all."""
    branches = {
        key: [
            task(key, on_failure=policy, output=CONTRACT, effect="idempotent"),
            task(f"{key}2", input=f"${{steps.{key}.output}}"),
        ]
        for key, policy in zip(KEYS, policies, strict=True)
    }
    more = {} if deadline is None else {"deadline": deadline}
    return Machine(
        compiled({"parallel": "all", "branches": branches}, task("last"), **more),
        {"order": 1},
    )


def seen(machine: Machine) -> dict[str, Any]:
    """Everything that is so, but for how many transactions it took and which ids it drew."""
    at = machine.instance
    leaves = {
        (leaf.step_key, leaf.sequence): (
            leaf.state,
            leaf.current,
            leaf.ignored,
            leaf.error,
            leaf.review_cause,
            leaf.task_state,
            leaf.task_revision,
            leaf.output and (leaf.output.source, leaf.output.digest),
        )
        for leaf in machine.activations.values()
    }
    tasks = {}
    for leaf in machine.activations.values():
        if leaf.task_id is not None:
            row = machine.rows[leaf.task_id]
            held = row.task
            tasks[leaf.step_key, leaf.sequence] = (
                held.state,
                held.holds,
                held.revision,
                held.cancel_requested_at,
                row.spec.input,
                row.spec.created_at,
            )
    return {
        "instance": (at.state, at.paused, at.stop, at.contradicted, at.quarantined, at.error),
        "output": machine.output,
        "leaves": leaves,
        "tasks": tasks,
        "dispositions": machine.dispositions(),
        "records": [machine.inbox[seq].state for seq in sorted(machine.inbox)],
        "causes": [machine.inbox[seq].cause for seq in sorted(machine.inbox)],
        "stream": [(told.kind, told.task_revision) for told in machine.stream],
    }


def check_same(machine: Machine, sizes: Sequence[int] = ()) -> None:
    """All at once, in batches of these sizes, and one by one: the same, now and when settled."""
    count = len(machine.unconsumed)
    ways = []
    for limits in ([count], [*sizes], [1] * count):
        other = machine.fork()
        left = count
        for limit in limits:
            other.consume(min(limit, left))
            left -= min(limit, left)
        if left:
            other.consume(left)
        ways.append(other)
    together = seen(ways[0])
    assert [seen(way) for way in ways[1:]] == [together, together]
    for way in ways:
        way.settle()
    together = seen(ways[0])
    assert [seen(way) for way in ways[1:]] == [together, together]


@st.composite
def reported(draw: st.DrawFn) -> Machine:
    """Some steps have reported, in some order, while some other things happened."""
    late = draw(st.booleans())
    machine = machine_of(
        [draw(st.sampled_from(POLICIES)) for _ in KEYS], deadline="1h" if late else None
    )
    if draw(st.booleans()):  # one that was consumed before, so that second steps report as well
        key = draw(st.sampled_from(KEYS))
        machine.start(machine.row(key))
        machine.report(machine.row(key), TOLD[draw(st.sampled_from(sorted(TOLD)))])
        machine.consume()
    for row in draw(st.permutations(machine.startable())):
        machine.start(row)
    for row in draw(st.permutations(machine.running())):
        what = draw(st.sampled_from([*sorted(TOLD), "cancelled alone", "nothing"]))
        if what == "cancelled alone":
            machine.cancel_task(row)
        elif what in TOLD:
            machine.report(row, TOLD[what])
        verb = draw(st.sampled_from([None, None, None, *ControlVerb]))
        if verb is not None:
            machine.control(verb)
    if draw(st.booleans()):
        for row in machine.running():
            machine.report(row, TOLD[draw(st.sampled_from(sorted(TOLD)))])
    if draw(st.booleans()):  # a report of an attempt that is over
        closed = [row for row in machine.rows.values() if row.attempts and row.task.settled]
        if closed:
            machine.report(draw(st.sampled_from(closed)), TOLD["unknown"])
            machine.report(draw(st.sampled_from(closed)), TOLD["failed"])
    if late:
        machine.now += 3600 * SECOND
    return machine


@pytest.mark.rule("WEA-16")
@given(reported(), st.lists(st.integers(1, 3), max_size=4))
def test_a_batch_gives_what_its_events_give_one_by_one(machine: Machine, sizes: list[int]) -> None:
    check_same(machine, sizes)


@pytest.mark.rule("WEA-16", "WEA-5")
@given(reported(), st.data())
def test_a_record_set_aside_leaves_the_same_whatever_the_batch(
    machine: Machine, data: st.DataObject
) -> None:
    if not machine.unconsumed:
        return
    culprit = data.draw(st.sampled_from(machine.unconsumed))
    row = machine.rows[culprit.task_id]
    named = machine.stream.index(culprit)
    machine.stream[named] = replace(culprit, namespace="other")
    check_same(machine)
    machine.consume()
    assert machine.inbox[culprit.seq].state is InboxState.QUARANTINED
    assert row.task.id == culprit.task_id


@pytest.mark.rule("WEA-16")
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("first", sorted(TOLD))
@pytest.mark.parametrize("second", sorted(TOLD))
@pytest.mark.parametrize("policy", POLICIES)
def test_two_events_of_every_kind_in_both_orders(
    order: tuple[str, str], first: str, second: str, policy: str
) -> None:
    machine = machine_of((policy, "fail", "fail"))
    for key in KEYS:
        machine.start(machine.row(key))
    for key, what in zip(order, (first, second), strict=True):
        machine.report(machine.row(key), TOLD[what])
    if first == second == "succeeded":
        assert len(machine.unconsumed) == 2
    check_same(machine)
