"""Records that can't be judged are set aside alone, with a cause from the closed list (WEA-5)."""

from dataclasses import replace

import pytest

from pulseweave.core.recovery.command import ResolveStep, ReviewTask
from pulseweave.core.weave.draft import Draft, InstanceFacts
from pulseweave.core.weave.inbox import Delivery, consume_all
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import (
    Disposition,
    InboxState,
    InstanceState,
    LeafState,
    QuarantineCause,
)
from pulseweave.kernel.check import InvariantViolation
from tests.core.pulse.tasks import failed, succeeded, unknown
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import ids, instance, leaf
from tests.core.weave.machine import NOW, Machine

BOTH = {"parallel": "both", "branches": {"a": [task("a")], "b": [task("b")]}}


class Damaged(Machine):
    """A row changed behind everybody's back: nothing is promised of it any more."""

    def check(self) -> None:
        assert self.instance.revision == len(self.journal)


def both_reported() -> Machine:
    """Two results wait to be consumed in one batch, a's first."""
    machine = Damaged(compiled(BOTH, task("last")))
    for key in ("a", "b"):
        machine.start(machine.row(key))
        machine.report(machine.row(key), succeeded(f'"{key}"'))
    return machine


def damage(machine: Machine, key: str) -> None:
    """From now on no plan that moves this step can be finished."""
    leaf = machine.leaves[key]
    machine.activations[leaf.id] = replace(leaf, sequence=0)


def told(machine: Machine) -> list[InboxState]:
    return [machine.inbox[seq].state for seq in sorted(machine.inbox)]


@pytest.mark.rule("WEA-5", "WEA-16")
@pytest.mark.parametrize(
    ("broken", "states"),
    [
        ("a", [InboxState.QUARANTINED, InboxState.PENDING]),
        ("b", [InboxState.PROCESSED, InboxState.QUARANTINED]),
    ],
)
@pytest.mark.parametrize("one_by_one", [True, False])
def test_an_event_whose_plan_can_not_be_finished_is_set_aside_alone(
    broken: str, states: list[InboxState], *, one_by_one: bool
) -> None:
    machine = both_reported()
    damage(machine, broken)
    while machine.consume(1 if one_by_one else None):
        pass
    assert told(machine) == states
    culprit = next(r for r in machine.inbox.values() if r.state is InboxState.QUARANTINED)
    assert culprit.cause is QuarantineCause.DECISION_FAILED
    assert "InvariantViolation" in (culprit.cause_detail or "")
    assert machine.state() is InstanceState.NEEDS_REVIEW
    assert machine.instance.quarantined


@pytest.mark.rule("WEA-5", "REC-16")
def test_a_decision_that_fails_sets_its_record_aside_and_the_others_wait_in_order() -> None:
    machine = both_reported()
    row = machine.row("a")
    row.result = '{"cut'  # what no writer leaves behind
    machine.consume()
    assert told(machine) == [InboxState.QUARANTINED, InboxState.PENDING]
    assert machine.inbox[1].cause is QuarantineCause.DECISION_FAILED
    assert machine.states() == {"a": LeafState.ACTIVE, "b": LeafState.ACTIVE}
    assert machine.state() is InstanceState.NEEDS_REVIEW
    assert machine.requeue()
    assert told(machine) == [InboxState.QUARANTINED, InboxState.PENDING], "nothing was mended"
    row.result = '"a"'
    machine.requeue()
    assert told(machine) == [InboxState.PROCESSED, InboxState.PROCESSED]
    assert machine.states() == {"a": LeafState.SUCCEEDED, "b": LeafState.SUCCEEDED}
    assert not machine.instance.quarantined
    assert machine.state() is InstanceState.NEEDS_REVIEW, "only Continue leads on"


@pytest.mark.rule("WEA-5")
@pytest.mark.parametrize("one_by_one", [True, False])
def test_what_comes_behind_a_record_set_aside_waits(*, one_by_one: bool) -> None:
    machine = both_reported()
    machine.row("a").task = replace(machine.row("a").task, namespace="other")
    while machine.consume(1 if one_by_one else None):
        pass
    assert told(machine) == [InboxState.QUARANTINED, InboxState.PENDING]
    assert machine.inbox[1].cause is QuarantineCause.OWNERSHIP_MISMATCH
    assert machine.leaves["b"].state is LeafState.ACTIVE
    machine.row("a").task = replace(machine.row("a").task, namespace="acme")
    machine.requeue()
    assert machine.dispositions() == [Disposition.APPLIED, Disposition.APPLIED]


@pytest.mark.rule("WEA-5", "WEA-4")
def test_an_ended_instance_is_only_flagged() -> None:
    machine = Damaged(compiled(task("a")))
    row = machine.row("a")
    machine.start(row)
    machine.report(row, unknown())
    machine.settle()
    assert machine.ask(ReviewTask.OPERATION, "a") is None
    machine.settle()
    assert machine.ask(ResolveStep.OPERATION, "a") is None
    assert machine.ask("CONTINUE") is None
    machine.settle()
    assert machine.state() is InstanceState.SUCCEEDED
    machine.report(row, failed(retryable=False))
    row.task = replace(row.task, namespace="other")
    machine.consume()
    assert machine.inbox[3].state is InboxState.QUARANTINED
    assert (machine.instance.quarantined, machine.state()) == (True, InstanceState.SUCCEEDED)


@pytest.mark.rule("WEA-5")
def test_facts_that_give_no_plan_at_all_are_the_fault_of_no_record() -> None:
    def make() -> Draft:
        beyond = replace(instance(), control_revision=99)
        leaves = {"a": leaf(step_key="a")}
        facts = InstanceFacts(definition=compiled(task("a")), instance=beyond, leaves=leaves)
        return Draft(facts, now=NOW, new_id=ids())

    machine = both_reported()
    historical: dict[str, Leaf] = {}
    delivery = Delivery(events=tuple(machine.stream), tasks={}, historical=historical)
    with pytest.raises(InvariantViolation):
        consume_all(make, delivery, actor="engine", cause="RESULTS")
