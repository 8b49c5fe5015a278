"""Choices, maps, timers and signals as one decision sees them (WEA-2, WEA-10, WEA-11)."""

from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.draft import Draft, InstanceFacts
from pulseweave.core.weave.due import collect_due
from pulseweave.core.weave.leaf import OutputRef
from pulseweave.core.weave.place import item_of, key_at, path_of
from pulseweave.core.weave.signal import deliver, refuse_payload, signal_names
from pulseweave.core.weave.states import (
    InstanceState,
    LeafState,
    OutputSource,
    ReviewCause,
    ScopeKind,
    StopKind,
    WaitState,
)
from pulseweave.core.weave.values import ITEMS, SIGNALS
from pulseweave.core.weave.wait import KeptSignal
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.check import InvariantViolation
from pulseweave.kernel.instant import format_at
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.facts import CANCEL, NOW, SECOND, draft, ids, instance

ROUTE: dict[str, Any] = {
    "choice": "route",
    "cases": [
        {"when": "${ input.n > 100 }", "steps": [task("large")]},
        {"when": "${ input.n > 10 }", "steps": [task("medium")]},
    ],
}
EACH: dict[str, Any] = {
    "map": "all",
    "items": "${input}",
    "max_concurrency": 2,
    "steps": [task("one", input={"n": "${item}", "i": "${item_index}"})],
}


def advanced(value: object, *steps: object, **payloads: object) -> Draft:
    at = draft(instance(), compiled(*steps), payloads={"": value, **payloads})
    advance(at)
    return at


def finish_step(at: Draft, step_key: str, output: object = None) -> None:
    """A step succeeds, in the same decision."""
    text = canonical.encode(output)
    ref = OutputRef(source=OutputSource.TASK, id="t", digest=canonical.digest(text))
    step = replace(at.leaves[step_key], state=LeafState.SUCCEEDED, output=ref, settled_at=NOW)
    at.set_leaf(step)
    at.payloads = {**at.payloads, step_key: output}
    advance(at)


def stopped_with(at: Draft) -> tuple[str, str]:
    stop = at.instance.stop
    assert stop is not None
    assert stop.kind is StopKind.FAIL
    error = canonical.parse(stop.error)
    return error["code"], error["step"]


# --- choices --------------------------------------------------------------------------------------


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(("n", "taken", "step"), [(500, 0, "large"), (50, 1, "medium")])
def test_a_choice_takes_the_first_case_that_holds_and_keeps_it(
    n: int, taken: int, step: str
) -> None:
    at = advanced({"n": n}, ROUTE, task("last", input="${steps.route.output}"))
    chosen = at.scopes["route"]
    assert (chosen.kind, chosen.taken, chosen.done) == (ScopeKind.CHOICE, taken, True)
    assert set(at.leaves) == {step}
    at.payloads = {**at.payloads, "": {"n": 1}}  # it is never evaluated again
    finish_step(at, step, {"did": step})
    assert at.scopes["route"].taken == taken
    assert at.tasks[-1].spec.input == canonical.encode({"did": step})


@pytest.mark.rule("WEA-2")
def test_an_empty_else_leads_on() -> None:
    at = advanced({"n": 1}, {**ROUTE, "else": []}, task("last", input="${steps.route.output}"))
    assert set(at.leaves) == {"last"}
    assert at.tasks[0].spec.input == "null"


@pytest.mark.rule("WEA-20")
@pytest.mark.parametrize(
    ("value", "cases", "code"),
    [
        ({"n": 1}, ROUTE["cases"], "NO_CASE_HOLDS"),
        ({}, ROUTE["cases"], "EXPRESSION_ERROR"),
        ({"n": 1}, [{"when": "${ input.n }", "steps": [task("large")]}], "EXPRESSION_ERROR"),
    ],
)
def test_a_choice_that_fails_stops_the_instance(value: object, cases: Any, code: str) -> None:
    at = advanced(value, {"choice": "route", "cases": cases})
    assert stopped_with(at) == (code, "route")
    assert (at.leaves, at.scopes) == ({}, {})


# --- maps -----------------------------------------------------------------------------------------


