"""What the system says of a review: which operations apply, what blocks, whom it needs."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from typing import Any

import pytest

from pulseweave.core.recovery import continue_instance, resolve_step, retry_step, review_task
from pulseweave.core.recovery.command import Continue, ResolveStep, RetryStep, ReviewTask
from pulseweave.core.recovery.facts import RecoveryFacts, Sources
from pulseweave.core.recovery.operations import (
    Blocker,
    Item,
    OperationState,
    blocking,
    items,
)
from pulseweave.core.weave.states import InstanceState, LeafState, ReviewCause
from pulseweave.kernel.errors import Rejected
from tests.core.recovery.scenes import (
    VERIFIED_FAILED,
    VERIFIED_SUCCEEDED,
    Scene,
    code_of,
    situations,
)
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import (
    CANCEL,
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
    instance,
    known,
    leaf,
)

PHASES = (
    QUEUED,
    RUNNING,
    IN_REVIEW,
    SUCCEEDED,
    FAILED,
    CANCELLED,
    VERIFIED_FAILED,
    VERIFIED_SUCCEEDED,
)
PERSON = {"reason": "looked at the provider", "evidence_ref": "provider:1", "declared": True}


def says(facts: RecoveryFacts, operation: OperationState) -> Rejected | None:
    """What the command itself answers to the ready command, filled in by a person."""
    given = operation.command
    revision: dict[str, Any] = {
        "expected_revision": int(given["expected_revision"] or 0),
        **PERSON,
    }
    answer: object
    match operation.operation:
        case ReviewTask.OPERATION:
            review = ReviewTask(
                **revision,
                task_id=given["task_id"] or "",
                expected_task_revision=int(given["expected_task_revision"] or 0),
                succeeded=True,
                result="1",
                late_report_id=None,
            )
            answer = review_task.applies(facts, review)
        case ResolveStep.OPERATION:
            resolve = ResolveStep(**revision, **step_of(given), succeeded=True, result="1")
            answer = resolve_step.applies(facts, resolve)
        case RetryStep.OPERATION:
            answer = retry_step.applies(facts, RetryStep(**revision, **step_of(given)), now=NOW)
        case _:
            answer = continue_instance.applies(facts, Continue(**revision), now=NOW)
    return answer if isinstance(answer, Rejected) else None


def step_of(given: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        "step_key": given["step_key"],
        "activation_id": given["activation_id"],
        "expected_step_revision": int(given["expected_step_revision"] or 0),
    }


def check_agreement(facts: RecoveryFacts, found: list[Item]) -> None:
    for item in found:
        for operation in item.operations:
            told = says(facts, operation)
            assert (operation.refusal is None) == (told is None), (operation, told)
            if operation.refusal is not None and told is not None:
                assert (operation.refusal.code, operation.refusal.detail) == (
                    told.code,
                    told.detail,
                )


@pytest.mark.exhaustive
@pytest.mark.rule("REC-15")
def test_what_it_says_is_what_the_commands_say_in_every_situation() -> None:
    for situation in situations():
        scene = Scene().within(situation)
        facts = scene.build()
        found = items(facts, now=NOW)
        assert bool(found) == (situation.state is InstanceState.NEEDS_REVIEW)
        check_agreement(facts, found)


@pytest.mark.rule("REC-15", "RET-7")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("state", LeafState)
def test_what_it_says_is_what_the_commands_say_of_every_step(state: LeafState, phase: Any) -> None:
    rooms: list[dict[Any, int]] = [{}, {("application", NAMESPACE, "shop"): 0}]
    for room, stop, ignored in product(rooms, (None, CANCEL), (True, False)):
        if ignored and state is not LeafState.FAILED:
            continue
        scene = Scene(
            step=state,
            phase=phase,
            leaf={"ignored": ignored},
            at={"stop": stop},
            known={"room": room},
        )
        facts = scene.build()
        check_agreement(facts, items(facts, now=NOW))


@pytest.mark.rule("REC-15", "PUL-12")
def test_a_full_quota_is_told_before_the_command_is_tried() -> None:
    facts = Scene(known={"room": {("queue", NAMESPACE, "work"): 0}}).build()
    (item,) = items(facts, now=NOW)
    codes = {o.operation: code_of(o.refusal) for o in item.operations}
    assert codes == {
        "REVIEW_TASK": "TASK_NOT_IN_REVIEW",
        "RESOLVE_STEP": None,
        "RETRY_STEP": "QUOTA_EXCEEDED",
        "CONTINUE": "UNRESOLVED_STEPS",
    }


@pytest.mark.rule("REC-15")
def test_ready_commands_carry_every_id_and_revision_and_leave_open_what_a_person_gives() -> None:
    (item,) = items(Scene().build(), now=NOW)
    step = {
        "expected_revision": "9",
        "reason": None,
        "evidence_ref": None,
        "step_key": "charge",
        "activation_id": "charge-1",
        "expected_step_revision": "3",
    }
    ready = {o.operation: o for o in item.operations}
    assert ready["REVIEW_TASK"].command == {
        "expected_revision": "9",
        "reason": None,
        "evidence_ref": None,
        "task_id": "task-charge-1",
        "expected_task_revision": "5",
        "execution_settled": None,
        "verdict": None,
        "result": None,
    }
    assert ready["RESOLVE_STEP"].command == {
        **step,
        "execution_settled": None,
        "verdict": None,
        "result": None,
    }
    assert ready["RETRY_STEP"].command == {**step, "safe_to_retry": None}
    assert ready["CONTINUE"].command == {
        "expected_revision": "9",
        "reason": None,
        "evidence_ref": None,
        "review_resolved": None,
    }
    for operation in item.operations:
        left_open = tuple(name for name, value in operation.command.items() if value is None)
        assert operation.to_fill == left_open


@pytest.mark.rule("REC-15", "RET-4", "RET-10")
def test_a_retry_says_what_is_left_and_warns() -> None:
    def note(scene: Scene) -> str:
        (item,) = items(scene.build(), now=NOW)
        (retry,) = (o for o in item.operations if o.operation == "RETRY_STEP")
        assert retry.note is not None
        return retry.note

    assert note(Scene()).startswith("2 attempt(s) left. The business key gives no idempotence")
    assert note(Scene(phase=IN_REVIEW)).startswith("The business key gives no idempotence")


@pytest.mark.rule("REC-15", "CON-1")
@pytest.mark.parametrize(
    ("state", "facts", "cause", "since"),
    [
        (LeafState.NEEDS_REVIEW, {}, "OUTCOME_UNKNOWN", NOW - 5 * SECOND),
        (
            LeafState.NEEDS_REVIEW,
            {"review_cause": ReviewCause.OUTPUT_CONTRACT, "review_at": NOW - 1},
            "OUTPUT_CONTRACT",
            NOW - 1,
        ),
        (LeafState.FAILED, {"settled_at": NOW - 2}, "FAILED", NOW - 2),
        (LeafState.CANCELLED, {"settled_at": None}, "CANCELLED", NOW - 30 * SECOND),
    ],
)
def test_each_unresolved_step_is_an_item_with_its_cause(
    state: LeafState, facts: dict[str, Any], cause: str, since: int
) -> None:
    (item,) = items(Scene(step=state, leaf=facts).build(), now=NOW)
    assert item.leaf is not None
    assert (item.leaf.step_key, item.cause, item.since) == ("charge", cause, since)


@pytest.mark.rule("WEA-20", "REC-15")
def test_a_step_without_a_task_has_nothing_to_review_or_repeat() -> None:
    (item,) = items(Scene(step=LeafState.FAILED, leaf={"task_id": None}).build(), now=NOW)
    told = {o.operation: code_of(o.refusal) for o in item.operations}
    assert told == {
        "RESOLVE_STEP": None,
        "RETRY_STEP": "STEP_NOT_RETRYABLE",
        "CONTINUE": "UNRESOLVED_STEPS",
    }


@pytest.mark.rule("REC-15")
@pytest.mark.parametrize(
    ("scene", "cause"),
    [
        ({}, "READY_TO_CONTINUE"),
        ({"at": {"quarantined": True}, "sources": {"quarantined": 1}}, "INBOX_QUARANTINED"),
        ({"sources": {"pending": 1}}, "INBOX_PENDING"),
        ({"at": {"contradicted": True}}, "CONTRADICTED"),
        ({"at": {"deadline_at": NOW}}, "DEADLINE_PASSED"),
        ({"at": {"deadline_at": NOW, "stop": CANCEL}}, "READY_TO_CONTINUE"),
    ],
)
def test_where_no_step_is_unresolved_the_instance_itself_is_the_item(
    scene: dict[str, Any], cause: str
) -> None:
    resolved = Scene(step=LeafState.SUCCEEDED, phase=VERIFIED_SUCCEEDED, **scene)
    (item,) = items(resolved.build(), now=NOW)
    assert (item.leaf, item.cause, item.since) == (None, cause, NOW - 5 * SECOND)
    (operation,) = item.operations
    assert operation.operation == "CONTINUE"
    assert (operation.refusal is None) == (cause == "READY_TO_CONTINUE")


@pytest.mark.rule("REC-15")
@pytest.mark.parametrize("state", [s for s in InstanceState if s.value != "NEEDS_REVIEW"])
def test_outside_review_nothing_is_asked_of_anybody(state: InstanceState) -> None:
    assert items(Scene(state=state).build(), now=NOW) == []


@pytest.mark.rule("REC-15")
def test_items_come_oldest_first() -> None:
    branches = {"a": [task("a")], "b": [task("b")]}
    a = leaf(LeafState.NEEDS_REVIEW, step_key="a", review_at=NOW - 1)
    b = leaf(LeafState.NEEDS_REVIEW, step_key="b", review_at=NOW - 2)
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        compiled({"parallel": "both", "branches": branches}),
        [a, b],
        [history(a, IN_REVIEW), history(b, IN_REVIEW)],
    )
    assert [item.leaf.step_key for item in items(facts, now=NOW) if item.leaf] == ["b", "a"]


# --- blocking -------------------------------------------------------------------------------------


def told(facts: RecoveryFacts) -> list[tuple[str, str]]:
    return [(blocker.what, blocker.who) for blocker in blocking(facts, now=NOW)]


QUARANTINE = ("QUARANTINED_RECORD", "admin")
UNREAD = ("RESULT_NOT_CONSUMED", "engine")
STEP = ("STEP_UNRESOLVED", "workflows:recover")
CONTRADICTION = ("CONTRADICTION", "workflows:recover")
DEADLINE = ("DEADLINE_PASSED", "workflows:control")
CONTINUE = ("CONTINUE", "workflows:recover")
PAUSED = ("PAUSED", "workflows:control")


@pytest.mark.rule("REC-19")
def test_in_every_situation_it_says_what_is_to_be_cleared_and_by_whom_in_order() -> None:
    for situation in situations():
        in_review = situation.state is InstanceState.NEEDS_REVIEW
        stopped = situation.stop is not None
        expected = [
            (QUARANTINE, situation.quarantined),
            (UNREAD, situation.pending is not None),
            (STEP, in_review),
            (CONTRADICTION, in_review and situation.contradicted),
            (DEADLINE, in_review and situation.expired and not stopped),
            (CONTINUE, in_review),
            (PAUSED, situation.paused),
        ]
        found = told(Scene().within(situation).build())
        assert found == [one for one, holds in expected if holds and not situation.ended]


@pytest.mark.rule("REC-19", "PUL-15")
def test_a_clock_that_steps_back_hides_no_passed_deadline() -> None:
    scene = Scene(at={"journal_at": NOW + 3 * SECOND, "deadline_at": NOW + 2 * SECOND})
    assert DEADLINE in told(scene.build())


@pytest.mark.rule("REC-19")
def test_a_step_is_named_with_its_task_and_cause() -> None:
    found = {b.what: b for b in blocking(Scene(phase=IN_REVIEW).build(), now=NOW)}
    assert asdict(found["STEP_UNRESOLVED"]) == {
        "what": "STEP_UNRESOLVED",
        "who": "workflows:recover",
        "step_key": "charge",
        "task_id": "task-charge-1",
        "detail": "OUTCOME_UNKNOWN",
    }
    cancelled = blocking(Scene(step=LeafState.CANCELLED).build(), now=NOW)
    assert cancelled[0].detail == "CANCELLED"


@pytest.mark.rule("REC-19")
def test_what_still_runs_is_named_and_what_waits_or_is_settled_is_not() -> None:
    steps = [leaf(LeafState.ACTIVE, step_key=key) for key in ("a", "b")]
    done = leaf(LeafState.SUCCEEDED, step_key="c")
    branches = {key: [task(key)] for key in ("a", "b", "c")}
    facts = known(
        instance(InstanceState.CANCELLING),
        compiled({"parallel": "all", "branches": branches}),
        [*steps, done],
        [history(steps[0], RUNNING), history(steps[1], QUEUED), history(done, SUCCEEDED)],
    )
    assert blocking(facts, now=NOW) == [
        Blocker(what="EXECUTION_RUNNING", who="worker", task_id="task-a-1")
    ]


@pytest.mark.rule("REC-19")
def test_a_step_that_goes_on_blocks_nothing() -> None:
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        charge(),
        [leaf(LeafState.SUCCEEDED)],
        [history(leaf(LeafState.SUCCEEDED), SUCCEEDED)],
        sources=Sources(),
    )
    assert told(facts) == [CONTINUE]
