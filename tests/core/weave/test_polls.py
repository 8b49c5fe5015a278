"""Polls as one decision sees them: rounds, limits, mappings and final signals (WEA-9)."""

from typing import Any

import pytest

from pulseweave.core.pulse.task import EventKind, TaskState
from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.due import collect_due
from pulseweave.core.weave.inbox import Delivery, consume
from pulseweave.core.weave.signal import deliver
from pulseweave.core.weave.states import (
    CloseReason,
    Disposition,
    InstanceState,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
    WaitKind,
)
from pulseweave.core.weave.values import SIGNAL, SIGNALS
from pulseweave.core.weave.wait import KeptSignal
from pulseweave.kernel import canonical
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import NOW, SECOND, draft, instance
from tests.core.weave.test_inbox import event, facts, state_told

BY_VALUE = {"path": "/status", "pending": ["WAIT"], "succeeded": ["READY"], "failed": ["BAD"]}
BY_CONDITION = {
    "pending": "${ result.status == 'WAIT' }",
    "succeeded": "${ result.status == 'READY' }",
    "failed": "${ result.status == 'BAD' }",
}
FINAL: dict[str, Any] = {"final_signal": {"name": "ready"}}


def polled(*, kept: tuple[KeptSignal, ...] = (), value: object = None, **more: Any) -> Draft:
    """A poll has begun; what follows it reads its output."""
    document = {
        "poll": "ask",
        "queue": "work",
        "handler": "ask",
        "interval": "10s",
        "max_rounds": 2,
        "mapping": BY_VALUE,
        **more,
    }
    payloads: dict[str, object] = {"": {}, SIGNALS + "ready": kept}
    payloads |= {SIGNAL + signal.id: value for signal in kept}
    definition = compiled(document, task("then", input="${steps.ask.output}"))
    at = draft(instance(), definition, payloads=payloads)
    advance(at)
    return at


def tell(polling: Draft, kind: EventKind, told: object = None, **fields: Any) -> Disposition | None:
    """The query of the present round told this."""
    leaf = polling.leaves["ask"]
    known = facts(state_told(kind), leaf, result=None if told is None else canonical.encode(told))
    query = polling.queries.get(leaf.task_id or "")
    happened = event(kind, leaf, **fields)
    delivery = Delivery(
        events=(happened,),
        tasks={happened.task_id: known},
        historical={},
        queries={query.after.task_id: query.after} if query is not None else {},
    )
    return consume(polling, happened, delivery).disposition


def answered(at: Draft, status: object, **fields: Any) -> None:
    assert tell(at, EventKind.SUCCEEDED, {"status": status}, **fields) is Disposition.APPLIED


def classified(at: Draft) -> Classification | None:
    return list(at.queries.values())[-1].after.classification


@pytest.mark.rule("WEA-9")
@pytest.mark.parametrize("mapping", [BY_VALUE, BY_CONDITION])
def test_a_poll_asks_again_an_interval_after_a_pending_answer(mapping: Any) -> None:
    at = polled(mapping=mapping)
    first = at.leaves["ask"]
    assert (first.round, len(at.tasks)) == (1, 1)
    answered(at, "WAIT")
    assert classified(at) is Classification.PENDING
    (wait,) = at.armed()
    assert (wait.kind, wait.due_at) == (WaitKind.ROUND, NOW + 10 * SECOND)
    assert at.leaves["ask"].between_rounds
    at.now += 10 * SECOND - 1
    advance(at)
    assert len(at.tasks) == 1
    at.now += 1
    collect_due(at)
    advance(at)
    second = at.leaves["ask"]
    assert (second.id, second.round, len(at.tasks)) == (first.id, 2, 2)
    assert at.tasks[0].spec.input == at.tasks[1].spec.input
    answered(at, "READY")
    assert at.leaves["ask"].state is LeafState.SUCCEEDED
    assert at.tasks[-1].spec.input == '{"status":"READY"}'


@pytest.mark.rule("WEA-9")
def test_a_round_is_not_asked_before_what_it_reads_is_loaded() -> None:
    at = polled()
    answered(at, "WAIT")
    at.now += 10 * SECOND
    at.payloads = {}
    advance(at)
    assert (at.missing, at.leaves["ask"].round, len(at.tasks)) == ({""}, 1, 1)


