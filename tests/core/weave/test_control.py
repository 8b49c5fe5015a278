"""Pause, resume and cancel in every situation of an instance (WEA-6, WEA-12)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import pytest

from pulseweave.core.weave.control import ControlVerb, control
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.instance import Stop
from pulseweave.core.weave.states import (
    ENDED,
    InstanceState,
    LeafState,
    StopKind,
    WakeReason,
)
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import CANCEL, FAIL, NOW, SECOND, draft, instance, leaf

BECAUSE = Stop(kind=StopKind.CANCEL, error='{"code":"CANCELLED","message":"because"}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    state: InstanceState
    paused: bool
    expired: bool
    stop: bool
    quarantined: bool
    contradicted: bool
    under_way: bool

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def draft(self) -> Draft:
        at = instance(
            self.state,
            paused=self.paused,
            deadline_at=NOW - SECOND if self.expired else NOW + SECOND,
            stop=FAIL if self.stop else None,
            quarantined=self.quarantined,
            contradicted=self.contradicted,
        )
        step = leaf(LeafState.ACTIVE if self.under_way else LeafState.SUCCEEDED)
        return draft(at, compiled(task("charge"), task("ship")), [step])


def situations() -> Iterator[Situation]:
    flags = (True, False)
    for state, paused, expired, stop, *others in product(InstanceState, *(flags,) * 6):
        stopped = state in (
            InstanceState.CANCELLING,
            InstanceState.FAILED,
            InstanceState.CANCELLED,
        )
        if (stopped and not stop) or (stop and state is InstanceState.RUNNING):
            continue
        quarantined, contradicted, under_way = others
        yield Situation(
            state=state,
            paused=paused,
            expired=expired,
            stop=stop,
            quarantined=quarantined,
            contradicted=contradicted,
            under_way=under_way,
        )


#: Conditions and answer, the first row that holds; an answer in small letters is what comes of it.
Table = tuple[tuple[Mapping[str, object], str], ...]
ALWAYS: Table = (({"ended": True}, "INSTANCE_ENDED"), ({"stop": True}, "STOP_REQUESTED"))
TABLES: Mapping[ControlVerb, Table] = {
    ControlVerb.PAUSE: (*ALWAYS, ({}, "flag only")),
    ControlVerb.RESUME: (
        *ALWAYS,
        ({"state": InstanceState.RUNNING, "expired": True}, "DEADLINE_PASSED"),
        ({"state": InstanceState.RUNNING}, "goes on"),
        ({}, "flag only"),
    ),
    ControlVerb.CANCEL: (
        *ALWAYS,
        ({"state": InstanceState.NEEDS_REVIEW}, "stop set, state stays"),
        ({"under_way": True}, "cancelling"),
        ({}, "cancelled"),
    ),
}


def expected(verb: ControlVerb, situation: Situation) -> str:
    rows = TABLES[verb]
    return next(
        answer
        for conditions, answer in rows
        if all(getattr(situation, name) == value for name, value in conditions.items())
    )


def outcome(at: Draft, situation: Situation) -> str:
    """What came of an accepted command."""
    before, after = situation.draft().instance, at.instance
    assert (after.deadline_at, after.contradicted, after.quarantined) == (
        before.deadline_at,
        before.contradicted,
        before.quarantined,
    )
    if after.stop is None:
        assert after.state is before.state
        plan = at.finish(actor="someone", cause="CONTROL", control=True)
        running = after.state is InstanceState.RUNNING
        assert plan.after.gate_open == (running and not after.paused)
        assert (plan.after.revision, plan.after.control_revision) == (10, 5)
        goes_on = plan.after.wake_reason is WakeReason.ADVANCE
        return "goes on" if goes_on else "flag only"
    assert after.stop == BECAUSE
    assert after.paused == before.paused
    plan = at.finish(actor="someone", cause="CONTROL", control=True)
    assert plan.cancel_tasks
    if after.state is InstanceState.NEEDS_REVIEW:
        return "stop set, state stays"
    assert not after.gate_open
    return after.state.value.lower()


@pytest.mark.rule("WEA-6", "WEA-12", "CON-4")
@pytest.mark.parametrize("verb", ControlVerb)
def test_in_every_situation_it_answers_as_the_table_says(verb: ControlVerb) -> None:
    for situation in situations():
        at = situation.draft()
        answer = control(at, verb, expected_control_revision=4, reason="because")
        if isinstance(answer, Rejected):
            assert answer.code == expected(verb, situation), situation
            assert at.instance == situation.draft().instance
        else:
            assert outcome(at, situation) == expected(verb, situation), situation


@pytest.mark.rule("REC-5", "WEA-12")
@pytest.mark.parametrize("verb", ControlVerb)
def test_an_older_view_of_what_was_decided_never_overwrites_it(verb: ControlVerb) -> None:
    for situation in situations():
        at = situation.draft()
        answer = control(at, verb, expected_control_revision=3, reason="because")
        assert isinstance(answer, Rejected)
        assert answer.code == "CONTROL_REVISION_CONFLICT"
        assert answer.detail == {"current_control_revision": "4", "current_revision": "9"}


@pytest.mark.rule("WEA-12", "WEA-6")
def test_a_second_stop_is_refused_and_names_the_first() -> None:
    at = draft(instance(InstanceState.CANCELLING, stop=CANCEL), compiled(task("charge")))
    answer = control(at, ControlVerb.CANCEL, expected_control_revision=4, reason="again")
    assert isinstance(answer, Rejected)
    assert answer.detail["stop"] == {"kind": "CANCEL", "error": canonical.parse(CANCEL.error)}


@pytest.mark.rule("WEA-12")
def test_a_cancel_without_a_reason_still_says_what_it_was() -> None:
    at = draft(instance(), compiled(task("charge")), [leaf(LeafState.ACTIVE)])
    assert control(at, ControlVerb.CANCEL, expected_control_revision=4, reason="") is None
    assert at.instance.stop is not None
    assert canonical.parse(at.instance.stop.error)["message"] == "cancelled on request"


@pytest.mark.rule("WEA-14")
def test_a_paused_instance_has_no_continuation_but_its_deadline() -> None:
    for deadline_at, reason in ((None, None), (NOW + SECOND, WakeReason.DEADLINE)):
        at = draft(
            instance(deadline_at=deadline_at, wake_at=NOW, wake_reason=WakeReason.ADVANCE),
            compiled(task("charge")),
            [leaf(LeafState.ACTIVE)],
        )
        assert control(at, ControlVerb.PAUSE, expected_control_revision=4, reason="") is None
        after = at.finish(actor="someone", cause="PAUSE", control=True).after
        assert (after.wake_at, after.wake_reason) == (deadline_at, reason)
