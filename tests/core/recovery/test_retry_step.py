"""RetryStep: once more, within the first activation's budget, deadline, input and keys."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import Holds, Queued
from pulseweave.core.recovery import retry_step
from pulseweave.core.recovery.facts import Missing, RecoveryFacts, TaskHistory
from pulseweave.core.recovery.retry_step import Retryable, StepRetried
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.order import key_hash
from pulseweave.core.weave.states import InstanceState, LeafState
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
    stopped,
)
from tests.core.weave.facts import (
    BACKOFF,
    CANCELLED,
    FAILED,
    IN_REVIEW,
    NAMESPACE,
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

#: "State in review", column RetryStep: a stop before the deadline.
TABLE: Table = (
    ({"ended": True}, "INSTANCE_ENDED"),
    ({"state": "RUNNING"}, "NOT_IN_REVIEW"),
    ({"state": "CANCELLING"}, "NOT_IN_REVIEW"),
    ({"quarantined": True}, "INBOX_QUARANTINED"),
    ({"pending": True}, "INBOX_PENDING"),
    ({"stop": "CANCEL"}, "STOP_REQUESTED"),
    ({"stop": "FAIL"}, "STOP_REQUESTED"),
    ({"expired": True}, "DEADLINE_PASSED"),
    ({}, None),
)


FIXED = (
    "namespace",
    "application",
    "queue",
    "partition_id",
    "instance_id",
    "effect",
    "priority",
    "lease_ms",
    "attempt_timeout_ms",
    "deadline_at",
    "start_by",
    "key",
)


def ask(asked: Scene) -> StepRetried | Rejected:
    answer = retry_step.decide(
        asked.build(), asked.retry_step(), now=asked.now, new_id=ids(), actor="someone"
    )
    assert not isinstance(answer, Missing)
    return answer


def accepted(asked: Scene) -> StepRetried:
    answer = ask(asked)
    assert isinstance(answer, StepRetried), answer
    return answer


@pytest.mark.exhaustive
@pytest.mark.rule("REC-4", "RET-1")
def test_in_every_situation_it_answers_as_the_table_says() -> None:
    for situation in situations():
        answer = ask(Scene().within(situation))
        assert code_of(answer) == answer_of(TABLE, situation), situation
        if isinstance(answer, StepRetried):
            after, before = answer.plan.after, answer.plan.before
            assert before is not None
            unmoved = replace(
                after,
                revision=before.revision,
                control_revision=before.control_revision,
                journal_at=before.journal_at,
            )
            assert unmoved == before


def of_nobody(asked: Scene) -> None:
    asked.command["activation_id"] = "charge-7"


def old_step_revision(asked: Scene) -> None:
    asked.command["expected_step_revision"] = 2


def succeeded_step(asked: Scene) -> None:
    asked.step = LeafState.SUCCEEDED


def not_owned(asked: Scene) -> None:
    asked.task["instance_id"] = "instance-2"


def still_running(asked: Scene) -> None:
    asked.phase = RUNNING


def not_consumed(asked: Scene) -> None:
    asked.rows["consumed_revision"] = None


def known_success(asked: Scene) -> None:
    asked.phase = SUCCEEDED


def start_passed(asked: Scene) -> None:
    asked.task["start_by"] = NOW


def rows_missing(asked: Scene) -> None:
    asked.task["lease_ms"] = 999


def used_up(asked: Scene) -> None:
    asked.rows["attempt_rows"] = asked.task["attempt_count"] = 3


def full(asked: Scene) -> None:
    asked.known["room"] = {("queue", NAMESPACE, "work"): 0}


BREAKS: tuple[Break, ...] = (
    *COMMON,
    ("STOP_REQUESTED", stopped),
    ("DEADLINE_PASSED", expired),
    ("NOT_OWNED", of_nobody),
    ("STEP_REVISION_CONFLICT", old_step_revision),
    ("STEP_NOT_RETRYABLE", succeeded_step),
    ("NOT_OWNED", not_owned),
    ("EXECUTION_UNSETTLED", still_running),
    ("INBOX_PENDING", not_consumed),
    ("STEP_NOT_RETRYABLE", known_success),
    ("DEADLINE_PASSED", start_passed),
    ("INTEGRITY_MISMATCH", rows_missing),
    ("BUDGET_EXHAUSTED", used_up),
    ("QUOTA_EXCEEDED", full),
)


@pytest.mark.rule("REC-4", "REC-11", "REC-12", "RET-1")
def test_the_first_violated_check_answers() -> None:
    check_order(BREAKS, Scene, ask)


@pytest.mark.rule("RET-1", "RES-3")
@pytest.mark.parametrize(
    ("state", "facts", "code"),
    [
        (LeafState.NEEDS_REVIEW, {}, None),
        (LeafState.FAILED, {}, None),
        (LeafState.FAILED, {"conclusion_id": "c"}, None),
        (LeafState.CANCELLED, {}, None),
        (LeafState.FAILED, {"ignored": True}, "STEP_NOT_RETRYABLE"),
        (LeafState.FAILED, {"task_id": None}, "STEP_NOT_RETRYABLE"),
        (LeafState.ACTIVE, {}, "STEP_NOT_RETRYABLE"),
        (LeafState.SUCCEEDED, {"conclusion_id": "c"}, "STEP_NOT_RETRYABLE"),
    ],
)
def test_it_is_for_steps_that_did_not_succeed(
    state: LeafState, facts: dict[str, Any], code: str | None
) -> None:
    answer = ask(Scene(step=state, leaf=facts))
    assert code_of(answer) == code
    if isinstance(answer, Rejected):
        assert answer.rule == ("WEA-20" if facts.get("task_id", "") is None else "RET-1")


@pytest.mark.rule("RET-1")
@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (FAILED, None),
        (CANCELLED, None),
        (VERIFIED_FAILED, None),
        (SUCCEEDED, "STEP_NOT_RETRYABLE"),
        (VERIFIED_SUCCEEDED, "STEP_NOT_RETRYABLE"),
        (QUEUED, "EXECUTION_UNSETTLED"),
        (RUNNING, "EXECUTION_UNSETTLED"),
        (IN_REVIEW, "EXECUTION_UNSETTLED"),
    ],
)
@pytest.mark.parametrize("earlier", [True, False])
def test_every_execution_must_be_known_not_to_have_succeeded(
    phase: Any, code: str | None, *, earlier: bool
) -> None:
    phases = [phase, VERIFIED_FAILED] if earlier else [VERIFIED_FAILED, phase]
    assert code_of(of(chain(*phases))) == code


@pytest.mark.rule("RET-6", "RET-1")
@pytest.mark.parametrize("name", ["deadline_at", "start_by"])
@pytest.mark.parametrize(("instant", "code"), [(NOW, "DEADLINE_PASSED"), (NOW + 1, None)])
def test_the_first_tasks_instants_bound_every_retry(
    name: str, instant: int, code: str | None
) -> None:
    assert code_of(ask(Scene(task={name: instant}))) == code


@pytest.mark.rule("PUL-15")
@pytest.mark.parametrize("where", ["instance", "task"])
def test_a_clock_that_steps_back_opens_no_deadline_again(where: str) -> None:
    passed = {"deadline_at": NOW + 2 * SECOND}
    scene = Scene(at={"journal_at": NOW + 3 * SECOND}, now=NOW)
    if where == "instance":
        scene.at |= passed
    else:
        scene.task |= passed
    assert refused(ask(scene)).code == "DEADLINE_PASSED"


# --- the new activation ---------------------------------------------------------------------------


@pytest.mark.rule("RET-3", "RET-4", "RET-6", "RET-8", "REC-5", "REC-10")
def test_the_new_task_is_the_first_one_again_with_what_is_left() -> None:
    key = key_hash(NAMESPACE, "account-1")
    asked = Scene(
        task={
            "deadline_at": NOW + 9 * SECOND,
            "start_by": NOW + 5 * SECOND,
            "key": key,
            "attempt_count": 2,
        },
        spec={"concurrency_key": "account-1", "business_key": "order-1"},
    )
    answer = accepted(asked)
    facts = asked.build()
    first = facts.histories["task-charge-1"]
    task, spec = answer.created.task, answer.created.spec
    assert answer.attempts_left == 1
    assert task.max_attempts == 1
    assert all(getattr(task, name) == getattr(first.task, name) for name in FIXED)
    assert isinstance(task.phase, Queued)
    assert (task.attempt_count, task.revision, task.holds) == (0, 1, Holds.GATE)
    same = replace(first.spec, task_id=task.id, retry_of="task-charge-1", created_at=NOW)
    assert spec == same
    old, new = answer.plan.leaves
    assert old.before is not None
    assert old.after == replace(old.before, current=False, review_at=None)
    assert new.before is None
    assert (new.after.sequence, new.after.retry_of, new.after.state, new.after.current) == (
        2,
        "charge-1",
        LeafState.ACTIVE,
        True,
    )
    assert (new.after.task_id, task.activation_id) == (task.id, new.after.id)
    assert (answer.plan.after.state, answer.plan.gate) == (InstanceState.NEEDS_REVIEW, None)
    assert (answer.plan.after.revision, answer.plan.after.control_revision) == (10, 5)


# --- histories ------------------------------------------------------------------------------------

Chain = list[tuple[Leaf, TaskHistory]]


def chain(*phases: Any, attempts: int = 1, budget: int = 9) -> Chain:
    """Activations one after the other, each the retry of the one before, with what was left."""
    made: Chain = []
    for sequence, phase in enumerate(phases, start=1):
        last = sequence == len(phases)
        activation = leaf(
            LeafState.NEEDS_REVIEW if last else LeafState.FAILED,
            sequence=sequence,
            current=last,
        )
        left = budget - sum(told.attempt_rows for _, told in made)
        made.append((activation, history(activation, phase, attempts=attempts, max_attempts=left)))
    return made


def facts_of(made: Chain, *, budget: int = 9, **more: Any) -> RecoveryFacts:
    return known(
        instance(InstanceState.NEEDS_REVIEW),
        charge(max_attempts=budget),
        [activation for activation, _ in made],
        [told for _, told in made],
        **more,
    )


def of(made: Chain, *, budget: int = 9, **more: Any) -> Retryable | Rejected:
    current = next(activation for activation, _ in made if activation.current)
    command = Scene(command={"activation_id": current.id}).retry_step()
    return retry_step.applies(facts_of(made, budget=budget, **more), command, now=NOW)


def test_an_unbroken_history_is_built_upon() -> None:
    answer = of(chain(FAILED, CANCELLED, VERIFIED_FAILED))
    assert isinstance(answer, Retryable), answer
    assert answer.attempts_left == 6


def _task(**fields: Any) -> Callable[[Chain, int], None]:
    def change(made: Chain, at: int) -> None:
        activation, told = made[at]
        made[at] = (activation, replace(told, task=replace(told.task, **fields)))

    return change


def _spec(**fields: Any) -> Callable[[Chain, int], None]:
    def change(made: Chain, at: int) -> None:
        activation, told = made[at]
        made[at] = (activation, replace(told, spec=replace(told.spec, **fields)))

    return change


def _leaf(**fields: Any) -> Callable[[Chain, int], None]:
    def change(made: Chain, at: int) -> None:
        activation, told = made[at]
        made[at] = (replace(activation, **fields), told)

    return change


def _rows(**fields: Any) -> Callable[[Chain, int], None]:
    def change(made: Chain, at: int) -> None:
        activation, told = made[at]
        made[at] = (activation, replace(told, **fields))

    return change


@pytest.mark.rule("RET-2")
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    "change",
    [
        _rows(attempt_rows=2),
        _rows(attempt_rows=0),
        _leaf(sequence=7),
        _leaf(retry_of="charge-9"),
        _spec(retry_of="task-charge-9"),
        _spec(handler="work.other"),
        _spec(input='{"amount":1}'),
        _spec(input_digest="sha256:0"),
        _spec(backoff=replace(BACKOFF, factor=3)),
        _spec(business_key="b"),
        _spec(concurrency_key="c"),
        _task(key="k" * 64),
        _task(priority=7),
        _task(effect=Effect.IDEMPOTENT),
        _task(lease_ms=999),
        _task(attempt_timeout_ms=5),
        _task(deadline_at=NOW + SECOND),
        _task(start_by=NOW + SECOND),
        _task(max_attempts=5),
        _task(application="other"),
        _task(partition_id=4),
    ],
)
def test_any_mismatch_anywhere_in_the_history_refuses(
    at: int, change: Callable[[Chain, int], None]
) -> None:
    made = chain(FAILED, CANCELLED, VERIFIED_FAILED)
    before = list(made)
    change(made, at)
    assert made != before
    answer = refused(of(made))
    assert (answer.code, answer.rule) == ("INTEGRITY_MISMATCH", "RET-2"), answer


@pytest.mark.rule("RET-2")
def test_an_activation_in_between_without_a_task_refuses() -> None:
    made = chain(FAILED, VERIFIED_FAILED)
    (first, _), (second, told) = made
    whole = replace(told.task, max_attempts=9)  # nothing else is wrong
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        charge(max_attempts=9),
        [replace(first, task_id=None), second],
        [replace(told, spec=replace(told.spec, retry_of=None), task=whole)],
    )
    command = Scene(command={"activation_id": second.id}).retry_step()
    answer = refused(retry_step.applies(facts, command, now=NOW))
    assert (answer.code, answer.message) == ("INTEGRITY_MISMATCH", "an activation has no task")


@pytest.mark.rule("RET-2")
def test_an_activation_behind_the_current_one_refuses() -> None:
    made = chain(FAILED, FAILED)
    (first, one), (second, two) = made
    turned: Chain = [
        (replace(first, current=True, state=LeafState.FAILED), one),
        (replace(second, current=False, state=LeafState.FAILED, review_cause=None), two),
    ]
    assert refused(of(turned)).code == "INTEGRITY_MISMATCH"


@pytest.mark.rule("RET-2")
@pytest.mark.parametrize(
    "definition",
    [
        {"handler": "work.other"},
        {"priority": 3},
        {"effect": "idempotent"},
        {"lease": "31s"},
        {"attempt_timeout": "5s"},
        {"backoff": {"initial": "9s"}},
        {"max_attempts": 4},
    ],
)
def test_the_task_is_what_the_fixed_definition_says(definition: dict[str, Any]) -> None:
    answer = refused(ask(Scene(definition=definition)))
    assert (answer.code, answer.rule) == ("INTEGRITY_MISMATCH", "RET-2")


# --- budget ---------------------------------------------------------------------------------------


@pytest.mark.rule("RET-4", "RET-5")
@pytest.mark.parametrize(
    ("activations", "attempts", "budget", "left"),
    [
        (1, 1, 1, None),
        (1, 0, 1, None),
        (1, 1, 2, 1),
        (1, 0, 2, 2),
        (2, 1, 2, None),
        (2, 0, 2, None),
        (2, 0, 3, 3),
        (2, 1, 3, 1),
        (3, 0, 3, None),
        (2, 2, 5, 1),
    ],
)
def test_attempts_and_activations_stay_within_the_definitions_max_attempts(
    activations: int, attempts: int, budget: int, left: int | None
) -> None:
    phases = [CANCELLED] * activations
    made = chain(*phases, attempts=attempts, budget=budget)
    answer = of(made, budget=budget)
    if left is None:
        refusal = refused(answer)
        used = activations * attempts
        assert refusal.code == "BUDGET_EXHAUSTED"
        assert refusal.rule == ("RET-4" if used >= budget else "RET-5")
        assert (refusal.detail["attempts_used"], refusal.detail["activations"]) == (
            used,
            activations,
        )
        return
    assert isinstance(answer, Retryable), answer
    assert answer.attempts_left == left


# --- quotas ---------------------------------------------------------------------------------------


@pytest.mark.rule("RET-7", "PUL-12")
@pytest.mark.parametrize(
    ("room", "code"),
    [
        ({}, None),
        ({("queue", NAMESPACE, "work"): 1, ("application", NAMESPACE, "shop"): 1}, None),
        ({("queue", NAMESPACE, "work"): 0}, "QUOTA_EXCEEDED"),
        ({("application", NAMESPACE, "shop"): 0}, "QUOTA_EXCEEDED"),
        ({("queue", NAMESPACE, "other"): 0, ("queue", "other", "work"): 0}, None),
    ],
)
def test_a_new_task_needs_room(room: dict[tuple[str, str, str], int], code: str | None) -> None:
    assert code_of(ask(Scene(known={"room": room}))) == code
