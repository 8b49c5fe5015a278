"""Continue: the only way out of review, and how far it leads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.pulse.task import SettledBy, TaskState
from pulseweave.core.recovery import continue_instance
from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.instance import Stop
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.states import (
    InstanceState,
    LeafState,
    OutputSource,
    StopKind,
    WakeReason,
)
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
    expired,
    refused,
    situations,
)
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import (
    CANCEL,
    FAILED,
    IN_REVIEW,
    NOW,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    history,
    ids,
    instance,
    known,
    leaf,
    settled,
)

#: "State in review", column Continue: what comes of it, or why not.
TABLE: Table = (
    ({"ended": True}, "INSTANCE_ENDED"),
    ({"state": "RUNNING"}, "NOT_IN_REVIEW"),
    ({"state": "CANCELLING"}, "NOT_IN_REVIEW"),
    ({"quarantined": True}, "INBOX_QUARANTINED"),
    ({"pending": True}, "INBOX_PENDING"),
    ({"contradicted": True}, "CONTRADICTED"),
    ({"stop": "CANCEL"}, "CANCELLING, gate closed"),
    ({"stop": "FAIL"}, "CANCELLING, gate closed"),
    ({"expired": True}, "DEADLINE_PASSED"),
    ({"paused": True}, "RUNNING, gate closed"),
    ({}, "RUNNING, gate open"),
)
BOTH = {"parallel": "both", "branches": {"a": [task("a")], "b": [task("b")]}}


def resolved(**more: Any) -> Scene:
    """The step was verified as SUCCEEDED and is concluded."""
    return Scene(
        step=LeafState.SUCCEEDED, phase=VERIFIED_SUCCEEDED, leaf={"conclusion_id": "c"}, **more
    )


def ask(asked: Scene) -> InstancePlan | Rejected:
    return decide(asked.build(), asked)


def decide(facts: RecoveryFacts, asked: Scene | None = None) -> InstancePlan | Rejected:
    asked = asked or Scene()
    return continue_instance.decide(
        facts, asked.go_on(), now=asked.now, new_id=ids(), actor="someone"
    )


def plan_of(answer: InstancePlan | Rejected) -> InstancePlan:
    assert isinstance(answer, InstancePlan), answer
    return answer


@pytest.mark.exhaustive
@pytest.mark.rule("REC-4", "REC-13", "CON-2", "CON-3", "CON-4")
def test_in_every_situation_it_answers_as_the_table_says() -> None:
    for situation in situations():
        answer = ask(resolved().within(situation))
        expected = answer_of(TABLE, situation)
        if isinstance(answer, Rejected):
            assert answer.code == expected, situation
            continue
        after, before = answer.after, answer.before
        assert before is not None
        gate = "open" if after.gate_open else "closed"
        assert f"{after.state.value}, gate {gate}" == expected, situation
        assert answer.gate is (True if gate == "open" else None)
        untouched = ("paused", "stop", "deadline_at", "contradicted", "quarantined", "ended_at")
        assert all(getattr(after, name) == getattr(before, name) for name in untouched)
        assert after.review_at is None
        assert (after.revision, after.control_revision) == (
            before.revision + 1,
            before.control_revision + 1,
        )
        ordered = WakeReason.ADVANCE if gate == "open" or situation.stop else WakeReason.DEADLINE
        assert after.wake_reason is ordered


def contradicted(asked: Scene) -> None:
    asked.at["contradicted"] = True


def not_owned(asked: Scene) -> None:
    asked.task["namespace"] = "other"


def unknown(asked: Scene) -> None:
    asked.phase = IN_REVIEW


def not_consumed(asked: Scene) -> None:
    asked.rows["consumed_revision"] = 4


def unresolved(asked: Scene) -> None:
    asked.step, asked.leaf = LeafState.CANCELLED, {}


def never_told(asked: Scene) -> None:
    asked.leaf["task_state"] = TaskState.NEEDS_REVIEW


BREAKS: tuple[Break, ...] = (
    *COMMON,
    ("CONTRADICTED", contradicted),
    ("DEADLINE_PASSED", expired),
    ("NOT_OWNED", not_owned),
    ("EXECUTION_UNSETTLED", unknown),
    ("INBOX_PENDING", not_consumed),
    ("UNRESOLVED_STEPS", unresolved),
    ("INTEGRITY_MISMATCH", never_told),
)


@pytest.mark.rule("REC-4", "REC-11", "REC-12", "CON-1")
def test_the_first_violated_check_answers() -> None:
    check_order(BREAKS, resolved, ask)


# --- what is unresolved ---------------------------------------------------------------------------


@pytest.mark.rule("CON-1")
@pytest.mark.parametrize("stop", [None, CANCEL])
@pytest.mark.parametrize("policy", ["fail", "review", "ignore"])
@pytest.mark.parametrize(
    ("state", "facts", "unresolved_when"),
    [
        (LeafState.NEEDS_REVIEW, {}, "always"),
        (LeafState.CANCELLED, {}, "no stop"),
        (LeafState.FAILED, {}, "no stop, not ignored"),
        (LeafState.FAILED, {"conclusion_id": "c"}, "never"),
        (LeafState.FAILED, {"ignored": True}, "never"),
        (LeafState.SUCCEEDED, {}, "never"),
        (LeafState.SUCCEEDED, {"conclusion_id": "c"}, "never"),
    ],
)
def test_which_steps_hold_it_up(
    state: LeafState, facts: dict[str, Any], unresolved_when: str, *, policy: str, stop: Stop | None
) -> None:
    phase = SUCCEEDED if state is LeafState.SUCCEEDED else VERIFIED_FAILED
    asked = Scene(
        step=state, phase=phase, leaf=facts, at={"stop": stop}, definition={"on_failure": policy}
    )
    held_up = {
        "always": True,
        "no stop": stop is None,
        "no stop, not ignored": stop is None and policy != "ignore",
        "never": False,
    }[unresolved_when]
    answer = ask(asked)
    assert code_of(answer) == ("UNRESOLVED_STEPS" if held_up else None)
    if isinstance(answer, Rejected):
        assert (answer.rule, answer.detail["steps"]) == ("CON-1", ["charge"])


def in_parallel(
    definition: Definition, leaves: Iterable[tuple[Leaf, Any]], **at: Any
) -> RecoveryFacts:
    told = [(one, history(one, phase)) for one, phase in leaves]
    activations = [one for one, _ in told]
    return known(
        instance(InstanceState.NEEDS_REVIEW, **at),
        definition,
        activations,
        [known_history for _, known_history in told],
    )


@pytest.mark.rule("CON-1")
def test_every_unknown_execution_and_every_unresolved_step_is_named() -> None:
    a = leaf(LeafState.NEEDS_REVIEW, step_key="a")
    b = leaf(LeafState.NEEDS_REVIEW, step_key="b")
    both_unknown = in_parallel(compiled(BOTH), [(a, IN_REVIEW), (b, IN_REVIEW)])
    answer = refused(decide(both_unknown))
    assert (answer.code, answer.detail["task_ids"]) == (
        "EXECUTION_UNSETTLED",
        ["task-a-1", "task-b-1"],
    )
    known_now = in_parallel(compiled(BOTH), [(b, VERIFIED_FAILED), (a, VERIFIED_FAILED)])
    answer = refused(decide(known_now))
    assert (answer.code, answer.detail["steps"]) == ("UNRESOLVED_STEPS", ["a", "b"])


@pytest.mark.rule("CON-1")
@pytest.mark.parametrize("phase", [QUEUED, RUNNING])
def test_what_still_runs_for_a_step_that_waits_may_go_on_running(phase: Any) -> None:
    a = leaf(LeafState.SUCCEEDED, step_key="a", conclusion_id="c")
    b = leaf(LeafState.ACTIVE, step_key="b")
    facts = in_parallel(compiled(BOTH), [(a, VERIFIED_SUCCEEDED), (b, phase)])
    assert plan_of(decide(facts)).after.state is InstanceState.RUNNING


@pytest.mark.rule("CON-1")
@pytest.mark.parametrize("phase", [QUEUED, RUNNING])
@pytest.mark.parametrize("at", [{}, {"stop": CANCEL}])
def test_an_execution_that_no_step_waits_for_must_be_over(phase: Any, at: dict[str, Any]) -> None:
    a = leaf(LeafState.SUCCEEDED, step_key="a", conclusion_id="c")
    b = leaf(LeafState.SUCCEEDED, step_key="b", conclusion_id="d")
    facts = in_parallel(compiled(BOTH), [(a, VERIFIED_SUCCEEDED), (b, phase)], **at)
    answer = refused(decide(facts))
    assert (answer.code, answer.detail["task_id"]) == ("EXECUTION_UNSETTLED", "task-b-1")


@pytest.mark.rule("CON-1")
def test_a_settled_task_whose_event_never_came_holds_up_the_step_that_waits_for_it() -> None:
    a = leaf(LeafState.SUCCEEDED, step_key="a", conclusion_id="c")
    b = leaf(LeafState.ACTIVE, step_key="b")
    quiet = history(b, SUCCEEDED, rows={"consumed_revision": None})
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        compiled(BOTH),
        [a, b],
        [history(a, VERIFIED_SUCCEEDED), quiet],
    )
    answer = refused(decide(facts))
    assert (answer.code, answer.detail["task_id"]) == ("INBOX_PENDING", "task-b-1")


# --- the graph ------------------------------------------------------------------------------------


@pytest.mark.rule("CON-1")
@pytest.mark.parametrize(
    ("step", "phase"),
    [
        (leaf(LeafState.ACTIVE), SUCCEEDED),
        (leaf(LeafState.SUCCEEDED, task_state=TaskState.FAILED, task_revision=5), SUCCEEDED),
        (leaf(LeafState.SUCCEEDED, task_state=TaskState.SUCCEEDED, task_revision=4), SUCCEEDED),
    ],
)
def test_a_step_must_know_what_its_task_has_told(step: Leaf, phase: Any) -> None:
    definition = compiled(task("charge"), task("ship"))
    answer = refused(decide(in_parallel(definition, [(step, phase)])))
    assert (answer.code, answer.rule) == ("INTEGRITY_MISMATCH", "CON-1")
    assert "charge" in answer.message


@pytest.mark.rule("CON-1")
def test_a_step_that_waits_has_a_task() -> None:
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        compiled(task("charge")),
        [leaf(LeafState.ACTIVE, task_id=None)],
    )
    assert refused(decide(facts)).code == "INTEGRITY_MISMATCH"
    concluded = leaf(LeafState.SUCCEEDED, task_id=None, conclusion_id="c")
    facts = known(instance(InstanceState.NEEDS_REVIEW), compiled(task("charge")), [concluded])
    assert code_of(decide(facts)) is None


@pytest.mark.rule("CON-1")
def test_nothing_may_have_begun_behind_what_is_not_done() -> None:
    definition = compiled(BOTH, task("last"))
    a = leaf(LeafState.SUCCEEDED, step_key="a")
    b = leaf(LeafState.ACTIVE, step_key="b")
    last = leaf(LeafState.ACTIVE, step_key="last")
    early = in_parallel(definition, [(a, SUCCEEDED), (b, RUNNING), (last, QUEUED)])
    answer = refused(decide(early))
    assert (answer.code, "last" in answer.message) == ("INTEGRITY_MISMATCH", True)
    done = leaf(LeafState.SUCCEEDED, step_key="b")
    in_time = in_parallel(definition, [(a, SUCCEEDED), (done, SUCCEEDED), (last, QUEUED)])
    assert code_of(decide(in_time)) is None


@pytest.mark.rule("CON-1")
def test_a_task_of_no_activation_holds_it_up() -> None:
    step = leaf(LeafState.SUCCEEDED)
    orphan = history(leaf(LeafState.ACTIVE, step_key="ship"), QUEUED)
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        compiled(task("charge"), task("ship")),
        [step],
        [history(step, SUCCEEDED), orphan],
    )
    answer = refused(decide(facts))
    assert (answer.code, answer.detail["task_id"]) == ("NOT_OWNED", "task-ship-1")


# --- what it decides ------------------------------------------------------------------------------


def failed(step_key: str, *, at: int, **facts: Any) -> tuple[Leaf, Any]:
    error = canonical.encode({"code": f"BAD_{step_key.upper()}", "message": "no"})
    made = leaf(LeafState.FAILED, step_key=step_key, settled_at=at, error=error, **facts)
    return made, FAILED


@pytest.mark.rule("CON-2", "RES-4")
@pytest.mark.parametrize("policy", ["fail", "review"])
def test_a_concluded_failure_sets_the_stop_and_the_gate_never_opens(policy: str) -> None:
    definition = compiled(task("charge", on_failure=policy), task("ship"))
    facts = in_parallel(definition, [failed("charge", at=NOW - SECOND, conclusion_id="c")])
    plan = plan_of(decide(facts))
    assert (plan.after.state, plan.gate, plan.cancel_tasks) == (
        InstanceState.CANCELLING,
        None,
        True,
    )
    assert plan.after.stop == Stop(
        kind=StopKind.FAIL, error='{"code":"BAD_CHARGE","message":"no","step":"charge"}'
    )
    assert plan.after.wake_reason is WakeReason.ADVANCE


@pytest.mark.rule("CON-2", "WEA-8")
@pytest.mark.parametrize("concluded", [{}, {"conclusion_id": "c"}])
def test_a_failure_to_ignore_becomes_the_output(concluded: dict[str, Any]) -> None:
    definition = compiled(task("charge", on_failure="ignore"), task("ship"))
    facts = in_parallel(definition, [failed("charge", at=NOW - SECOND, **concluded)])
    plan = plan_of(decide(facts))
    assert (plan.after.state, plan.gate) == (InstanceState.RUNNING, True)
    (change,) = plan.leaves
    assert change.after.ignored
    assert change.after.output is not None
    assert change.after.output.source is OutputSource.ERROR


@pytest.mark.rule("CON-2", "WEA-16")
@pytest.mark.parametrize("first", ["a", "b"])
def test_failures_are_decided_in_the_order_in_which_they_settled(first: str) -> None:
    branches = {
        "a": [task("a", on_failure="fail")],
        "b": [task("b", on_failure="review")],
        "c": [task("c", on_failure="ignore")],
    }
    definition = compiled({"parallel": "all", "branches": branches})
    times = {"a": NOW - 5, "b": NOW - 5, first: NOW - 9}
    facts = in_parallel(
        definition,
        [
            failed("a", at=times["a"], conclusion_id="c1"),
            failed("b", at=times["b"], conclusion_id="c2"),
            failed("c", at=NOW - 1),
        ],
    )
    plan = plan_of(decide(facts))
    assert plan.after.stop is not None
    assert canonical.parse(plan.after.stop.error)["step"] == first
    assert plan.leaves == (), "nothing is decided any more behind the first that stops"


@pytest.mark.rule("CON-2")
def test_failures_of_one_instant_are_decided_by_name() -> None:
    definition = compiled(BOTH)
    facts = in_parallel(
        definition,
        [failed("b", at=NOW, conclusion_id="c1"), failed("a", at=NOW, conclusion_id="c2")],
    )
    stop = plan_of(decide(facts)).after.stop
    assert stop is not None
    assert canonical.parse(stop.error)["step"] == "a"


@pytest.mark.rule("CON-3")
def test_a_stop_goes_on_to_its_first_target_whatever_was_verified() -> None:
    for asked in (
        resolved(at={"stop": CANCEL}),
        Scene(step=LeafState.FAILED, leaf={"conclusion_id": "c"}, at={"stop": CANCEL}),
        Scene(step=LeafState.CANCELLED, at={"stop": CANCEL}),
    ):
        plan = plan_of(ask(asked))
        assert (plan.after.state, plan.after.stop) == (InstanceState.CANCELLING, CANCEL)
        assert (plan.gate, plan.cancel_tasks, plan.leaves) == (None, False, ())


@pytest.mark.rule("CON-4", "PUL-15")
def test_no_clock_that_steps_back_leads_past_the_deadline() -> None:
    asked = resolved(at={"journal_at": NOW + 3 * SECOND, "deadline_at": NOW + 2 * SECOND}, now=NOW)
    assert refused(ask(asked)).code == "DEADLINE_PASSED"


@pytest.mark.rule("CON-1")
def test_a_verdict_alone_resolves_no_step() -> None:
    for phase in (VERIFIED_SUCCEEDED, settled(TaskState.FAILED, SettledBy.VERDICT)):
        assert refused(ask(Scene(phase=phase))).code == "UNRESOLVED_STEPS"


def _unread(told: TaskHistory) -> TaskHistory:
    return replace(told, consumed_revision=None)


@pytest.mark.rule("CON-1", "REC-9")
def test_a_historical_execution_must_be_settled_and_read_too() -> None:
    first = leaf(LeafState.FAILED, current=False)
    second = leaf(LeafState.SUCCEEDED, sequence=2)
    told = history(second, SUCCEEDED, max_attempts=2)
    definition = compiled(task("charge", max_attempts=3), task("ship"))
    at = instance(InstanceState.NEEDS_REVIEW)
    for earlier, code in (
        (history(first, FAILED), None),
        (history(first, RUNNING), "EXECUTION_UNSETTLED"),
        (_unread(history(first, FAILED)), "INBOX_PENDING"),
    ):
        assert code_of(decide(known(at, definition, [first, second], [earlier, told]))) == code
