"""Records that can't be judged are set aside alone, with a cause from the closed list (WEA-5)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pulseweave.core.pulse.task import EventKind, Outcome, TaskState
from pulseweave.core.weave.states import (
    Disposition,
    InboxState,
    InstanceState,
    LeafState,
    QuarantineCause,
)
from pulseweave.kernel import canonical
from pulseweave.kernel.check import InvariantViolation
from tests.core.pulse.tasks import failed, succeeded, unknown
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.machine import Machine

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