@pytest.mark.rule("WEA-2", "PUL-16")
def test_a_map_sets_to_work_as_many_items_as_it_may_and_the_next_when_one_is_done() -> None:
    at = advanced([5, 6, 7], EACH, task("last", input="${steps.all.output}"))
    assert set(at.leaves) == {"one[0]", "one[1]"}
    assert [created.spec.input for created in at.tasks] == ['{"i":0,"n":5}', '{"i":1,"n":6}']
    scope = at.scopes["all"]
    assert (scope.count, scope.entered, scope.open, scope.done) == (3, 2, (0, 1), False)
    assert scope.open_items == ["all[0]", "all[1]"]
    assert at.leaves["one[1]"].within == "all[1]"
    assert at.keep == {f"{ITEMS}all/0": "[5,6,7]"}
    finish_step(at, "one[1]", "b")
    assert (at.scopes["all"].open, set(at.leaves)) == ((0, 2), {"one[0]", "one[1]", "one[2]"})
    finish_step(at, "one[0]", "a")
    assert at.scopes["all"].open == (2,)
    assert "last" not in at.leaves
    finish_step(at, "one[2]", "c")
    assert at.scopes["all"].done
    assert at.tasks[-1].spec.input == '["a","b","c"]', "in the order of the items"


@pytest.mark.rule("WEA-2")
def test_a_map_of_nothing_is_done_at_once() -> None:
    at = advanced([], EACH, task("last", input="${steps.all.output}"))
    assert set(at.leaves) == {"last"}
    assert at.tasks[0].spec.input == "[]"


@pytest.mark.rule("WEA-2", "WEA-20")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"n": 1}, "EXPRESSION_ERROR"),
        ([0] * (limits.MAP_ITEMS_MAX + 1), "INPUT_CONTRACT"),
    ],
)
def test_a_map_that_fails_stops_the_instance(value: object, code: str) -> None:
    at = advanced(value, EACH)
    assert stopped_with(at) == (code, "all")


@pytest.mark.rule("WEA-2")
def test_a_leaf_in_nested_maps_has_the_indexes_of_both() -> None:
    inner = {"map": "inner", "as": "cell", "items": "${row}", "steps": [task("one")]}
    at = advanced(
        [[1], [2, 3]], {"map": "outer", "as": "row", "items": "${input}", "steps": [inner]}
    )
    assert set(at.leaves) == {"one[0][0]", "one[1][0]", "one[1][1]"}
    assert {scope.scope_key for scope in at.scopes.values()} == {"outer", "inner[0]", "inner[1]"}
    assert at.scopes["inner[1]"].within == "outer[1]"
    assert path_of("one[1][0]") == (1, 0)
    assert (key_at("one", (1, 0)), path_of("one"), item_of("outer", 1)) == (
        "one[1][0]",
        (),
        "outer[1]",
    )


@pytest.mark.rule("WEA-2")
def test_a_scope_that_can_not_be_is_never_written() -> None:
    at = advanced([5, 6, 7], EACH)
    whole = at.scopes["all"].check()
    for change in ({"taken": 1}, {"entered": 4}, {"open": (2,)}, {"kind": ScopeKind.CHOICE}):
        with pytest.raises(InvariantViolation):
            replace(whole, **change).check()


# --- timers ---------------------------------------------------------------------------------------


@pytest.mark.rule("WEA-11")
@pytest.mark.parametrize(
    ("fields", "due_at"),
    [
        ({"for": "90s"}, NOW + 90 * SECOND),
        ({"until": "${input.at}"}, NOW + 5 * SECOND),
        ({"until": "${input.past}"}, None),
    ],
)
def test_a_timer_waits_for_its_time_and_gives_null(
    fields: dict[str, str], due_at: int | None
) -> None:
    value = {"at": format_at(NOW + 5 * SECOND), "past": "2020-01-01T00:00:00Z"}
    at = advanced(value, {"timer": "nap", **fields}, task("then", input="${steps.nap.output}"))
    (wait,) = at.waits.values()
    if due_at is not None:
        assert (wait.due_at, wait.armed, set(at.leaves)) == (due_at, True, {"nap"})
        at.now = due_at - 1
        collect_due(at)
        assert at.leaves["nap"].state is LeafState.ACTIVE, "never early"
        at.now = due_at
        collect_due(at)
        advance(at)
        (wait,) = at.waits.values()
    assert wait.state is WaitState.FIRED
    assert at.leaves["nap"].output == OutputRef(
        source=OutputSource.NULL, id=at.leaves["nap"].id, digest=canonical.digest("null")
    )
    assert at.tasks[0].spec.input == "null"


