"""ResolveStep: a person's conclusion on a step whose executions are all known."""

from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.pulse.task import SettledBy, TaskState
from pulseweave.core.recovery import resolve_step
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.states import LeafState, OutputSource
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected
from tests.core.recovery.scenes import (
    COMMON,
    VERIFIED_FAILED,
    VERIFIED_SUCCEEDED,
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
    charge,
    history,
    ids,
    instance,
    known,
    leaf,
    settled,
)

#: "State in review", column ResolveStep: a stop and a passed deadline do not matter.
TABLE: Table = (
    ({"ended": True}, "INSTANCE_ENDED"),
    ({"state": "RUNNING"}, "NOT_IN_REVIEW"),
    ({"state": "CANCELLING"}, "NOT_IN_REVIEW"),
    ({"quarantined": True}, "INBOX_QUARANTINED"),
    ({"pending": True}, "INBOX_PENDING"),
    ({}, None),
)
CONTRACT = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
ERROR = '{"code":"NO_MONEY","message":"the card was refused"}'


def ask(asked: Scene) -> InstancePlan | Rejected:
    return resolve_step.decide(
        asked.build(),
        asked.resolve_step(),
        now=asked.now,
        new_id=ids("conclusion"),
        actor="someone",
        operation_id="operation-1",
    )


def accepted(asked: Scene) -> InstancePlan:
    answer = ask(asked)
    assert isinstance(answer, InstancePlan), answer
    return answer


@pytest.mark.exhaustive
@pytest.mark.rule("REC-4", "RES-1")
def test_in_every_situation_it_answers_as_the_table_says() -> None:
    for situation in situations():
        answer = ask(Scene().within(situation))
        assert code_of(answer) == answer_of(TABLE, situation), situation
        if isinstance(answer, InstancePlan):
            after, before = answer.after, answer.before
            assert before is not None
            unmoved = replace(
                after,
                revision=before.revision,
                control_revision=before.control_revision,
                journal_at=before.journal_at,
            )
            assert unmoved == before, "neither review nor stop is cleared"


def of_nobody(asked: Scene) -> None:
    asked.command["activation_id"] = "charge-7"


def old_step_revision(asked: Scene) -> None:
    asked.command["expected_step_revision"] = 2


def under_way(asked: Scene) -> None:
    asked.step = LeafState.ACTIVE


def not_owned(asked: Scene) -> None:
    asked.task["queue"] = "elsewhere"


def still_running(asked: Scene) -> None:
    asked.phase = RUNNING


def not_consumed(asked: Scene) -> None:
    asked.rows["consumed_revision"] = 4


def no_result(asked: Scene) -> None:
    asked.command["result"] = None


BREAKS: tuple[Break, ...] = (
    *COMMON,
    ("NOT_OWNED", of_nobody),
    ("STEP_REVISION_CONFLICT", old_step_revision),
    ("STEP_NOT_RESOLVABLE", under_way),
    ("NOT_OWNED", not_owned),
    ("EXECUTION_UNSETTLED", still_running),
    ("INBOX_PENDING", not_consumed),
    ("INVALID_COMMAND", no_result),
)


@pytest.mark.rule("REC-4", "REC-11", "REC-12")
def test_the_first_violated_check_answers() -> None:
    check_order(BREAKS, Scene, ask)


@pytest.mark.rule("RES-1")
@pytest.mark.parametrize(
    ("state", "facts", "code"),
    [
        (LeafState.NEEDS_REVIEW, {}, None),
        (LeafState.FAILED, {}, None),
        (LeafState.FAILED, {"conclusion_id": "c"}, None),
        (LeafState.CANCELLED, {}, None),
        (LeafState.FAILED, {"ignored": True}, "STEP_NOT_RESOLVABLE"),
        (LeafState.ACTIVE, {}, "STEP_NOT_RESOLVABLE"),
        (LeafState.SUCCEEDED, {}, "STEP_NOT_RESOLVABLE"),
    ],
)
def test_it_is_for_steps_that_wait_or_did_not_succeed(
    state: LeafState, facts: dict[str, Any], code: str | None
) -> None:
    assert code_of(ask(Scene(step=state, leaf=facts))) == code


@pytest.mark.rule("RES-1", "WEA-20")
def test_a_step_that_never_had_a_task_may_be_resolved() -> None:
    plan = accepted(Scene(step=LeafState.FAILED, leaf={"task_id": None}))
    assert plan.leaves[0].after.state is LeafState.SUCCEEDED


@pytest.mark.rule("RES-1")
def test_an_earlier_activation_is_not_concluded() -> None:
    first = leaf(LeafState.FAILED, current=False)
    second = leaf(LeafState.NEEDS_REVIEW, sequence=2)
    facts = known(
        instance(Scene().state),
        charge(),
        [first, second],
        [history(first, VERIFIED_FAILED), history(second, VERIFIED_FAILED)],
    )
    answer = refused(resolve_step.applies(facts, Scene().resolve_step()))
    assert (answer.code, answer.detail["current_activation_id"]) == (
        "ACTIVATION_NOT_CURRENT",
        "charge-2",
    )
    other_step = Scene(command={"step_key": "ship"}).resolve_step()
    assert refused(resolve_step.applies(facts, other_step)).code == "NOT_OWNED"


@pytest.mark.rule("RES-1", "REC-9")
@pytest.mark.parametrize("phase", [QUEUED, RUNNING, IN_REVIEW])
@pytest.mark.parametrize("sequence", [1, 2])
def test_every_historical_task_must_be_settled(phase: Any, sequence: int) -> None:
    first = leaf(LeafState.FAILED, current=False)
    second = leaf(LeafState.NEEDS_REVIEW, sequence=2)
    phases = {1: VERIFIED_FAILED, 2: VERIFIED_FAILED, sequence: phase}
    facts = known(
        instance(Scene().state),
        charge(),
        [first, second],
        [history(first, phases[1]), history(second, phases[2])],
    )
    command = Scene(command={"activation_id": "charge-2"}).resolve_step()
    answer = refused(resolve_step.applies(facts, command))
    assert (answer.code, answer.detail["task_id"]) == (
        "EXECUTION_UNSETTLED",
        f"task-charge-{sequence}",
    )


