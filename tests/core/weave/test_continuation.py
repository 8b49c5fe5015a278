"""The continuation: ordered by whoever needs it, kept until the instance was evaluated (WEA-14)."""

import pytest

from pulseweave.core.pulse.task import Outcome
from pulseweave.core.recovery.command import Continue, ResolveStep, ReviewTask
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import Disposition, InstanceState, StopKind, WakeReason
from pulseweave.kernel import limits
from tests.core.pulse.tasks import failed, succeeded, unknown
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.machine import NOW, SECOND, Machine

BOTH = {"parallel": "both", "branches": {"a": [task("a")], "b": [task("b"), task("c")]}}


def with_late_report(**fields: object) -> Machine:
    """One step was settled by a verdict; its worker's own report is still to come."""
    machine = Machine(compiled(task("charge", **fields), task("ship")))
    row = machine.row("charge")
    machine.start(row)
    machine.report(row, unknown())
    machine.settle()
    assert machine.ask(ReviewTask.OPERATION, "charge") is None
    machine.settle()
    assert machine.ask(ResolveStep.OPERATION, "charge") is None
    return machine


def report_late(machine: Machine) -> None:
    row = next(row for row in machine.rows.values() if row.attempts)
    assert machine.report(row, succeeded('"late"')).rejected is not None
    machine.consume()
    assert machine.dispositions()[-1] is Disposition.LATE


@pytest.mark.rule("WEA-14", "PUL-17")
def test_a_late_fact_between_continue_and_the_waker_takes_no_continuation() -> None:
    machine = with_late_report()
    assert machine.ask(Continue.OPERATION) is None
    report_late(machine)
    assert (machine.instance.wake_at, machine.instance.wake_reason) == (NOW, WakeReason.ADVANCE)
    machine.settle()
    assert set(machine.leaves) == {"charge", "ship"}


@pytest.mark.rule("WEA-14", "PUL-17")
def test_a_late_fact_leaves_a_stop_to_be_settled() -> None:
    machine = with_late_report()
    assert machine.control(ControlVerb.CANCEL) is None
    assert machine.ask(Continue.OPERATION) is None
    assert machine.state() is InstanceState.CANCELLING
    report_late(machine)
    assert machine.instance.wake_reason is WakeReason.ADVANCE
    machine.settle()
    assert machine.state() is InstanceState.CANCELLED


@pytest.mark.rule("WEA-14", "PUL-12", "REC-13")
def test_a_deferred_advance_outlives_late_facts_and_their_acknowledgement() -> None:
    machine = with_late_report()
    assert machine.ask(Continue.OPERATION) is None
    machine.room = 0
    assert machine.wake()
    due_at = NOW + limits.DEFERRED_ADVANCE_MS * 1000
    assert (machine.instance.wake_at, machine.instance.wake_reason) == (due_at, WakeReason.QUOTA)
    row = machine.row("charge")
    machine.report(row, failed(retryable=False))
    machine.consume()
    assert machine.instance.contradicted
    assert (machine.instance.wake_at, machine.instance.wake_reason) == (due_at, WakeReason.QUOTA)
    machine.acknowledge()
    assert (machine.instance.wake_at, machine.instance.wake_reason) == (due_at, WakeReason.QUOTA)
    assert not machine.wake()
    machine.now, machine.room = due_at, None
    assert machine.wake()
    assert machine.instance.wake_at is None
    assert set(machine.leaves) == {"charge", "ship"}


@pytest.mark.rule("PUL-12")
def test_an_advance_that_finds_no_room_is_deferred_and_comes_again_each_second() -> None:
    machine = Machine(compiled(task("charge"), task("ship")))
    machine.room = 0
    machine.start(machine.row("charge"))
    machine.report(machine.row("charge"), succeeded())
    machine.consume()
    for turn in range(1, 4):
        assert machine.state() is InstanceState.RUNNING
        assert machine.instance.wake_reason is WakeReason.QUOTA
        assert machine.instance.wake_at == NOW + turn * SECOND
        assert set(machine.leaves) == {"charge"}
        machine.now = machine.instance.wake_at
        machine.wake()
    machine.room = 1
    machine.now += SECOND
    machine.wake()
    assert set(machine.leaves) == {"charge", "ship"}


