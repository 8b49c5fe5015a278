"""Every state × every event, driven through the functions that decide (PUL-1)."""

from collections.abc import Callable
from itertools import product

import pytest

from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.cancel import cancel
from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.expire import expire, expired_code
from pulseweave.core.pulse.lease import claim, give_back, lose_unstarted, start
from pulseweave.core.pulse.move import move
from pulseweave.core.pulse.outcome import fail_final, fail_retryable, lose_outcome
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.report import Report, report
from pulseweave.core.pulse.review import declare_lost, verdict
from pulseweave.core.pulse.task import (
    SETTLED,
    TASK_TRANSITIONS,
    Outcome,
    Task,
    TaskEvent,
    TaskState,
)
from pulseweave.kernel.check import InvariantViolation
from pulseweave.kernel.errors import Rejected
from tests.core.pulse.tasks import (
    CHANCE,
    NOW,
    PHASES,
    TOKEN,
    assert_fixed,
    cancelled,
    closing,
    failed,
    lawful_tasks,
    succeeded,
    task,
    unknown,
)

pytestmark = pytest.mark.exhaustive

Decision = Callable[[Task], TaskChange | Answer | Rejected | None]
PAIRS = list(product(TaskState, TaskEvent))


def _report(task: Task, told: Report) -> Answer:
    return report(task, None, told, token=TOKEN, now=NOW, chance=CHANCE, late_id="late-1")


def _start(task: Task) -> Answer | None:
    if expired_code(task, NOW) is not None:
        return None  # that is EXPIRE
    return start(task, token=TOKEN, worker='"w"', now=NOW)


def _losing(decide: Decision) -> Decision:
    """A lost attempt of a task declared without effect is FAIL_RETRYABLE, of any other
    LOSE_OUTCOME.
    """
    return lambda task: None if task.effect is Effect.NONE else decide(task)


def _losing_nothing(decide: Decision) -> Decision:
    return lambda task: decide(task) if task.effect is Effect.NONE else None


def _lose(task: Task) -> TaskChange:
    return lose_outcome(task, closing(Outcome.UNKNOWN), CHANCE, now=NOW)


def _declare(task: Task) -> TaskChange | Rejected:
    return declare_lost(task, expected_revision=task.revision, now=NOW, chance=CHANCE)


def _verdict(*, succeeded: bool) -> Decision:
    return lambda task: verdict(task, succeeded=succeeded, now=NOW, audit_id="audit-1")


#: How each event comes about.
DECISIONS: dict[TaskEvent, list[Decision]] = {
    TaskEvent.CLAIM: [lambda task: claim(task, now=NOW, token="token-new")],
    TaskEvent.START: [_start],
    TaskEvent.GIVE_BACK: [
        lambda task: give_back(task, token=TOKEN),
        lambda task: lose_unstarted(task, now=NOW),
    ],
    TaskEvent.SUCCEED: [lambda task: _report(task, succeeded())],
    TaskEvent.FAIL_RETRYABLE: [
        lambda task: fail_retryable(task, closing(Outcome.FAILED), CHANCE, now=NOW),
        _losing_nothing(_lose),
        _losing_nothing(_declare),
        _losing_nothing(lambda task: _report(task, unknown())),
    ],
    TaskEvent.FAIL_FINAL: [
        lambda task: _report(task, failed(retryable=False)),
        lambda task: fail_final(task, closing(Outcome.FAILED), now=NOW),
    ],
    TaskEvent.LOSE_OUTCOME: [
        _losing(_lose),
        _losing(_declare),
        _losing(lambda task: _report(task, unknown())),
    ],
    TaskEvent.CONFIRM_CANCELLED: [lambda task: _report(task, cancelled())],
    TaskEvent.CANCEL: [lambda task: cancel(task, now=NOW)],
    TaskEvent.EXPIRE: [lambda task: expire(task, now=NOW)],
    TaskEvent.VERDICT_SUCCEEDED: [_verdict(succeeded=True)],
    TaskEvent.VERDICT_FAILED: [_verdict(succeeded=False)],
}


def moved(decide: Decision, task: Task) -> TaskChange | None:
    """The change of the task's facts that a decision makes; None: refused, or evidence alone."""
    try:
        answer = decide(task)
    except InvariantViolation:
        return None
    change = answer.change if isinstance(answer, Answer) else answer
    if change is None or isinstance(change, Rejected):
        return None
    if change.late is not None:
        assert change.after.phase == task.phase
        return None
    return change


def test_every_event_has_decisions() -> None:
    assert set(DECISIONS) == set(TaskEvent)


def test_every_state_has_lawful_tasks() -> None:
    assert all(any(True for _ in lawful_tasks(state)) for state in TaskState)


@pytest.mark.rule("PUL-1")
@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_a_pair_leads_where_the_table_says_and_nowhere_else(
    state: TaskState, event: TaskEvent
) -> None:
    reached = set()
    for before in lawful_tasks(state):
        for decide in DECISIONS[event]:
            change = moved(decide, before)
            if change is None:
                continue
            assert change.before is before
            assert change.after.revision == before.revision + 1
            assert change.after.check() is change.after
            assert_fixed(before, change.after)
            reached.add(change.after.state)
    assert reached == TASK_TRANSITIONS[state].get(event, set())


@pytest.mark.rule("PUL-1")
@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_no_decision_can_leave_the_table(state: TaskState, event: TaskEvent) -> None:
    targets = TASK_TRANSITIONS[state].get(event, frozenset())
    before = next(lawful_tasks(state))
    for phase in PHASES:
        if task(phase).state not in targets:
            with pytest.raises(InvariantViolation, match="in the table"):
                move(before, event, phase)


@pytest.mark.rule("PUL-1")
def test_what_has_settled_has_no_way_on() -> None:
    assert all(not TASK_TRANSITIONS[state] for state in SETTLED)
    assert all(TASK_TRANSITIONS[state] for state in set(TaskState) - SETTLED)


@pytest.mark.rule("PUL-1", "PUL-11")
@pytest.mark.parametrize("event", TaskEvent)
def test_a_settlement_and_a_review_are_told_once_and_nothing_else_is(event: TaskEvent) -> None:
    told = {*SETTLED, TaskState.NEEDS_REVIEW}
    for state in TaskState:
        for before in lawful_tasks(state):
            for decide in DECISIONS[event]:
                change = moved(decide, before)
                if change is None:
                    continue
                after = change.after
                if after.state not in told:
                    assert change.event is None
                    continue
                assert change.event is not None
                assert change.event.kind.value == after.state.value
                assert change.event.task_revision == after.revision
                assert (change.event.task_id, change.event.at) == (before.id, NOW)


@pytest.mark.rule("PUL-3")
@pytest.mark.parametrize("event", TaskEvent)
def test_an_unknown_attempt_is_settled_by_success_a_final_failure_or_a_verdict_alone(
    event: TaskEvent,
) -> None:
    may_settle = {
        TaskEvent.SUCCEED,
        TaskEvent.FAIL_FINAL,
        TaskEvent.VERDICT_SUCCEEDED,
        TaskEvent.VERDICT_FAILED,
    }
    for state in TaskState:
        for before in lawful_tasks(state):
            for decide in DECISIONS[event]:
                change = moved(decide, before)
                if change is not None and change.after.tainted and change.after.settled:
                    assert event in may_settle
                    assert change.after.state is not TaskState.CANCELLED