@pytest.mark.rule("RES-1")
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ({"live_attempts": 1}, "EXECUTION_UNSETTLED"),
        ({"consumed_revision": None}, "INBOX_PENDING"),
        ({"consumed_revision": 4}, "INBOX_PENDING"),
        ({"consumed_revision": 5}, None),
    ],
)
def test_a_settled_task_must_be_over_and_told(rows: dict[str, Any], code: str | None) -> None:
    assert code_of(ask(Scene(rows=rows))) == code


@pytest.mark.rule("RES-2")
@pytest.mark.parametrize(
    ("result", "pointer"),
    [('{"id":"x"}', "/result/id"), ("null", "/result"), ("{}", "/result")],
)
def test_an_output_meets_the_steps_contract(result: str, pointer: str) -> None:
    answer = refused(ask(Scene(definition={"output": CONTRACT}, command={"result": result})))
    assert (answer.code, answer.rule) == ("CONTRACT_VIOLATION", "RES-2")
    assert answer.detail["problems"][0]["pointer"] == pointer
    accepted(Scene(definition={"output": CONTRACT}, command={"result": '{"id":7}'}))
    accepted(Scene(command={"result": result}))


@pytest.mark.rule("RES-2")
@pytest.mark.parametrize(
    "result",
    [
        "null",
        '"gone"',
        '{"code":"X"}',
        '{"message":"m"}',
        '{"code":"","message":"m"}',
        '{"code":1,"message":"m"}',
        '{"code":"X","message":1}',
        '{"code":"X","message":"m","why":1}',
    ],
)
def test_an_error_has_a_code_and_a_message(result: str) -> None:
    answer = refused(ask(Scene(command={"succeeded": False, "result": result})))
    assert (answer.code, answer.rule, answer.detail["pointer"]) == (
        "INVALID_COMMAND",
        "RES-2",
        "/result",
    )


@pytest.mark.rule("RES-2", "RES-3")
@pytest.mark.parametrize("error", [ERROR, '{"code":"X","details":[1],"message":"m"}'])
def test_a_failed_conclusion_becomes_the_steps_error(error: str) -> None:
    plan = accepted(Scene(command={"succeeded": False, "result": error}))
    (change,) = plan.leaves
    assert (change.after.state, change.after.error) == (LeafState.FAILED, error)
    assert change.after.conclusion_id == plan.conclusions[0].id == "conclusion-1"
    assert (change.after.review_cause, change.after.review_at) == (None, None)
    assert change.after.output is None


@pytest.mark.rule("RES-3", "REC-10")
def test_a_conclusion_is_a_new_row_beside_what_was_reported() -> None:
    plan = accepted(Scene())
    (conclusion,) = plan.conclusions
    (change,) = plan.leaves
    assert (conclusion.verdict, conclusion.result) == ("SUCCEEDED", '{"ok":true}')
    assert (conclusion.activation_id, conclusion.operation_id) == ("charge-1", "operation-1")
    assert (conclusion.actor, conclusion.at) == ("someone", NOW)
    assert change.before is not None
    assert change.after.output is not None
    assert change.after.output.source is OutputSource.CONCLUSION
    assert change.after.output.digest == canonical.digest('{"ok":true}')
    assert change.after.revision == change.before.revision + 1
    reported = ("task_id", "task_state", "task_revision", "sequence", "entered_at", "retry_of")
    assert all(getattr(change.after, n) == getattr(change.before, n) for n in reported)
    assert (plan.tasks, plan.gate, plan.cancel_tasks) == ((), None, False)
    assert (plan.after.revision, plan.after.control_revision) == (10, 5)


@pytest.mark.rule("RES-3")
def test_a_failed_conclusion_may_be_replaced_by_success_or_another_failure() -> None:
    concluded = {"conclusion_id": "earlier", "error": ERROR}
    succeeded = accepted(Scene(step=LeafState.FAILED, leaf=concluded))
    assert succeeded.leaves[0].after.state is LeafState.SUCCEEDED
    assert succeeded.leaves[0].after.error is None
    again = Scene(
        step=LeafState.FAILED, leaf=concluded, command={"succeeded": False, "result": ERROR}
    )
    assert accepted(again).leaves[0].after.conclusion_id == "conclusion-1"
    final = Scene(step=LeafState.SUCCEEDED, leaf={"conclusion_id": "earlier"})
    assert refused(ask(final)).code == "STEP_NOT_RESOLVABLE"


@pytest.mark.rule("RES-1")
@pytest.mark.parametrize(
    "phase",
    [
        VERIFIED_SUCCEEDED,
        CANCELLED,
        settled(TaskState.SUCCEEDED, SettledBy.ATTEMPT),
        settled(TaskState.FAILED, SettledBy.ENGINE),
    ],
)
def test_whatever_the_execution_did_a_person_may_conclude(phase: Any) -> None:
    for succeeded, result in ((True, "1"), (False, ERROR)):
        accepted(Scene(phase=phase, command={"succeeded": succeeded, "result": result}))


@pytest.mark.rule("PUL-15")
def test_a_conclusion_is_never_before_the_journals_last_time() -> None:
    plan = accepted(Scene(at={"journal_at": NOW + SECOND}))
    assert plan.conclusions[0].at == plan.leaves[0].after.settled_at == NOW + SECOND