@pytest.mark.rule("PUL-12", "WEA-13")
def test_a_deferred_advance_does_not_sleep_through_the_deadline() -> None:
    machine = Machine(compiled(task("charge"), task("ship"), deadline="500ms"))
    machine.room = 0
    machine.start(machine.row("charge"))
    machine.report(machine.row("charge"), succeeded())
    machine.consume()
    assert machine.instance.wake_at == NOW + SECOND // 2


@pytest.mark.rule("WEA-14")
def test_a_pause_takes_the_continuation_and_the_resume_orders_it_anew() -> None:
    machine = with_late_report()
    assert machine.ask(Continue.OPERATION) is None
    assert machine.control(ControlVerb.PAUSE) is None
    assert machine.instance.wake_at is None
    report_late(machine)
    assert machine.control(ControlVerb.RESUME) is None
    assert machine.instance.wake_reason is WakeReason.ADVANCE
    machine.settle()
    assert set(machine.leaves) == {"charge", "ship"}


@pytest.mark.rule("WEA-13", "WEA-14")
def test_a_deadline_counts_while_paused_and_while_nothing_else_is_due() -> None:
    machine = Machine(compiled(task("charge"), deadline="1h"))
    deadline_at = NOW + 3600 * SECOND
    assert (machine.instance.wake_at, machine.instance.wake_reason) == (
        deadline_at,
        WakeReason.DEADLINE,
    )
    machine.control(ControlVerb.PAUSE)
    assert (machine.instance.wake_at, machine.instance.wake_reason) == (
        deadline_at,
        WakeReason.DEADLINE,
    )
    machine.now = deadline_at
    machine.settle()
    stop = machine.instance.stop
    assert stop is not None
    assert stop.kind is StopKind.FAIL
    assert machine.state() is InstanceState.FAILED


@pytest.mark.rule("WEA-13")
@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.UNKNOWN])
@pytest.mark.parametrize("waker_first", [True, False])
def test_whoever_looks_first_after_the_deadline_the_stop_is_the_same(
    outcome: Outcome, *, waker_first: bool
) -> None:
    machine = Machine(compiled(task("charge", on_failure="review"), task("ship"), deadline="1h"))
    row = machine.row("charge")
    machine.start(row)
    machine.now = NOW + 3600 * SECOND
    told = {
        Outcome.SUCCEEDED: succeeded(),
        Outcome.FAILED: failed(retryable=False),
        Outcome.UNKNOWN: unknown(),
    }[outcome]
    if waker_first:
        assert machine.wake()
    machine.report(row, told)
    machine.settle()
    stop = machine.instance.stop
    assert stop is not None
    assert (stop.kind, '"DEADLINE_EXCEEDED"' in stop.error) == (StopKind.FAIL, True)
    unknowable = outcome is Outcome.UNKNOWN
    assert machine.state() is (InstanceState.NEEDS_REVIEW if unknowable else InstanceState.FAILED)
    assert set(machine.leaves) == {"charge"}


@pytest.mark.rule("WEA-13")
def test_one_in_review_keeps_waiting_for_evidence_after_the_deadline() -> None:
    machine = Machine(compiled(BOTH, deadline="1h"))
    for row in machine.startable():
        machine.start(row)
    machine.report(machine.row("a"), unknown())
    machine.settle()
    assert machine.instance.wake_at is None
    machine.now = NOW + 3600 * SECOND
    machine.report(machine.row("b"), succeeded())
    machine.settle()
    assert machine.state() is InstanceState.NEEDS_REVIEW
    assert machine.instance.stop is None
    assert set(machine.leaves) == {"a", "b"}
