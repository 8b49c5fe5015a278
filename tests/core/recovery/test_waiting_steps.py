"""The other commands on polls, signals, timers, choices and maps (RES-2, RET-9, CON-1, REC-15)."""

from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import SettledBy, TaskState
from pulseweave.core.recovery import continue_instance, resolve_step, retry_step, review_task
from pulseweave.core.recovery.facts import Missing, RecoveryFacts
from pulseweave.core.recovery.operations import items
from pulseweave.core.recovery.retry_step import StepRetried
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import (
    InstanceState,
    LeafKind,
    LeafState,
    ScopeKind,
    WaitKind,
    WaitState,
)
from pulseweave.core.weave.values import SIGNALS
from pulseweave.kernel.errors import Rejected
from tests.core.recovery.scenes import VERIFIED_FAILED, code_of, refused
from tests.core.recovery.test_waiting_commands import POLL, Waiting, poll, signal, timer, wait
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import (
    IN_REVIEW,
    NOW,
    SECOND,
    SUCCEEDED,
    history,
    ids,
    instance,
    known,
    leaf,
    settled,
)

NOTHING_KEPT: dict[str, object] = {SIGNALS + "ready": ()}


def resolve(asked: Waiting) -> InstancePlan | Rejected:
    return resolve_step.decide(
        asked.build(),
        asked.resolve_step(),
        now=asked.now,
        new_id=ids(),
        actor="someone",
        operation_id="operation-1",
    )


# --- ResolveStep ----------------------------------------------------------------------------------


@pytest.mark.rule("RES-2")
@pytest.mark.parametrize(
    ("result", "told"),
    [
        ('{"status":"READY"}', None),
        ('{"status":"WAIT"}', "PENDING"),
        ('{"status":"BAD"}', "FAILED"),
        ('{"status":"?"}', "nothing"),
    ],
)
def test_a_polls_conclusion_is_what_its_mapping_makes_succeeded(
    result: str, told: str | None
) -> None:
    answer = resolve(poll(command={"result": result}))
    if told is None:
        assert isinstance(answer, InstancePlan), answer
        assert answer.leaves[0].after.round == 2, "rounds used stay used"
        return
    refusal = refused(answer)
    assert (refusal.code, refusal.rule) == ("CLASSIFICATION_MISMATCH", "RES-2")
    assert f"makes {told} of" in refusal.message


@pytest.mark.rule("RES-2", "PUL-15")
@pytest.mark.parametrize(
    ("result", "facts", "code"),
    [
        ("null", {"now": NOW + 9 * SECOND}, None),
        ("null", {"now": NOW + 9 * SECOND - 1}, "TIMER_NOT_DUE"),
        ("null", {"at": {"journal_at": NOW + 9 * SECOND}}, None),
        ("null", {"now": NOW + 9 * SECOND, "waits": []}, "TIMER_NOT_DUE"),
        ("1", {"now": NOW + 9 * SECOND}, "INVALID_COMMAND"),
    ],
)
def test_a_timer_succeeds_with_null_when_its_time_has_come(
    result: str, facts: dict[str, Any], code: str | None
) -> None:
    assert code_of(resolve(timer(command={"result": result}, **facts))) == code


@pytest.mark.rule("RES-3")
def test_a_conclusion_closes_the_steps_waits() -> None:
    asked = signal(waits=[])
    facts = asked.build()
    armed = replace(wait(WaitKind.SIGNAL), state=WaitState.ARMED)
    facts = replace(facts, base=replace(facts.base, waits={armed.id: armed}))
    plan = resolve_step.decide(
        facts, asked.resolve_step(), now=NOW, new_id=ids(), actor="x", operation_id="o"
    )
    assert isinstance(plan, InstancePlan)
    assert [change.after.armed for change in plan.waits] == [False]


# --- ReviewTask -----------------------------------------------------------------------------------


@pytest.mark.rule("REV-1", "REV-3")
def test_a_query_of_an_earlier_round_may_be_reviewed() -> None:
    asked = poll(phase=IN_REVIEW)
    facts = asked.build()
    assert code_of(review_task.applies(facts, asked.review_task())) is None
    earlier = replace(facts.queries[0], task_id="task-charge-0", round=1)
    old = history(
        leaf(LeafState.NEEDS_REVIEW, kind=LeafKind.POLL, round=1, task_id="task-charge-0"),
        IN_REVIEW,
    )
    facts = replace(
        facts,
        queries=(earlier, *facts.queries),
        histories={**facts.histories, old.task.id: old},
    )
    asked.command = {"task_id": "task-charge-0"}
    assert code_of(review_task.applies(facts, asked.review_task())) is None
    asked.command = {"task_id": "task-nobody"}
    assert code_of(review_task.applies(facts, asked.review_task())) == "NOT_OWNED"