@pytest.mark.rule("WEA-20", "WEA-11")
def test_what_is_no_instant_fails_the_timer() -> None:
    for told in ("tomorrow", 17):
        at = advanced({"at": told}, {"timer": "nap", "until": "${input.at}"})
        assert at.leaves["nap"].state is LeafState.FAILED
        assert at.waits == {}


@pytest.mark.rule("WEA-16", "WEA-11")
@pytest.mark.parametrize(
    ("state", "fires"),
    [
        (InstanceState.RUNNING, True),
        (InstanceState.NEEDS_REVIEW, True),
        (InstanceState.CANCELLING, False),
    ],
)
def test_due_times_are_collected_in_review_but_not_while_stopping(
    state: InstanceState, *, fires: bool
) -> None:
    at = advanced({}, {"timer": "nap", "for": "1s"})
    stop = CANCEL if state is InstanceState.CANCELLING else None
    at.instance = instance(state, stop=stop)
    at.now += SECOND
    collect_due(at)
    expected = LeafState.SUCCEEDED if fires else LeafState.ACTIVE
    assert at.leaves["nap"].state is expected


# --- signals --------------------------------------------------------------------------------------

CONTRACT = {"type": "object", "required": ["by"]}
WAIT: dict[str, Any] = {"signal": "paid", "name": "paid", "timeout": "1h", "output": CONTRACT}
TOLD = KeptSignal(id="s-1", name="paid", correlation=None, digest="sha256:0", accepted_at=NOW)


def waiting(**more: Any) -> Draft:
    return advanced({"order": "o-1"}, {**WAIT, **more}, task("last"), **{SIGNALS + "paid": ()})


@pytest.mark.rule("WEA-10")
@pytest.mark.parametrize(
    ("correlation", "signal", "taken"),
    [
        (None, TOLD, True),
        (None, replace(TOLD, correlation="o-1"), False),
        ("${input.order}", replace(TOLD, correlation="o-1"), True),
        ("${input.order}", TOLD, False),
        (None, replace(TOLD, name="other"), False),
        (None, replace(TOLD, accepted_at=NOW + 3600 * SECOND), False),
    ],
)
def test_a_signal_goes_to_the_wait_of_its_name_and_correlation(
    correlation: str | None, signal: KeptSignal, *, taken: bool
) -> None:
    at = waiting(**({} if correlation is None else {"correlation": correlation}))
    assert deliver(at, signal, {"by": "card"}) is taken
    assert (at.leaves["paid"].state is LeafState.SUCCEEDED) is taken
    assert at.taken_signals() == ({"s-1"} if taken else set())


@pytest.mark.rule("WEA-7", "WEA-10")
def test_a_signal_that_breaks_this_steps_contract_is_consumed_and_reviewed() -> None:
    at = waiting()
    assert deliver(at, TOLD, "cash")
    step = at.leaves["paid"]
    assert (step.state, step.review_cause) == (LeafState.NEEDS_REVIEW, ReviewCause.OUTPUT_CONTRACT)
    assert at.taken_signals() == {"s-1"}


@pytest.mark.rule("WEA-10")
@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ("fail", InstanceState.CANCELLING),
        ("review", InstanceState.NEEDS_REVIEW),
        ("ignore", InstanceState.RUNNING),
    ],
)
def test_a_wait_times_out_at_its_deadline(policy: str, state: InstanceState) -> None:
    at = waiting(on_timeout=policy)
    at.now += 3600 * SECOND - 1
    collect_due(at)
    assert at.leaves["paid"].state is LeafState.ACTIVE
    at.now += 1
    collect_due(at)
    (wait,) = at.waits.values()
    assert (wait.state, at.instance.state) == (WaitState.TIMED_OUT, state)