@pytest.mark.rule("WEA-9", "WEA-8")
def test_an_answer_that_means_failed_fails_the_step_with_it() -> None:
    at = polled()
    answered(at, "BAD")
    assert at.leaves["ask"].state is LeafState.FAILED
    error = canonical.parse(at.leaves["ask"].error or "")
    assert (error["code"], error["details"]) == ("POLL_FAILED", {"status": "BAD"})
    assert at.instance.stop is not None
    assert at.instance.stop.kind is StopKind.FAIL
    long = polled()
    assert tell(long, EventKind.SUCCEEDED, {"status": "BAD", "why": "x" * 100_000})
    assert "details" not in canonical.parse(long.leaves["ask"].error or "")


@pytest.mark.rule("WEA-7", "WEA-9")
@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        (BY_VALUE, {"status": "?"}),
        (BY_VALUE, {"other": 1}),
        (BY_VALUE, ["WAIT"]),
        (BY_CONDITION, {"status": "?"}),
        (BY_CONDITION, {"other": 1}),
        ({**BY_CONDITION, "failed": "${ result.status == 'WAIT' }"}, {"status": "WAIT"}),
        ({**BY_CONDITION, "failed": "${ result.status }"}, {"status": "?"}),
    ],
)
def test_an_answer_that_the_mapping_does_not_classify_needs_a_person(
    mapping: Any, told: object
) -> None:
    at = polled(mapping=mapping)
    tell(at, EventKind.SUCCEEDED, told)
    leaf = at.leaves["ask"]
    assert (leaf.state, leaf.review_cause) == (LeafState.NEEDS_REVIEW, ReviewCause.UNCLASSIFIED)
    assert classified(at) is None


@pytest.mark.rule("WEA-9")
def test_a_value_may_stand_in_an_array() -> None:
    at = polled(mapping={**BY_VALUE, "path": "/jobs/1"})
    tell(at, EventKind.SUCCEEDED, {"jobs": ["BAD", "READY"]})
    assert at.leaves["ask"].state is LeafState.SUCCEEDED


@pytest.mark.rule("WEA-7")
def test_a_final_answer_meets_the_steps_contract() -> None:
    at = polled(output={"type": "object", "required": ["id"]})
    answered(at, "READY")
    assert at.leaves["ask"].review_cause is ReviewCause.OUTPUT_CONTRACT


@pytest.mark.rule("WEA-7", "WEA-9")
@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"max_rounds": 1}, ReviewCause.ROUNDS_EXHAUSTED),
        ({"query_deadline": "10s"}, ReviewCause.QUERY_DEADLINE),
    ],
)
@pytest.mark.parametrize("policy", ["review", "fail"])
def test_classification_comes_first_and_limits_second(
    more: dict[str, Any], cause: ReviewCause, policy: str
) -> None:
    final = polled(on_exhausted=policy, **more)
    answered(final, "READY")
    assert final.leaves["ask"].state is LeafState.SUCCEEDED
    at = polled(on_exhausted=policy, **more)
    answered(at, "WAIT")
    leaf = at.leaves["ask"]
    if policy == "review":
        assert (leaf.state, leaf.review_cause) == (LeafState.NEEDS_REVIEW, cause)
    else:
        assert leaf.state is LeafState.FAILED
        assert canonical.parse(leaf.error or "")["code"] == cause.value


@pytest.mark.rule("WEA-7", "WEA-9")
def test_a_round_that_comes_due_past_the_query_deadline_is_not_asked() -> None:
    at = polled(query_deadline="11s")
    answered(at, "WAIT")
    at.now += 11 * SECOND
    advance(at)
    assert at.leaves["ask"].review_cause is ReviewCause.QUERY_DEADLINE
    assert len(at.tasks) == 1


@pytest.mark.rule("WEA-7")
@pytest.mark.parametrize(
    ("code", "after", "cause"),
    [
        ("DEADLINE_EXCEEDED", 11 * SECOND, ReviewCause.QUERY_DEADLINE),
        ("DEADLINE_EXCEEDED", 0, None),
        ("BAD", 11 * SECOND, None),
    ],
)
def test_a_query_that_could_not_be_asked_in_time_exhausts_the_poll(
    code: str, after: int, cause: ReviewCause | None
) -> None:
    at = polled(query_deadline="11s")
    tell(at, EventKind.FAILED, code=code, at=NOW + after)
    leaf = at.leaves["ask"]
    assert leaf.review_cause is cause
    assert (leaf.state is LeafState.FAILED) == (cause is None)


@pytest.mark.rule("WEA-12", "WEA-16")
def test_a_stop_ends_a_poll_that_would_ask_again() -> None:
    at = polled()
    at.set_stop(StopKind.CANCEL, {"code": "CANCELLED", "message": "because"})
    answered(at, "WAIT")
    assert at.leaves["ask"].state is LeafState.CANCELLED
    assert at.instance.state is InstanceState.CANCELLED


