"""Every pair of states of an instance and of a step against tables written here."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import decide_failure
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf, check_move
from pulseweave.core.weave.states import (
    ENDED,
    InstanceState,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
)
from pulseweave.kernel.check import InvariantViolation
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import CANCEL, FAIL, NOW, draft, instance, leaf

S, L = InstanceState, LeafState

#: Whereto an instance may ever go. Review is left only by Continue, an end never.
INSTANCE: Mapping[InstanceState, set[InstanceState]] = {
    S.RUNNING: {S.NEEDS_REVIEW, S.CANCELLING, S.SUCCEEDED, S.FAILED, S.CANCELLED},
    S.NEEDS_REVIEW: {S.RUNNING, S.CANCELLING},
    S.CANCELLING: {S.NEEDS_REVIEW, S.FAILED, S.CANCELLED},
    S.SUCCEEDED: set(),
    S.FAILED: set(),
    S.CANCELLED: set(),
}

#: Whereto one activation may ever go. A conclusion may replace a failure; a success is final.
LEAF: Mapping[LeafState, set[LeafState]] = {
    L.ACTIVE: {L.NEEDS_REVIEW, L.SUCCEEDED, L.FAILED, L.CANCELLED},
    L.NEEDS_REVIEW: {L.ACTIVE, L.SUCCEEDED, L.FAILED},
    L.SUCCEEDED: set(),
    L.FAILED: {L.SUCCEEDED},
    L.CANCELLED: {L.SUCCEEDED, L.FAILED},
}


def fresh(state: InstanceState = S.RUNNING, **facts: Any) -> Draft:
    return draft(instance(state, **facts), compiled(task("charge"), task("ship")))


@pytest.mark.rule("WEA-6")
@pytest.mark.parametrize(("before", "after"), list(product(InstanceState, InstanceState)))
def test_an_instance_goes_only_where_the_table_leads(
    before: InstanceState, after: InstanceState
) -> None:
    at = fresh(before)
    if after in INSTANCE[before]:
        at.move(after)
        assert at.instance.state is after
    else:
        with pytest.raises(InvariantViolation):
            at.move(after)


@pytest.mark.rule("WEA-17", "RES-3")
@pytest.mark.parametrize(("before", "after"), list(product(LeafState, LeafState)))
def test_a_step_goes_only_where_the_table_leads(before: LeafState, after: LeafState) -> None:
    if before is after or after in LEAF[before]:
        check_move(leaf(before), leaf(after))
    else:
        with pytest.raises(InvariantViolation):
            check_move(leaf(before), leaf(after))


@pytest.mark.rule("REC-10")
@pytest.mark.parametrize("fields", [{"id": "charge-9"}, {"sequence": 2}, {"task_id": "task-9"}])
def test_an_activation_never_becomes_another_one(fields: dict[str, Any]) -> None:
    with pytest.raises(InvariantViolation):
        check_move(leaf(L.ACTIVE), replace(leaf(L.ACTIVE), **fields))


@pytest.mark.rule("WEA-7")
@pytest.mark.parametrize("state", InstanceState)
def test_entering_review_from_every_state(state: InstanceState) -> None:
    at = fresh(state)
    at.enter_review()
    if state in (S.RUNNING, S.CANCELLING, S.NEEDS_REVIEW):
        assert at.instance.state is S.NEEDS_REVIEW
        entered = instance(state).review_at if state is S.NEEDS_REVIEW else NOW
        assert at.instance.review_at == entered
    else:
        assert at.instance == instance(state)


@pytest.mark.rule("CON-4", "WEA-12")
@pytest.mark.parametrize("state", InstanceState)
@pytest.mark.parametrize("earlier", [None, CANCEL, FAIL])
def test_a_stop_is_set_once_and_moves_only_what_runs(state: InstanceState, earlier: Any) -> None:
    stopped = state in (S.CANCELLING, S.FAILED, S.CANCELLED)
    if (stopped and earlier is None) or (earlier is not None and state is S.RUNNING):
        return
    at = fresh(state, stop=earlier)
    at.set_stop(StopKind.FAIL, {"code": "LATER", "message": "no"})
    if earlier is not None:
        assert at.instance == instance(state, stop=earlier)
        return
    assert at.instance.stop is not None
    assert '"LATER"' in at.instance.stop.error
    assert at.instance.state is (S.CANCELLING if state is S.RUNNING else state)


@pytest.mark.rule("CON-4")
@pytest.mark.parametrize(
    ("change", "what"),
    [({"stop": None}, "stop"), ({"stop": FAIL}, "stop"), ({"deadline_at": NOW + 9}, "deadline")],
)
def test_no_plan_withdraws_a_stop_or_moves_a_deadline(change: dict[str, Any], what: str) -> None:
    at = fresh(S.NEEDS_REVIEW, stop=CANCEL, deadline_at=NOW)
    at.instance = replace(at.instance, **change)
    with pytest.raises(InvariantViolation, match=what):
        at.finish(actor="someone", cause="TEST")


@pytest.mark.rule("WEA-4")
@pytest.mark.parametrize(
    ("state", "change"),
    [
        (S.RUNNING, {"revision": 0}),
        (S.RUNNING, {"control_revision": 0}),
        (S.RUNNING, {"control_revision": 10}),
        (S.RUNNING, {"ended_at": NOW}),
        (S.SUCCEEDED, {"ended_at": None}),
        (S.CANCELLING, {"stop": None}),
        (S.FAILED, {"stop": None}),
        (S.CANCELLED, {"stop": None}),
        (S.RUNNING, {"review_at": NOW}),
        (S.NEEDS_REVIEW, {"review_at": None}),
        (S.SUCCEEDED, {"wake_at": NOW}),
    ],
)
def test_an_instance_that_can_not_be_is_never_written(
    state: InstanceState, change: dict[str, Any]
) -> None:
    with pytest.raises(InvariantViolation):
        replace(instance(state), **change).check()


@pytest.mark.parametrize(
    ("state", "change"),
    [
        (L.ACTIVE, {"sequence": 0}),
        (L.ACTIVE, {"review_cause": ReviewCause.FAILED}),
        (L.NEEDS_REVIEW, {"review_cause": None}),
        (L.SUCCEEDED, {"output": None}),
        (L.SUCCEEDED, {"ignored": True}),
    ],
)
def test_a_step_that_can_not_be_is_never_written(state: LeafState, change: dict[str, Any]) -> None:
    with pytest.raises(InvariantViolation):
        replace(leaf(state), **change).check()


@pytest.mark.rule("WEA-6")
@pytest.mark.parametrize(("state", "paused"), list(product(InstanceState, (True, False))))
def test_the_gate_is_open_exactly_while_running_and_not_paused(
    state: InstanceState, *, paused: bool
) -> None:
    at: Instance = instance(state, paused=paused)
    assert at.gate_open == (state is S.RUNNING and not paused)
    assert at.ended == (state in ENDED)


@pytest.mark.rule("WEA-8", "WEA-16")
@pytest.mark.parametrize("state", [S.RUNNING, S.NEEDS_REVIEW, S.CANCELLING])
@pytest.mark.parametrize("policy", ["fail", "review", "ignore"])
def test_a_failure_is_decided_only_while_running(state: InstanceState, policy: str) -> None:
    step: Leaf = leaf(L.FAILED)
    at = draft(instance(state), compiled(task("charge", on_failure=policy)), [step])
    if policy == "review" and state is S.RUNNING:
        at = draft(instance(state), compiled(task("charge", on_failure=policy)))
        at.leaves["charge"] = step  # this very decision has made it FAILED
    decide_failure(at, step)
    after = at.leaves["charge"]
    if state is not S.RUNNING:
        assert (after, at.instance) == (step, instance(state))
    elif policy == "fail":
        assert (after, at.instance.state) == (step, S.CANCELLING)
    elif policy == "review":
        assert (after.state, at.instance.state) == (L.NEEDS_REVIEW, S.NEEDS_REVIEW)
    else:
        assert after.output is not None
        assert (after.ignored, after.output.source) == (True, OutputSource.ERROR)
        assert at.payloads["charge"] == {"code": "BAD", "message": "no"}


@pytest.mark.rule("WEA-8")
@pytest.mark.parametrize("state", LeafState)
@pytest.mark.parametrize("ignored", [True, False])
def test_only_an_undecided_failure_is_decided(state: LeafState, *, ignored: bool) -> None:
    if ignored and state is not L.FAILED:
        return
    step = leaf(state, ignored=ignored)
    if state is L.FAILED and not ignored:
        assert step.undecided_failure
        return
    assert not step.undecided_failure
    with pytest.raises(InvariantViolation):
        decide_failure(fresh(), step)


@pytest.mark.rule("WEA-4")
def test_a_decision_that_moves_nothing_has_no_revision_and_no_journal() -> None:
    plan = fresh().finish(actor="engine", cause="WAKE")
    assert (plan.after, plan.journal, plan.gate) == (instance(), None, None)
    assert not plan.touches_tasks


@pytest.mark.rule("WEA-4")
def test_a_plan_is_finished_only_on_complete_facts() -> None:
    at = fresh()
    at.missing.add("charge")
    with pytest.raises(InvariantViolation, match="complete facts"):
        at.finish(actor="engine", cause="WAKE")