@pytest.mark.rule("WEA-10")
def test_what_meets_no_contract_of_that_name_is_refused_at_the_door() -> None:
    definition = compiled(WAIT)
    assert signal_names(definition) == {"paid"}
    assert refuse_payload(definition, "paid", {"by": "card"}) is None
    assert refuse_payload(compiled({**WAIT, "output": {}}), "paid", 1) is None
    broken = refuse_payload(definition, "paid", {})
    assert broken is not None
    assert broken.detail["problems"][0]["pointer"] == "/payload"
    unknown = refuse_payload(definition, "sent", {})
    assert unknown is not None
    assert (unknown.detail["pointer"], unknown.detail["signals"]) == ("/name", ["paid"])


@pytest.mark.rule("WEA-10")
def test_a_polls_final_signal_is_one_that_its_definition_waits_for() -> None:
    asked = {
        "poll": "ask",
        "queue": "work",
        "handler": "ask",
        "interval": "1s",
        "max_rounds": 2,
        "mapping": {"path": "/s", "pending": [1], "succeeded": [2]},
    }
    assert signal_names(compiled({**asked, "final_signal": {"name": "ready"}})) == {"ready"}
    assert signal_names(compiled(asked)) == frozenset()
    final = compiled({**asked, "final_signal": {"name": "ready"}})
    assert refuse_payload(final, "ready", 1) is None


# --- across decisions -----------------------------------------------------------------------------


def next_decision(at: Draft, **payloads: object) -> Draft:
    """The plan is written, and the next decision begins from its rows."""
    plan = at.finish(actor="engine", cause="TEST")
    known = InstanceFacts(
        definition=at.definition,
        instance=plan.after,
        leaves=dict(at.leaves),
        waits={wait.id: wait for wait in at.waits.values() if wait.armed},
        scopes=dict(at.scopes),
        payloads={**at.payloads, **payloads},
    )
    return Draft(known, now=at.now, new_id=ids("later"))


@pytest.mark.rule("WEA-4", "WEA-2")
def test_a_decision_that_moves_a_map_tells_so_and_one_that_does_not_is_silent() -> None:
    at = next_decision(advanced([5, 6, 7], EACH, {"timer": "nap", "for": "1h"}))
    advance(at)
    assert at.finish(actor="engine", cause="TEST").journal is None
    finish_step(at, "one[0]", "a")
    plan = at.finish(actor="engine", cause="AGAIN")
    (change,) = plan.scopes
    assert change.before is not None
    assert (change.after.revision, change.after.open) == (change.before.revision + 1, (1, 2))
    assert plan.journal is not None
    told = [c for c in canonical.parse(plan.journal.changes) if c["row"] == "scope"]
    assert told[0]["set"] == {"entered": 3, "open": [1, 2], "revision": 2}


@pytest.mark.rule("WEA-2")
def test_items_that_have_nothing_to_do_are_done_at_once() -> None:
    body = {"choice": "pick", "cases": [{"when": "${ n > 1 }", "steps": [task("one")]}], "else": []}
    at = advanced([0, 5, 0], {"map": "all", "as": "n", "items": "${input}", "steps": [body]})
    assert set(at.leaves) == {"one[1]"}
    scope = at.scopes["all"]
    assert (scope.entered, scope.open) == (3, (1,))


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(
    "behind",
    [
        {"choice": "c", "cases": [{"when": "${ steps.a.output }", "steps": [task("b")]}]},
        {"map": "m", "items": "${ steps.a.output }", "steps": [task("b")]},
    ],
)
def test_what_a_choice_or_map_reads_is_asked_for(behind: dict[str, Any]) -> None:
    at = advanced({}, task("a"), behind)
    finish_step(at, "a", True)
    at = advanced({}, task("a"), behind)
    step = replace(
        at.leaves["a"],
        state=LeafState.SUCCEEDED,
        output=OutputRef(source=OutputSource.TASK, id="t", digest=canonical.digest("true")),
    )
    at.set_leaf(step)
    advance(at)
    assert (at.missing, at.scopes) == ({"a"}, {})