# --- RetryStep ------------------------------------------------------------------------------------


def first_round(**more: Any) -> Waiting:
    """The query of the first round failed; attempts are left."""
    plain: dict[str, Any] = {
        "document": {**POLL, "max_attempts": 3},
        "phase": VERIFIED_FAILED,
        "answer": None,
        "leaf": {"round": 1},
    }
    return poll(**{**plain, **more})


def retry(asked: Waiting, facts: RecoveryFacts | None = None) -> StepRetried | Rejected | Missing:
    known_facts = facts or asked.build()
    if asked.kind is LeafKind.POLL and facts is None:
        first = replace(known_facts.queries[0], round=1)
        known_facts = replace(known_facts, queries=(first,))
    return retry_step.decide(
        known_facts, asked.retry_step(), now=asked.now, new_id=ids(), actor="someone"
    )


#: Queries are idempotent unless their definition says something else (WEA-9).
QUERY = {"effect": Effect.IDEMPOTENT}


@pytest.mark.rule("RET-9", "RET-6")
def test_a_retried_query_stays_in_its_round_and_listens_again() -> None:
    asked = first_round(
        task=dict(QUERY), waits=[wait(WaitKind.SIGNAL)], payloads=dict(NOTHING_KEPT)
    )
    answer = retry(asked)
    assert isinstance(answer, StepRetried), answer
    new = next(change.after for change in answer.plan.leaves if change.before is None)
    assert (new.kind, new.round, new.sequence) == (LeafKind.POLL, 1, 2)
    (query,) = answer.plan.queries
    assert (query.after.round, query.after.task_id) == (1, answer.created.task.id)
    (again,) = answer.plan.waits
    assert (again.after.kind, again.after.generation, again.after.deadline_at) == (
        WaitKind.SIGNAL,
        2,
        NOW + 99 * SECOND,
    )
    assert retry(replace(asked, payloads={})) == Missing(frozenset({SIGNALS + "ready"}))


@pytest.mark.rule("RET-9")
def test_a_final_signal_whose_time_is_up_is_not_waited_for_again() -> None:
    over = wait(WaitKind.SIGNAL, deadline_at=NOW)
    answer = retry(first_round(task=dict(QUERY), waits=[over]))
    assert isinstance(answer, StepRetried), answer
    assert answer.plan.waits == ()


@pytest.mark.rule("RET-9")
def test_a_round_that_was_answered_pending_is_not_asked_again() -> None:
    refusal = refused(retry(poll(task=dict(QUERY))))
    assert (refusal.code, refusal.rule) == ("ROUND_PENDING", "RET-9")


@pytest.mark.rule("RET-2")
def test_rounds_follow_one_another() -> None:
    asked = first_round(task=dict(QUERY), leaf={"round": 2})
    answer = refused(retry(asked, asked.build()))
    assert (answer.code, answer.rule) == ("INTEGRITY_MISMATCH", "RET-2")
    assert "rounds" in answer.message


@pytest.mark.rule("RET-1", "RET-2")
def test_what_only_waits_has_nothing_to_repeat() -> None:
    assert refused(retry(signal())).code == "STEP_NOT_RETRYABLE"
    assert refused(retry(timer())).code == "STEP_NOT_RETRYABLE"
    asked = signal(leaf={"task_id": "task-charge-1"})
    facts = asked.build()
    step = facts.base.leaves["charge"]
    definition = compiled(asked.document, task("ship"))  # so that the queue is one of its own
    told = history(step, VERIFIED_FAILED)
    facts = replace(
        facts,
        base=replace(facts.base, definition=definition),
        histories={told.task.id: told},
    )
    answer = refused(retry(asked, facts))
    assert (answer.code, "doesn't tell of" in answer.message) == ("INTEGRITY_MISMATCH", True)


# --- what is told ---------------------------------------------------------------------------------


@pytest.mark.rule("REC-15")
def test_a_poll_or_a_wait_in_review_is_told_what_applies() -> None:
    def told(asked: Waiting) -> dict[str, str | None]:
        (item,) = items(asked.build(), now=NOW)
        return {o.operation: code_of(o.refusal) for o in item.operations}

    assert told(poll()) == {
        "REVIEW_TASK": "TASK_NOT_IN_REVIEW",
        "RESOLVE_STEP": None,
        "RETRY_STEP": "ROUND_PENDING",
        "CONTINUE_POLL": None,
        "CONTINUE": "UNRESOLVED_STEPS",
    }
    waiting = {
        "RESOLVE_STEP": None,
        "RETRY_STEP": "STEP_NOT_RETRYABLE",
        "REARM_WAIT": None,
        "CONTINUE": "UNRESOLVED_STEPS",
    }
    assert told(signal()) == waiting
    assert told(timer()) == waiting
    (item,) = items(poll().build(), now=NOW)
    (ready,) = (o for o in item.operations if o.operation == "CONTINUE_POLL")
    assert ready.to_fill == ("reason", "evidence_ref", "pending_confirmed")
    assert ready.command["activation_id"] == "charge-1"


