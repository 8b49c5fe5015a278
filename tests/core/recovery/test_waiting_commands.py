"""ContinuePoll and RearmWait: what waited waits again, with the instants it had (CPO-1, REA-1)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pulseweave.core.recovery import continue_poll, rearm_wait
from pulseweave.core.recovery.command import ContinuePoll, RearmWait
from pulseweave.core.recovery.continue_poll import PollContinued
from pulseweave.core.recovery.facts import Missing, RecoveryFacts, Sources
from pulseweave.core.recovery.rearm_wait import WaitRearmed
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.states import (
    InstanceState,
    LeafKind,
    LeafState,
    WaitKind,
    WaitState,
)
from pulseweave.core.weave.values import SIGNAL, SIGNALS
from pulseweave.core.weave.wait import KeptSignal, Wait
from pulseweave.kernel.errors import Rejected
from tests.core.recovery.scenes import (
    COMMON,
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
from tests.core.weave.definition.documents import compiled
from tests.core.weave.facts import (
    NAMESPACE,
    NOW,
    RUNNING,
    SECOND,
    SUCCEEDED,
    history,
    ids,
    instance,
    known,
    leaf,
)

#: "State in review", column of the operations that set something to wait.
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
POLL = {
    "poll": "charge",
    "queue": "work",
    "handler": "ask",
    "interval": "10s",
    "max_rounds": 3,
    "mapping": {"path": "/status", "pending": ["WAIT"], "succeeded": ["READY"], "failed": ["BAD"]},
    "final_signal": {"name": "ready"},
}
SIGNAL_STEP = {"signal": "charge", "name": "ready", "timeout": "1h"}
TIMER_STEP = {"timer": "charge", "for": "1h"}


@dataclass(slots=True, kw_only=True)
class Waiting(Scene):
    """A step that waited, and is in review."""

    document: dict[str, Any]
    kind: LeafKind
    answer: str | None = None
    query: bool = True
    waits: list[Wait] = field(default_factory=list)
    payloads: dict[str, object] = field(default_factory=dict)

    def build(self) -> RecoveryFacts:
        poll = self.kind is LeafKind.POLL
        plain: dict[str, Any] = {"kind": self.kind, "round": 2 if poll else None}
        if not poll:
            plain["task_id"] = None
        step = leaf(self.step, **{**plain, **self.leaf})
        asked = {"handler": "ask", **self.spec}
        told = [history(step, self.phase, spec=asked, rows=self.rows, **self.task)] if poll else []
        facts = known(
            instance(self.state, **self.at),
            compiled(self.document),
            [step],
            told,
            sources=Sources(**self.sources),
        )
        task_id = step.task_id or ""
        queries = Query(
            task_id=task_id,
            namespace=NAMESPACE,
            instance_id=step.instance_id,
            activation_id=step.id,
            step_key=step.step_key,
            round=2,
            opened_at=NOW - 20 * SECOND,
        )
        return replace(
            facts,
            base=replace(facts.base, payloads=self.payloads),
            queries=(queries,) if poll and self.query else (),
            waits=tuple(self.waits),
            results={task_id: self.answer} if self.answer is not None else {},
        )


def wait(kind: WaitKind, **fields: Any) -> Wait:
    plain: dict[str, Any] = {
        "id": "wait-1",
        "namespace": NAMESPACE,
        "instance_id": "instance-1",
        "activation_id": "charge-1",
        "step_key": "charge",
        "kind": kind,
        "generation": 1,
        "name": "ready" if kind is WaitKind.SIGNAL else None,
        "correlation": None,
        "due_at": None if kind is WaitKind.SIGNAL else NOW + 9 * SECOND,
        "deadline_at": NOW + 99 * SECOND if kind is WaitKind.SIGNAL else None,
        "armed_at": NOW - 20 * SECOND,
        "state": WaitState.CLOSED,
    }
    return Wait(**{**plain, **fields})


def of_nobody(asked: Scene) -> None:
    asked.command["activation_id"] = "charge-7"


def old_step_revision(asked: Scene) -> None:
    asked.command["expected_step_revision"] = 2


def not_in_review(asked: Scene) -> None:
    asked.step = LeafState.ACTIVE


STEP: tuple[Break, ...] = (
    *COMMON,
    ("STOP_REQUESTED", stopped),
    ("DEADLINE_PASSED", expired),
    ("NOT_OWNED", of_nobody),
    ("STEP_REVISION_CONFLICT", old_step_revision),
)


# --- ContinuePoll ---------------------------------------------------------------------------------


def poll(**more: Any) -> Waiting:
    """Round 2 of 3 was answered PENDING, as a person has verified."""
    plain: dict[str, Any] = {
        "document": dict(POLL),
        "kind": LeafKind.POLL,
        "phase": VERIFIED_SUCCEEDED,
        "answer": '{"status":"WAIT"}',
    }
    return Waiting(**{**plain, **more})


def continue_(asked: Waiting) -> PollContinued | Rejected | Missing:
    command = ContinuePoll(**{**asked._of_step, **asked.command})
    return continue_poll.decide(
        asked.build(), command, now=asked.now, new_id=ids(), actor="someone"
    )


def continued(asked: Waiting) -> PollContinued:
    answer = continue_(asked)
    assert isinstance(answer, PollContinued), answer
    return answer


@pytest.mark.exhaustive
@pytest.mark.rule("REC-4", "CPO-1")
def test_a_poll_is_continued_where_the_table_says() -> None:
    for situation in situations():
        asked = poll()
        asked.within(situation)
        asked.at["deadline_at"] = NOW - SECOND if situation.expired else NOW + 60 * SECOND
        answer = continue_(asked)
        assert code_of(answer) == answer_of(TABLE, situation), situation
        if isinstance(answer, PollContinued):
            assert (answer.plan.after.state, answer.plan.gate) == (InstanceState.NEEDS_REVIEW, None)
            assert answer.plan.tasks == (), "nothing starts before Continue"


def not_owned(asked: Scene) -> None:
    asked.task["namespace"] = "other"


def still_running(asked: Scene) -> None:
    asked.phase = RUNNING


def not_consumed(asked: Scene) -> None:
    asked.rows["consumed_revision"] = 4


def answered_ready(asked: Scene) -> None:
    assert isinstance(asked, Waiting)
    asked.answer = '{"status":"READY"}'


def no_round_left(asked: Scene) -> None:
    assert isinstance(asked, Waiting)
    asked.document["max_rounds"] = 2


@pytest.mark.rule("REC-4", "REC-11", "REC-12", "CPO-1")
def test_the_first_violated_check_of_continue_poll_answers() -> None:
    breaks: tuple[Break, ...] = (
        *STEP,
        ("POLL_NOT_PENDING", not_in_review),
        ("NOT_OWNED", not_owned),
        ("EXECUTION_UNSETTLED", still_running),
        ("INBOX_PENDING", not_consumed),
        ("POLL_NOT_PENDING", answered_ready),
        ("ROUNDS_EXHAUSTED", no_round_left),
    )

    def ask(asked: Scene) -> object:
        assert isinstance(asked, Waiting)
        return continue_(asked)

    check_order(breaks, poll, ask)


@pytest.mark.rule("CPO-1", "REC-5", "REC-10")
@pytest.mark.parametrize("phase", [VERIFIED_SUCCEEDED, SUCCEEDED])
def test_the_next_round_is_due_an_interval_after_the_answer(phase: Any) -> None:
    nothing_kept = {SIGNALS + "ready": ()}
    answer = continued(poll(phase=phase, waits=[wait(WaitKind.SIGNAL)], payloads=nothing_kept))
    assert answer.due_at == phase.at + 10 * SECOND
    plan = answer.plan
    (change,) = plan.leaves
    assert (change.after.state, change.after.round) == (LeafState.ACTIVE, 2)
    armed = {change.after.kind: change.after for change in plan.waits}
    assert armed[WaitKind.ROUND].due_at == answer.due_at
    again = armed[WaitKind.SIGNAL]
    assert (again.generation, again.name, again.deadline_at) == (2, "ready", NOW + 99 * SECOND)
    (query,) = plan.queries
    assert (query.after.classification, query.after.answered_at) == (
        Classification.PENDING,
        phase.at,
    )
    assert (plan.after.revision, plan.after.control_revision) == (10, 5)


@pytest.mark.rule("CPO-1")
def test_a_query_that_was_answered_is_not_written_again() -> None:
    asked = poll()
    facts = asked.build()
    told = replace(facts.queries[0], answered_at=NOW - 9, classification=None)
    command = ContinuePoll(**asked._of_step)
    answer = continue_poll.decide(
        replace(facts, queries=(told,)), command, now=NOW, new_id=ids(), actor="someone"
    )
    assert isinstance(answer, PollContinued)
    assert answer.plan.queries == ()


@pytest.mark.rule("CPO-1")
@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"leaf": {"deadline_at": NOW + 9 * SECOND}}, "ROUNDS_EXHAUSTED"),
        ({"leaf": {"deadline_at": NOW + 10 * SECOND}}, None),
        ({"at": {"deadline_at": NOW + 9 * SECOND}}, "ROUNDS_EXHAUSTED"),
        (
            {"now": NOW + 50 * SECOND, "leaf": {"deadline_at": NOW + 50 * SECOND}},
            "ROUNDS_EXHAUSTED",
        ),
        ({"leaf": {"round": 3}}, "ROUNDS_EXHAUSTED"),
    ],
)
def test_no_round_begins_past_a_limit(facts: dict[str, Any], code: str | None) -> None:
    assert code_of(continue_(poll(**facts))) == code


@pytest.mark.rule("CPO-1")
@pytest.mark.parametrize("answer", [None, '{"status":"BAD"}', '{"status":"?"}', '"WAIT"'])
def test_only_an_answer_that_the_mapping_makes_pending_goes_on(answer: str | None) -> None:
    refusal = refused(continue_(poll(answer=answer)))
    assert (refusal.code, refusal.rule) == ("POLL_NOT_PENDING", "CPO-1")


@pytest.mark.rule("WEA-17", "WEA-9")
def test_a_final_signal_that_is_kept_is_asked_for_and_taken() -> None:
    kept = KeptSignal(
        id="signal-1", name="ready", correlation=None, digest="sha256:0", accepted_at=NOW - 1
    )
    waits = [wait(WaitKind.SIGNAL)]
    for payloads, needed in (
        ({}, {SIGNALS + "ready"}),
        ({SIGNALS + "ready": (kept,)}, {SIGNAL + "signal-1"}),
    ):
        answer = continue_(poll(waits=waits, payloads=payloads))
        assert answer == Missing(frozenset(needed))
    loaded: dict[str, object] = {
        SIGNALS + "ready": (kept,),
        SIGNAL + "signal-1": {"status": "READY"},
    }
    plan = continued(poll(waits=waits, payloads=loaded)).plan
    (change,) = plan.leaves
    assert change.after.state is LeafState.SUCCEEDED
    assert [taken.signal_id for taken in plan.signals] == ["signal-1"]


# --- RearmWait ------------------------------------------------------------------------------------


def signal(**more: Any) -> Waiting:
    plain: dict[str, Any] = {
        "document": SIGNAL_STEP,
        "kind": LeafKind.SIGNAL,
        "leaf": {"deadline_at": NOW + 99 * SECOND},
        "waits": [wait(WaitKind.SIGNAL, id="wait-0"), wait(WaitKind.SIGNAL, generation=2)],
        "payloads": {SIGNALS + "ready": ()},
    }
    return Waiting(**{**plain, **more})


def timer(**more: Any) -> Waiting:
    waits = [wait(WaitKind.TIMER, generation=2)]
    return Waiting(**{"document": TIMER_STEP, "kind": LeafKind.TIMER, "waits": waits, **more})


def rearm(asked: Waiting) -> WaitRearmed | Rejected | Missing:
    command = RearmWait(**{**asked._of_step, **asked.command})
    return rearm_wait.decide(asked.build(), command, now=asked.now, new_id=ids(), actor="someone")


def rearmed(asked: Waiting) -> WaitRearmed:
    answer = rearm(asked)
    assert isinstance(answer, WaitRearmed), answer
    return answer


@pytest.mark.exhaustive
@pytest.mark.rule("REC-4", "REA-1")
@pytest.mark.parametrize("make", [signal, timer])
def test_a_wait_is_armed_again_where_the_table_says(make: Callable[[], Waiting]) -> None:
    for situation in situations():
        asked = make()
        asked.within(situation)
        answer = rearm(asked)
        assert code_of(answer) == answer_of(TABLE, situation), situation
        if isinstance(answer, WaitRearmed):
            assert (answer.plan.after.state, answer.plan.gate) == (InstanceState.NEEDS_REVIEW, None)


def time_passed(asked: Scene) -> None:
    asked.leaf["deadline_at"] = NOW


def nothing_known(asked: Scene) -> None:
    assert isinstance(asked, Waiting)
    asked.waits = []


@pytest.mark.rule("REC-4", "REC-11", "REC-12", "REA-1")
def test_the_first_violated_check_of_rearm_wait_answers() -> None:
    breaks: tuple[Break, ...] = (
        *STEP,
        ("WAIT_NOT_REARMABLE", not_in_review),
        ("DEADLINE_PASSED", time_passed),
        ("INTEGRITY_MISMATCH", nothing_known),
    )

    def ask(asked: Scene) -> object:
        assert isinstance(asked, Waiting)
        return rearm(asked)

    check_order(breaks, signal, ask)


@pytest.mark.rule("REA-1", "REC-5", "REC-10")
@pytest.mark.parametrize(("make", "kind"), [(signal, WaitKind.SIGNAL), (timer, WaitKind.TIMER)])
def test_the_next_generation_waits_as_the_last_one_did(
    make: Callable[[], Waiting], kind: WaitKind
) -> None:
    asked = make()
    answer = rearmed(asked)
    assert (answer.generation, answer.taken) == (3, False)
    (change,) = answer.plan.waits
    assert change.before is None
    new, last = change.after, asked.waits[-1]
    assert (new.kind, new.armed, new.armed_at) == (kind, True, NOW)
    same = ("name", "correlation", "due_at", "deadline_at", "step_key", "activation_id")
    assert all(getattr(new, name) == getattr(last, name) for name in same)
    (step,) = answer.plan.leaves
    assert (step.after.state, step.after.review_cause) == (LeafState.ACTIVE, None)
    assert answer.plan.tasks == ()
    assert (answer.plan.after.revision, answer.plan.after.control_revision) == (10, 5)


@pytest.mark.rule("REA-1", "WEA-17")
def test_a_kept_signal_is_taken_in_the_same_transaction() -> None:
    kept = KeptSignal(
        id="signal-1", name="ready", correlation=None, digest="sha256:0", accepted_at=NOW - 1
    )
    other = replace(kept, id="signal-0", correlation="elsewhere")
    asked = signal(payloads={SIGNALS + "ready": (other, kept), SIGNAL + "signal-1": {"ok": 1}})
    answer = rearmed(asked)
    assert answer.taken
    assert [taken.signal_id for taken in answer.plan.signals] == ["signal-1"]
    assert answer.plan.leaves[0].after.state is LeafState.SUCCEEDED
    unloaded = signal(payloads={})
    assert rearm(unloaded) == Missing(frozenset({SIGNALS + "ready"}))


@pytest.mark.rule("REA-1")
def test_only_a_signal_or_a_timer_is_armed_again() -> None:
    refusal = refused(rearm(poll(waits=[wait(WaitKind.SIGNAL)])))
    assert (refusal.code, refusal.rule) == ("WAIT_NOT_REARMABLE", "REA-1")
    refusal = refused(continue_(signal()))
    assert (refusal.code, refusal.rule) == ("POLL_NOT_PENDING", "CPO-1")


@pytest.mark.rule("REA-1", "PUL-15")
def test_a_clock_that_steps_back_gives_a_wait_no_time() -> None:
    asked = signal(at={"journal_at": NOW + 99 * SECOND})
    assert refused(rearm(asked)).code == "DEADLINE_PASSED"
