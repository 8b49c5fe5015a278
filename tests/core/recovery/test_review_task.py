"""ReviewTask: a verdict on one execution, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.pulse.change import LateReport
from pulseweave.core.pulse.task import EventKind, Outcome, Settled, SettledBy, TaskState
from pulseweave.core.recovery import review_task
from pulseweave.core.recovery.review_task import TaskReviewed
from pulseweave.core.weave.states import LeafState
from pulseweave.kernel.errors import Rejected
from tests.core.recovery.scenes import (
    COMMON,
    VERIFIED_FAILED,
    Break,
    Scene,
    Table,
    answer_of,
    check_order,
    code_of,
    refused,
    situations,
)
from tests.core.weave.facts import (
    CANCELLED,
    IN_REVIEW,
    NOW,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    charge,
    history,
    ids,
    instance,
    known,
    leaf,
)

#: "State in review", column ReviewTask; first row that holds.
TABLE: Table = (
    ({"ended": True}, "INSTANCE_ENDED"),
    ({"state": "RUNNING"}, "NOT_IN_REVIEW"),
    ({"state": "CANCELLING"}, "NOT_IN_REVIEW"),
    ({"quarantined": True}, "INBOX_QUARANTINED"),
    ({"pending": True}, "INBOX_PENDING"),
    ({}, None),
)
LATE = LateReport(
    id="late-1",
    namespace="acme",
    task_id="task-charge-1",
    attempt=1,
    report_digest="digest",
    outcome=Outcome.SUCCEEDED,
    code=None,
    error=None,
    result='{"late":1}',
    result_digest=None,
    received_at=NOW,
)


def scene(**more: Any) -> Scene:
    return Scene(phase=IN_REVIEW, **more)


def ask(asked: Scene) -> TaskReviewed | Rejected:
    return review_task.decide(
        asked.build(),
        asked.review_task(),
        now=asked.now,
        new_id=ids(),
        actor="someone",
        execution_audit_id="audit-1",
    )


def accepted(asked: Scene) -> TaskReviewed:
    answer = ask(asked)
    assert isinstance(answer, TaskReviewed), answer
    return answer


@pytest.mark.exhaustive
@pytest.mark.rule("REC-4", "REC-13")
def test_in_every_situation_it_answers_as_the_table_says() -> None:
    for situation in situations():
        answer = ask(scene().within(situation))
        assert code_of(answer) == answer_of(TABLE, situation), situation
        if isinstance(answer, TaskReviewed):
            after, before = answer.plan.after, answer.plan.before
            assert before is not None
            unmoved = replace(
                after,
                revision=before.revision,
                control_revision=before.control_revision,
                journal_at=before.journal_at,
            )
            assert unmoved == before, "neither state nor stop, pause, deadline or flag moves"


def not_owned(asked: Scene) -> None:
    asked.task["namespace"] = "other"


def old_task_revision(asked: Scene) -> None:
    asked.command["expected_task_revision"] = 4


def settled_already(asked: Scene) -> None:
    asked.phase = VERIFIED_FAILED


def no_result(asked: Scene) -> None:
    asked.command["result"] = None


BREAKS: tuple[Break, ...] = (
    *COMMON,
    ("NOT_OWNED", not_owned),
    ("TASK_REVISION_CONFLICT", old_task_revision),
    ("TASK_NOT_IN_REVIEW", settled_already),
    ("INVALID_COMMAND", no_result),
)


@pytest.mark.rule("REC-4", "REC-11", "REC-12")
def test_the_first_violated_check_answers() -> None:
    check_order(BREAKS, scene, ask)


@pytest.mark.rule("REV-1")
@pytest.mark.parametrize("succeeded", [True, False])
def test_the_verdict_settles_the_task_for_ever_and_its_event_is_last(*, succeeded: bool) -> None:
    asked = scene(command={"succeeded": succeeded}, task={"key": "k" * 8, "max_attempts": 3})
    answer = accepted(asked)
    state = TaskState.SUCCEEDED if succeeded else TaskState.FAILED
    code = None if succeeded else "VERIFIED_FAILED"
    change = answer.change
    assert change.after.phase == Settled(state=state, by=SettledBy.VERDICT, code=code, at=NOW)
    assert change.before.holds_key
    assert not change.after.holds_key
    assert change.unknown_settled_by == "audit-1"
    assert change.event is not None
    assert change.event.kind is EventKind(state.value)
    assert change.event.task_revision == change.after.revision == change.before.revision + 1
    assert answer.result == '{"ok":true}'


@pytest.mark.rule("REV-2", "REC-5", "WEA-4")
def test_it_changes_neither_the_step_nor_the_review() -> None:
    plan = accepted(scene()).plan
    assert (plan.leaves, plan.tasks, plan.conclusions, plan.gate) == ((), (), (), None)
    assert (plan.after.revision, plan.after.control_revision) == (10, 5)
    assert plan.journal is not None
    assert (plan.journal.cause, plan.journal.revision) == ("REVIEW_TASK", 10)


@pytest.mark.rule("REV-1")
def test_a_task_of_an_earlier_activation_may_be_reviewed() -> None:
    first = leaf(LeafState.FAILED, current=False, sequence=1)
    second = leaf(LeafState.NEEDS_REVIEW, sequence=2)
    facts = known(
        instance(scene().state),
        charge(),
        [first, second],
        [history(first, IN_REVIEW), history(second, QUEUED)],
    )
    answer = review_task.applies(facts, scene().review_task())
    assert code_of(answer) is None


@pytest.mark.rule("REV-1", "REC-9")
def test_a_task_of_nobody_here_is_not_reviewed() -> None:
    answer = refused(ask(scene(command={"task_id": "task-ship-1"})))
    assert (answer.code, answer.rule) == ("NOT_OWNED", "REC-9")
    orphan = leaf(LeafState.ACTIVE, step_key="ship")
    told = history(orphan, IN_REVIEW)
    facts = known(instance(scene().state), charge(), [leaf(LeafState.NEEDS_REVIEW)], [told])
    command = scene(command={"task_id": told.task.id}).review_task()
    assert refused(review_task.applies(facts, command)).code == "NOT_OWNED"


@pytest.mark.rule("REV-1")
@pytest.mark.parametrize("phase", [QUEUED, RUNNING, SUCCEEDED, CANCELLED, VERIFIED_FAILED])
def test_only_an_unknown_execution_gets_a_verdict(phase: Any) -> None:
    answer = refused(ask(Scene(phase=phase)))
    assert (answer.code, answer.rule) == ("TASK_NOT_IN_REVIEW", "REV-1")


@pytest.mark.rule("PUL-6")
def test_a_verdict_decided_without_a_late_report_conflicts() -> None:
    answer = refused(ask(scene(task={"revision": 6})))
    assert answer.code == "TASK_REVISION_CONFLICT"
    assert answer.detail["current_task_revision"] == "6"


@pytest.mark.rule("REV-1")
def test_the_result_of_a_cited_late_report_is_the_result() -> None:
    cited: dict[str, Any] = {"result": None, "late_report_id": "late-1"}
    assert accepted(scene(command=cited, late_reports=(LATE,))).result == '{"late":1}'
    failed = replace(LATE, outcome=Outcome.FAILED, result=None, error='{"message":"no"}')
    assert accepted(scene(command=cited, late_reports=(failed,))).result == '{"message":"no"}'


@pytest.mark.rule("REV-1")
@pytest.mark.parametrize(
    ("command", "late", "pointer"),
    [
        ({"result": None}, LATE, "/result"),
        ({"result": "null"}, LATE, "/result"),
        ({"result": None, "late_report_id": "late-2"}, LATE, "/late_report_id"),
        (
            {"result": None, "late_report_id": "late-1"},
            replace(LATE, task_id="task-ship-1"),
            "/late_report_id",
        ),
        ({"result": "1", "late_report_id": "late-1"}, LATE, "/late_report_id"),
        (
            {"result": None, "late_report_id": "late-1"},
            replace(LATE, result=None),
            "/late_report_id",
        ),
        (
            {"result": None, "late_report_id": "late-1"},
            replace(LATE, result="null"),
            "/late_report_id",
        ),
    ],
)
def test_there_must_be_one_result_and_never_null(
    command: dict[str, Any], late: LateReport, pointer: str
) -> None:
    answer = refused(ask(scene(command=command, late_reports=(late,))))
    assert (answer.code, answer.rule, answer.detail["pointer"]) == (
        "INVALID_COMMAND",
        "REV-1",
        pointer,
    )


@pytest.mark.rule("PUL-15")
def test_the_verdict_is_never_before_the_journals_last_time() -> None:
    asked = scene(at={"journal_at": NOW + 5 * SECOND})
    answer = accepted(asked)
    assert isinstance(answer.change.after.phase, Settled)
    assert answer.change.after.phase.at == answer.plan.after.journal_at == NOW + 5 * SECOND