# --- final signals --------------------------------------------------------------------------------


def signal(number: int = 1) -> KeptSignal:
    return KeptSignal(
        id=f"s-{number}", name="ready", correlation=None, digest="sha256:0", accepted_at=NOW
    )


@pytest.mark.rule("WEA-9", "WEA-10")
@pytest.mark.parametrize(
    ("status", "state"),
    [("READY", LeafState.SUCCEEDED), ("BAD", LeafState.FAILED), ("?", LeafState.NEEDS_REVIEW)],
)
def test_a_final_signal_is_an_answer_and_the_query_is_superseded(
    status: str, state: LeafState
) -> None:
    at = polled(**FINAL)
    query = at.leaves["ask"].task_id
    assert deliver(at, signal(), {"status": status})
    assert at.leaves["ask"].state is state
    final = state is not LeafState.NEEDS_REVIEW
    assert at.cancelled == ({query} if final else set())
    assert at.instance.superseded == (1 if final else 0)
    plan = at.finish(actor="someone", cause="SIGNAL")
    assert plan.cancels(query or "") is final or plan.cancel_tasks
    assert plan.touches_tasks


@pytest.mark.rule("WEA-9", "WEA-15")
@pytest.mark.parametrize("kind", [EventKind.SUCCEEDED, EventKind.CANCELLED, EventKind.NEEDS_REVIEW])
def test_what_becomes_of_a_superseded_query_is_recorded_and_waited_for(kind: EventKind) -> None:
    at = polled(**FINAL)
    assert deliver(at, signal(), {"status": "READY"})
    told = {"status": "BAD"} if kind is EventKind.SUCCEEDED else None
    assert tell(at, kind, told) is Disposition.SUPERSEDED
    leaf = at.leaves["ask"]
    assert (leaf.state, leaf.task_state) == (LeafState.SUCCEEDED, TaskState(kind.value))
    assert leaf.output is not None
    assert leaf.output.source is OutputSource.SIGNAL
    unknown = kind is EventKind.NEEDS_REVIEW
    assert at.instance.superseded == (1 if unknown else 0)
    assert at.instance.state is (InstanceState.NEEDS_REVIEW if unknown else InstanceState.RUNNING)


@pytest.mark.rule("WEA-9")
def test_a_final_signal_between_rounds_supersedes_nothing() -> None:
    at = polled(**FINAL)
    answered(at, "WAIT")
    assert deliver(at, signal(), {"status": "READY"})
    assert (at.cancelled, at.instance.superseded) == (set(), 0)
    closed = {wait.kind: wait.reason for wait in at.waits.values() if not wait.armed}
    assert closed[WaitKind.ROUND] is CloseReason.SETTLED


@pytest.mark.rule("WEA-9", "WEA-10")
def test_a_signal_that_is_not_final_is_consumed_and_the_next_is_waited_for() -> None:
    at = polled(**FINAL)
    assert deliver(at, signal(), {"status": "WAIT"})
    (wait,) = at.armed()
    assert (wait.kind, wait.generation) == (WaitKind.SIGNAL, 2)
    assert deliver(at, signal(2), {"status": "READY"})
    assert at.leaves["ask"].state is LeafState.SUCCEEDED
    assert at.taken_signals() == {"s-1", "s-2"}


@pytest.mark.rule("WEA-9", "WEA-10")
def test_where_the_final_signal_came_before_nothing_is_asked() -> None:
    at = polled(kept=(signal(),), value={"status": "READY"}, **FINAL)
    assert at.leaves["ask"].state is LeafState.SUCCEEDED
    assert [created.spec.handler for created in at.tasks] == ["work.do"], "only what follows"
    pending = polled(kept=(signal(), signal(2)), value={"status": "WAIT"}, **FINAL)
    assert pending.taken_signals() == {"s-1", "s-2"}
    assert len(pending.tasks) == 1, "nothing final came: it is asked"


@pytest.mark.rule("WEA-9")
def test_a_final_signal_is_waited_for_no_longer_than_the_poll() -> None:
    at = polled(query_deadline="1h", **FINAL)
    (wait,) = at.armed()
    assert wait.deadline_at == NOW + 3600 * SECOND
    at.now = NOW + 3600 * SECOND
    collect_due(at)
    assert at.armed() == []
    assert at.leaves["ask"].state is LeafState.ACTIVE, "the poll ends by its own limits"
