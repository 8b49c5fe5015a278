"""Collect: what each event does to its step and its instance, in every state of both."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from pulseweave.core.pulse.task import EventKind, Outcome, TaskState
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.inbox import Delivery, Quarantined, StreamEvent, TaskFacts, consume
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import (
    Disposition,
    InboxState,
    InstanceState,
    LeafState,
    QuarantineCause,
    ReviewCause,
    StopKind,
)
from pulseweave.kernel import canonical
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import CANCEL, NOW, draft, instance, leaf

L, S, E = LeafState, InstanceState, EventKind
REVISION = 5
BOTH = {"parallel": "both", "branches": {"charge": [task("charge")], "ship": [task("ship")]}}

#: What each event does to the leaf it is about, unless it is LATE.
DISPOSITIONS: Mapping[LeafState, Disposition] = {
    L.ACTIVE: Disposition.APPLIED,
    L.NEEDS_REVIEW: Disposition.EVIDENCE,
    L.SUCCEEDED: Disposition.STALE,
    L.FAILED: Disposition.STALE,
    L.CANCELLED: Disposition.STALE,
}


def event(kind: EventKind, activation: Leaf, **fields: Any) -> StreamEvent:
    plain: dict[str, Any] = {
        "partition_id": 3,
        "seq": 7,
        "namespace": activation.namespace,
        "task_id": activation.task_id,
        "task_revision": REVISION,
        "instance_id": activation.instance_id,
        "activation_id": activation.id,
        "kind": kind,
        "code": None,
        "late_outcome": Outcome.SUCCEEDED if kind is E.LATE else None,
        "at": NOW,
    }
    return StreamEvent(**{**plain, **fields})


def facts(state: TaskState, activation: Leaf, **fields: Any) -> TaskFacts:
    plain: dict[str, Any] = {
        "task_id": activation.task_id,
        "namespace": activation.namespace,
        "instance_id": activation.instance_id,
        "activation_id": activation.id,
        "state": state,
        "revision": REVISION,
        "result": '{"ok":true}' if state is TaskState.SUCCEEDED else None,
        "result_digest": None,
        "error": '{"code":"BAD","message":"no"}' if state is TaskState.FAILED else None,
    }
    return TaskFacts(**{**plain, **fields})


def state_told(kind: EventKind) -> TaskState:
    return TaskState.SUCCEEDED if kind is E.LATE else TaskState(kind.value)


def collect(at: Draft, kind: EventKind, activation: Leaf, **fields: Any) -> Disposition | None:
    historical = {} if activation.current else {activation.id: activation}
    told = facts(state_told(kind), activation)
    told_now = event(kind, activation, **fields)
    return consume(at, told_now, delivery(told_now, told, historical)).disposition


def delivery(
    told: StreamEvent, known: TaskFacts | None, historical: Mapping[str, Leaf] | None = None
) -> Delivery:
    tasks = {told.task_id: known} if known is not None else {}
    return Delivery(events=(told,), tasks=tasks, historical=historical or {})


# --- dispositions ---------------------------------------------------------------------------------


@pytest.mark.rule("WEA-5", "WEA-17", "PUL-17")
def test_what_becomes_of_an_event_in_every_state_of_its_step() -> None:
    for state, current, kind in product(LeafState, (True, False), EventKind):
        activation = leaf(state, current=current)
        latest = activation if current else leaf(LeafState.ACTIVE, sequence=2)
        at = draft(instance(S.NEEDS_REVIEW), compiled(BOTH), [latest])
        answer = collect(at, kind, activation)
        expected = DISPOSITIONS[state] if current else Disposition.STALE
        if kind is E.LATE:
            expected = Disposition.LATE
        assert answer is expected, (state, current, kind)
        if expected is Disposition.STALE:
            assert at.leaves == {latest.step_key: latest}
            assert at.instance == instance(S.NEEDS_REVIEW)


@pytest.mark.rule("WEA-17")
@pytest.mark.parametrize("kind", [E.SUCCEEDED, E.FAILED, E.CANCELLED, E.NEEDS_REVIEW])
def test_evidence_is_written_on_the_step_and_moves_nothing(kind: EventKind) -> None:
    for state, stop in product((S.NEEDS_REVIEW, S.RUNNING, S.CANCELLING), (None, CANCEL)):
        if (state is S.CANCELLING) != (stop is not None) and state is not S.NEEDS_REVIEW:
            continue
        waiting = leaf(L.NEEDS_REVIEW)
        at = draft(instance(state, stop=stop), compiled(BOTH), [waiting])
        assert collect(at, kind, waiting) is Disposition.EVIDENCE
        after = at.leaves["charge"]
        assert (after.state, after.review_cause) == (L.NEEDS_REVIEW, waiting.review_cause)
        assert (after.revision, after.task_revision) == (waiting.revision + 1, REVISION)
        assert after.task_state is TaskState(kind.value)
        assert at.instance == instance(state, stop=stop)


# --- applying -------------------------------------------------------------------------------------

#: (event, policy or None for any, state of the instance, stop?) → step, cause, instance.
#: A parallel step stays open beside it, so that the instance never ends here.
APPLIED: tuple[tuple[EventKind, str | None, InstanceState, bool, LeafState, str, str], ...] = (
    (E.SUCCEEDED, None, S.RUNNING, False, L.SUCCEEDED, "", "RUNNING"),
    (E.SUCCEEDED, None, S.NEEDS_REVIEW, False, L.SUCCEEDED, "", "NEEDS_REVIEW"),
    (E.SUCCEEDED, None, S.NEEDS_REVIEW, True, L.SUCCEEDED, "", "NEEDS_REVIEW"),
    (E.SUCCEEDED, None, S.CANCELLING, True, L.SUCCEEDED, "", "CANCELLING"),
    (E.FAILED, "fail", S.RUNNING, False, L.FAILED, "", "CANCELLING"),
    (E.FAILED, "review", S.RUNNING, False, L.NEEDS_REVIEW, "FAILED", "NEEDS_REVIEW"),
    (E.FAILED, "ignore", S.RUNNING, False, L.FAILED, "ignored", "RUNNING"),
    (E.FAILED, None, S.NEEDS_REVIEW, False, L.FAILED, "", "NEEDS_REVIEW"),
    (E.FAILED, None, S.NEEDS_REVIEW, True, L.FAILED, "", "NEEDS_REVIEW"),
    (E.FAILED, None, S.CANCELLING, True, L.FAILED, "", "CANCELLING"),
    (E.CANCELLED, None, S.RUNNING, False, L.NEEDS_REVIEW, "CANCELLED", "NEEDS_REVIEW"),
    (E.CANCELLED, None, S.NEEDS_REVIEW, False, L.NEEDS_REVIEW, "CANCELLED", "NEEDS_REVIEW"),
    (E.CANCELLED, None, S.NEEDS_REVIEW, True, L.CANCELLED, "", "NEEDS_REVIEW"),
    (E.CANCELLED, None, S.CANCELLING, True, L.CANCELLED, "", "CANCELLING"),
    (E.NEEDS_REVIEW, None, S.RUNNING, False, L.NEEDS_REVIEW, "OUTCOME_UNKNOWN", "NEEDS_REVIEW"),
    (
        E.NEEDS_REVIEW,
        None,
        S.NEEDS_REVIEW,
        False,
        L.NEEDS_REVIEW,
        "OUTCOME_UNKNOWN",
        "NEEDS_REVIEW",
    ),
    (
        E.NEEDS_REVIEW,
        None,
        S.NEEDS_REVIEW,
        True,
        L.NEEDS_REVIEW,
        "OUTCOME_UNKNOWN",
        "NEEDS_REVIEW",
    ),
    (
        E.NEEDS_REVIEW,
        None,
        S.CANCELLING,
        True,
        L.NEEDS_REVIEW,
        "OUTCOME_UNKNOWN",
        "NEEDS_REVIEW",
    ),
)


def test_the_table_is_whole() -> None:
    rows = {(kind, policy, state, stop) for kind, policy, state, stop, *_ in APPLIED}
    situations = (
        (S.RUNNING, False),
        (S.NEEDS_REVIEW, False),
        (S.NEEDS_REVIEW, True),
        (S.CANCELLING, True),
    )
    kinds = [kind for kind in EventKind if kind is not E.LATE]
    for kind, policy, (state, stop) in product(kinds, ("fail", "review", "ignore"), situations):
        row = {(kind, policy, state, stop), (kind, None, state, stop)} & rows
        assert len(row) == 1, (kind, policy, state, stop)


@pytest.mark.rule("WEA-7", "WEA-8", "WEA-16")
@pytest.mark.parametrize(("kind", "policy", "state", "stop", "step", "cause", "then"), APPLIED)
@pytest.mark.parametrize("paused", [True, False])
def test_what_an_event_does_to_a_step_that_waits_for_it(
    kind: EventKind,
    policy: str | None,
    state: InstanceState,
    step: LeafState,
    cause: str,
    then: str,
    *,
    stop: bool,
    paused: bool,
) -> None:
    for on_failure in (policy,) if policy is not None else ("fail", "review", "ignore"):
        branches = {"charge": [task("charge", on_failure=on_failure)], "ship": [task("ship")]}
        before = instance(state, stop=CANCEL if stop else None, paused=paused)
        at = draft(
            before,
            compiled({"parallel": "both", "branches": branches}),
            [leaf(L.ACTIVE), leaf(L.ACTIVE, step_key="ship")],
        )
        assert collect(at, kind, at.leaves["charge"]) is Disposition.APPLIED
        after = at.leaves["charge"]
        assert (after.state, at.instance.state.value) == (step, then), on_failure
        assert after.ignored == (cause == "ignored")
        assert after.review_cause == (ReviewCause(cause) if step is L.NEEDS_REVIEW else None)
        assert after.review_at == (NOW if step is L.NEEDS_REVIEW else None)
        assert after.settled_at == (None if kind is E.NEEDS_REVIEW or cause == "CANCELLED" else NOW)
        assert after.task_revision == REVISION
        assert at.instance.paused == paused
        assert at.leaves["ship"] == leaf(L.ACTIVE, step_key="ship")
        if then == "CANCELLING" and not stop:
            assert at.instance.stop is not None
            assert at.instance.stop.kind is StopKind.FAIL
        elif not stop:
            assert at.instance.stop is None


@pytest.mark.rule("WEA-16")
@pytest.mark.parametrize(
    ("state", "paused", "advances"),
    [
        (S.RUNNING, False, True),
        (S.RUNNING, True, False),
        (S.NEEDS_REVIEW, False, False),
        (S.CANCELLING, False, False),
    ],
)
def test_only_a_running_instance_goes_on(
    state: InstanceState, *, paused: bool, advances: bool
) -> None:
    at = draft(
        instance(state, paused=paused), compiled(task("charge"), task("ship")), [leaf(L.ACTIVE)]
    )
    assert collect(at, E.SUCCEEDED, at.leaves["charge"]) is Disposition.APPLIED
    assert ("ship" in at.leaves) == advances == bool(at.tasks)


@pytest.mark.rule("WEA-15")
@pytest.mark.parametrize("kind", [E.SUCCEEDED, E.FAILED, E.CANCELLED])
def test_the_last_event_of_a_stop_ends_the_instance_as_the_stop_says(kind: EventKind) -> None:
    at = draft(instance(S.CANCELLING), compiled(task("charge"), task("ship")), [leaf(L.ACTIVE)])
    collect(at, kind, at.leaves["charge"])
    assert at.instance.state is S.CANCELLED
    assert (at.instance.error, at.instance.ended_at) == (CANCEL.error, NOW)


@pytest.mark.rule("WEA-13")
@pytest.mark.parametrize("kind", [E.SUCCEEDED, E.FAILED, E.CANCELLED, E.NEEDS_REVIEW])
def test_after_the_deadline_the_first_to_look_stops_a_running_instance(kind: EventKind) -> None:
    definition = compiled(task("charge", on_failure="review"), task("ship"))
    at = draft(instance(S.RUNNING, deadline_at=NOW), definition, [leaf(L.ACTIVE)])
    collect(at, kind, at.leaves["charge"])
    assert at.instance.stop is not None
    assert canonical.parse(at.instance.stop.error)["code"] == "DEADLINE_EXCEEDED"
    assert "ship" not in at.leaves
    expected = S.NEEDS_REVIEW if kind is E.NEEDS_REVIEW else S.FAILED
    assert at.instance.state is expected


@pytest.mark.rule("WEA-7")
@pytest.mark.parametrize("result", ['{"id":"x"}', "null"])
def test_a_result_that_breaks_its_contract_is_reviewed_and_never_passed_on(result: str) -> None:
    contract = {"type": "object", "properties": {"id": {"type": "integer"}}}
    definition = compiled(task("charge", output=contract), task("ship"))
    at = draft(instance(), definition, [leaf(L.ACTIVE)])
    charge = at.leaves["charge"]
    told = facts(TaskState.SUCCEEDED, charge, result=result)
    came = event(E.SUCCEEDED, charge)
    consume(at, came, delivery(came, told))
    after = at.leaves["charge"]
    assert (after.state, after.review_cause) == (L.NEEDS_REVIEW, ReviewCause.OUTPUT_CONTRACT)
    assert (after.output, "ship" in at.leaves) == (None, False)
    fitting = draft(instance(), definition, [leaf(L.ACTIVE)])
    told = facts(TaskState.SUCCEEDED, charge, result='{"id":7}', result_digest="sha256:known")
    consume(fitting, came, delivery(came, told))
    output = fitting.leaves["charge"].output
    assert output is not None
    assert (output.id, output.digest) == (charge.task_id, "sha256:known")


# --- late facts -----------------------------------------------------------------------------------


@pytest.mark.rule("PUL-17", "WEA-4")
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("state", [TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED])
def test_a_late_fact_contradicts_when_it_tells_another_outcome(
    state: TaskState, outcome: Outcome, *, current: bool, ended: bool
) -> None:
    activation = leaf(L.SUCCEEDED, current=current)
    latest = activation if current else leaf(L.SUCCEEDED, sequence=2)
    before = instance(S.SUCCEEDED if ended else S.NEEDS_REVIEW)
    at = draft(before, compiled(BOTH), [latest])
    late = event(E.LATE, activation, late_outcome=outcome)
    historical = {activation.id: activation}
    record = consume(at, late, delivery(late, facts(state, activation), historical))
    assert record.disposition is Disposition.LATE
    differs = outcome is not Outcome.UNKNOWN and outcome.value != state.value
    assert at.instance.contradicted == differs
    assert at.instance.state is before.state
    plan = at.finish(actor="engine", cause="RESULTS")
    assert plan.after.revision == before.revision + 1
    assert plan.journal is not None
    assert at.leaves[latest.step_key].revision == latest.revision + (1 if current else 0)


@pytest.mark.rule("PUL-17")
def test_a_contradiction_is_not_taken_back_by_a_fact_that_agrees() -> None:
    done = leaf(L.SUCCEEDED)
    at = draft(instance(S.SUCCEEDED, contradicted=True), compiled(BOTH), [done])
    collect(at, E.LATE, done, late_outcome=Outcome.SUCCEEDED)
    assert at.instance.contradicted


# --- what is set aside ----------------------------------------------------------------------------


def causes(at: Draft, told: StreamEvent, known: TaskFacts | None) -> QuarantineCause | None:
    try:
        record = consume(at, told, delivery(told, known))
    except Quarantined as quarantined:
        return quarantined.cause if quarantined.detail else None
    assert record.state is InboxState.PROCESSED
    return None


@pytest.mark.rule("REC-9", "WEA-5")
@pytest.mark.parametrize(
    ("of_event", "of_task"),
    [
        ({"activation_id": "charge-9"}, {}),
        ({"activation_id": ""}, {}),
        ({"task_id": "task-other"}, {}),
        ({"namespace": "other"}, {}),
        ({}, {"activation_id": "ship-1"}),
        ({}, {"activation_id": None}),
        ({}, {"instance_id": "instance-2"}),
        ({}, {"instance_id": None}),
        ({}, {"namespace": "other"}),
        ({}, None),
    ],
)
def test_an_event_whose_owner_is_not_sure_is_set_aside(
    of_event: dict[str, Any], of_task: dict[str, Any] | None
) -> None:
    at = draft(instance(), compiled(BOTH), [leaf(L.ACTIVE)])
    charge = at.leaves["charge"]
    known = None if of_task is None else facts(TaskState.SUCCEEDED, charge, **of_task)
    cause = causes(at, event(E.SUCCEEDED, charge, **of_event), known)
    assert cause is QuarantineCause.OWNERSHIP_MISMATCH


@pytest.mark.rule("WEA-5")
@pytest.mark.parametrize(
    ("revision", "cause"),
    [(4, QuarantineCause.TASK_REVISION_MISMATCH), (5, None), (6, None)],
)
def test_an_event_is_never_ahead_of_its_task(revision: int, cause: QuarantineCause | None) -> None:
    at = draft(instance(), compiled(BOTH), [leaf(L.ACTIVE)])
    charge = at.leaves["charge"]
    known = facts(TaskState.SUCCEEDED, charge, revision=revision)
    assert causes(at, event(E.SUCCEEDED, charge), known) is cause


#: The states that a task may be in when an event is consumed that told of another moment: the same
#: one for ever, or what a verdict made of an unknown outcome (PUL-1).
LATER: Mapping[EventKind, set[TaskState]] = {
    E.SUCCEEDED: {TaskState.SUCCEEDED},
    E.FAILED: {TaskState.FAILED},
    E.CANCELLED: {TaskState.CANCELLED},
    E.NEEDS_REVIEW: {TaskState.NEEDS_REVIEW, TaskState.SUCCEEDED, TaskState.FAILED},
    E.LATE: {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED},
}


@pytest.mark.rule("WEA-5")
@pytest.mark.parametrize("later", [True, False])
@pytest.mark.parametrize("kind", EventKind)
@pytest.mark.parametrize("state", TaskState)
def test_an_event_that_its_task_contradicts_is_set_aside(
    kind: EventKind, state: TaskState, *, later: bool
) -> None:
    at = draft(instance(), compiled(BOTH), [leaf(L.ACTIVE)])
    charge = at.leaves["charge"]
    known = facts(state, charge, revision=REVISION + later)
    possible = LATER[kind]
    if kind is E.NEEDS_REVIEW and not later:
        possible = {TaskState.NEEDS_REVIEW}
    cause = causes(at, event(kind, charge), known)
    assert cause is (None if state in possible else QuarantineCause.TASK_STATE_MISMATCH)


@pytest.mark.rule("WEA-5")
@pytest.mark.parametrize(
    ("kind", "missing"), [(E.SUCCEEDED, {"result": None}), (E.FAILED, {"error": None})]
)
@pytest.mark.parametrize("state", [L.ACTIVE, L.NEEDS_REVIEW, L.SUCCEEDED])
def test_a_missing_result_is_never_taken_for_null(
    kind: EventKind, missing: dict[str, None], state: LeafState
) -> None:
    at = draft(instance(), compiled(BOTH), [leaf(state)])
    charge = at.leaves["charge"]
    known = facts(state_told(kind), charge, **missing)
    assert causes(at, event(kind, charge), known) is QuarantineCause.RESULT_MISSING
    null = facts(TaskState.SUCCEEDED, charge, result="null")
    assert causes(at, event(E.SUCCEEDED, charge), null) is None