# --- the graph ------------------------------------------------------------------------------------


def scope(key: str, kind: ScopeKind, **facts: Any) -> ScopeState:
    plain: dict[str, Any] = {
        "id": f"scope-{key}",
        "namespace": "acme",
        "instance_id": "instance-1",
        "scope_key": key,
        "node_key": key,
        "within": "",
        "kind": kind,
        "entered_at": NOW - 9,
    }
    return ScopeState(**{**plain, **facts})


def go_on(definition: Definition, scopes: list[ScopeState], *done: str) -> InstancePlan | Rejected:
    """Continue, with these leaves done: ``charge[0]`` is a leaf in a map."""
    leaves = [leaf(LeafState.SUCCEEDED, step_key=key, node_key=key.split("[")[0]) for key in done]
    facts = known(
        instance(InstanceState.NEEDS_REVIEW),
        definition,
        leaves,
        [history(step, settled(TaskState.SUCCEEDED, SettledBy.ATTEMPT)) for step in leaves],
    )
    facts = replace(
        facts, base=replace(facts.base, scopes={known.scope_key: known for known in scopes})
    )
    return continue_instance.decide(facts, poll().go_on(), now=NOW, new_id=ids(), actor="someone")


@pytest.mark.rule("CON-1")
def test_a_choice_leads_on_over_the_branch_that_it_took() -> None:
    cases = [
        {"when": "${ input.a }", "steps": [task("one")]},
        {"when": "${ input.b }", "steps": [task("two")]},
    ]
    definition = compiled({"choice": "route", "cases": cases, "else": []}, task("last"))
    first = scope("route", ScopeKind.CHOICE, taken=0)
    assert code_of(go_on(definition, [first], "one", "last")) is None
    assert code_of(go_on(definition, [first], "one")) is None
    assert code_of(go_on(definition, [first], "two")) == "INTEGRITY_MISMATCH"
    assert code_of(go_on(definition, [first], "last")) == "INTEGRITY_MISMATCH"
    assert code_of(go_on(definition, [], "one")) == "INTEGRITY_MISMATCH"
    assert code_of(go_on(definition, [])) is None
    nothing = scope("route", ScopeKind.CHOICE, taken=2)
    assert code_of(go_on(definition, [nothing], "last")) is None


@pytest.mark.rule("CON-1")
def test_a_map_leads_on_when_every_item_was_entered_and_is_done() -> None:
    document = {"map": "all", "items": "${input}", "steps": [task("one")]}
    definition = compiled(document, task("last"))
    whole = scope("all", ScopeKind.MAP, count=2, entered=2)
    both = ("one[0]", "one[1]")
    assert code_of(go_on(definition, [whole], *both, "last")) is None
    assert code_of(go_on(definition, [whole], *both)) is None
    assert code_of(go_on(definition, [whole], "one[0]", "last")) == "INTEGRITY_MISMATCH"
    begun = scope("all", ScopeKind.MAP, count=3, entered=2, open=(1,))
    assert code_of(go_on(definition, [begun], *both)) is None
    assert code_of(go_on(definition, [begun], *both, "last")) == "INTEGRITY_MISMATCH"
    assert code_of(go_on(definition, [], "one[0]")) == "INTEGRITY_MISMATCH"


@pytest.mark.rule("CON-1", "WEA-19")
def test_a_poll_between_rounds_waits_on_while_its_wait_is_armed() -> None:
    for state, code in ((WaitState.ARMED, None), (WaitState.CLOSED, "INTEGRITY_MISMATCH")):
        waits = [wait(WaitKind.ROUND, state=state)]
        asked = poll(step=LeafState.ACTIVE, phase=SUCCEEDED, waits=waits)
        answer = continue_instance.applies(asked.build(), asked.go_on(), now=NOW)
        assert code_of(answer) == code


@pytest.mark.rule("CON-1", "WEA-11")
def test_a_timer_that_runs_beside_a_review_runs_on_while_it_is_armed() -> None:
    for state, code in ((WaitState.ARMED, None), (WaitState.CLOSED, "INTEGRITY_MISMATCH")):
        asked = timer(step=LeafState.ACTIVE, waits=[wait(WaitKind.TIMER, state=state)])
        answer = continue_instance.applies(asked.build(), asked.go_on(), now=NOW)
        assert code_of(answer) == code
