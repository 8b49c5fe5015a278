"""Every way in which a definition can be wrong, with its code, pointer and line (WEA-1)."""

from typing import Any

import pytest

from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.core.weave.definition.problems import DefinitionInvalid, Problem, ProblemCode
from pulseweave.kernel import limits
from pulseweave.wire import sources
from tests.core.weave.definition.documents import document, problems_of, task

HEAD = "name: order\nversion: 1\n"
STEPS = HEAD + "steps:\n"
TASK = STEPS + "- task: charge\n  queue: work\n  handler: work.do\n"

#: text, then code, pointer and line of each problem, in order
CASES: list[tuple[str, str, list[tuple[str, str, int]]]] = [
    ("no name", "version: 1\nsteps: [{task: a, queue: q, handler: h}]", [("MISSING_FIELD", "", 1)]),
    (
        "name of the wrong type",
        "name: 5\nversion: 1\nsteps: [{task: a, queue: q, handler: h}]",
        [("BAD_TYPE", "/name", 1)],
    ),
    (
        "name with a blank",
        'name: "my order"\nversion: 1\nsteps: [{task: a, queue: q, handler: h}]',
        [("BAD_NAME", "/name", 1)],
    ),
    (
        "no version",
        "name: order\nsteps: [{task: a, queue: q, handler: h}]",
        [("MISSING_FIELD", "", 1)],
    ),
    (
        "version zero",
        "name: order\nversion: 0\nsteps: [{task: a, queue: q, handler: h}]",
        [("OUT_OF_BOUNDS", "/version", 2)],
    ),
    (
        "version as a text",
        'name: order\nversion: "1"\nsteps: [{task: a, queue: q, handler: h}]',
        [("BAD_TYPE", "/version", 2)],
    ),
    (
        "version null",
        "name: order\nversion:\nsteps: [{task: a, queue: q, handler: h}]",
        [("BAD_TYPE", "/version", 2)],
    ),
    (
        "version true",
        "name: order\nversion: true\nsteps: [{task: a, queue: q, handler: h}]",
        [("BAD_TYPE", "/version", 2)],
    ),
    ("no steps", HEAD, [("MISSING_FIELD", "", 1)]),
    ("empty steps", HEAD + "steps: []", [("OUT_OF_BOUNDS", "/steps", 3)]),
    ("steps as an object", HEAD + "steps: {}", [("BAD_TYPE", "/steps", 3)]),
    ("a step as a text", STEPS + "- charge", [("BAD_TYPE", "/steps/0", 4)]),
    ("an unknown field", "names: x\n" + TASK, [("UNKNOWN_FIELD", "/names", 1)]),
    ("an unknown field of a task", TASK + "  qeue: x", [("UNKNOWN_FIELD", "/steps/0/qeue", 7)]),
    (
        "an unknown field of backoff",
        TASK + "  backoff:\n    initial: 1s\n    maximum: 2s",
        [("UNKNOWN_FIELD", "/steps/0/backoff/maximum", 9)],
    ),
    ("description as a list", TASK + "description: []", [("BAD_TYPE", "/description", 7)]),
    ("an unknown kind", STEPS + "- tsak: charge\n  queue: q", [("UNKNOWN_KIND", "/steps/0", 4)]),
    ("no kind at all", STEPS + "- {}", [("UNKNOWN_KIND", "/steps/0", 4)]),
    (
        "two kinds",
        STEPS + "- task: a\n  sequence: b",
        [("AMBIGUOUS_KIND", "/steps/0", 4)],
    ),
    (
        "a key of the wrong form",
        STEPS + "- {task: 1st, queue: q, handler: h}",
        [("BAD_NAME", "/steps/0/task", 4)],
    ),
    (
        "a key with an expression",
        STEPS + "- {task: '${input.a}', queue: q, handler: h}",
        [("NOT_LITERAL", "/steps/0/task", 4)],
    ),
    (
        "a key twice",
        TASK + "- sequence: rest\n  steps:\n  - {task: charge, queue: q, handler: h}",
        [("DUPLICATE_KEY", "/steps/1/steps/0/task", 9)],
    ),
    (
        "a parallel with a task's key",
        TASK + "- parallel: charge\n  branches: {a: [{task: b, queue: q, handler: h}]}",
        [("DUPLICATE_KEY", "/steps/1/parallel", 7)],
    ),
    (
        "no queue and no handler",
        STEPS + "- task: charge",
        [("MISSING_FIELD", "/steps/0", 4), ("MISSING_FIELD", "/steps/0", 4)],
    ),
    (
        "a queue that isn't literal",
        STEPS + "- task: a\n  handler: h\n  queue: ${input.queue}",
        [("NOT_LITERAL", "/steps/0/queue", 6)],
    ),
    (
        "a handler that isn't literal",
        STEPS + "- task: a\n  queue: q\n  handler: do-${input.what}",
        [("NOT_LITERAL", "/steps/0/handler", 6)],
    ),
    (
        "a queue of the wrong form",
        STEPS + "- task: a\n  handler: h\n  queue: a/b",
        [("BAD_NAME", "/steps/0/queue", 6)],
    ),
    ("an unknown effect", TASK + "  effect: once", [("BAD_CHOICE", "/steps/0/effect", 7)]),
    ("an effect that is no text", TASK + "  effect: 1", [("BAD_CHOICE", "/steps/0/effect", 7)]),
    (
        "an unknown on_failure",
        TASK + "  on_failure: reviews",
        [("BAD_CHOICE", "/steps/0/on_failure", 7)],
    ),
    (
        "an unknown default on_failure",
        TASK + "on_failure: stop",
        [("BAD_CHOICE", "/on_failure", 7)],
    ),
    (
        "too many attempts",
        TASK + "  max_attempts: 101",
        [("OUT_OF_BOUNDS", "/steps/0/max_attempts", 7)],
    ),
    ("no attempts", TASK + "  max_attempts: 0", [("OUT_OF_BOUNDS", "/steps/0/max_attempts", 7)]),
    ("half an attempt", TASK + "  max_attempts: 1.5", [("BAD_TYPE", "/steps/0/max_attempts", 7)]),
    ("too urgent", TASK + "  priority: 101", [("OUT_OF_BOUNDS", "/steps/0/priority", 7)]),
    ("a bare number as lease", TASK + "  lease: 30", [("BAD_DURATION", "/steps/0/lease", 7)]),
    ("too short a lease", TASK + "  lease: 999ms", [("OUT_OF_BOUNDS", "/steps/0/lease", 7)]),
    ("too long a lease", TASK + "  lease: 25h", [("OUT_OF_BOUNDS", "/steps/0/lease", 7)]),
    ("no time at all", TASK + "  deadline: 0s", [("BAD_DURATION", "/steps/0/deadline", 7)]),
    ("a unit unknown", TASK + "  start_within: 1y", [("BAD_DURATION", "/steps/0/start_within", 7)]),
    ("an empty duration", TASK + "deadline: ''", [("BAD_DURATION", "/deadline", 7)]),
    ("backoff as a duration", TASK + "  backoff: 1s", [("BAD_TYPE", "/steps/0/backoff", 7)]),
    (
        "a factor below one",
        TASK + "  backoff: {factor: 0.5}",
        [("OUT_OF_BOUNDS", "/steps/0/backoff/factor", 7)],
    ),
    (
        "a factor as a text",
        TASK + "  backoff: {factor: '2'}",
        [("BAD_TYPE", "/steps/0/backoff/factor", 7)],
    ),
    (
        "too much jitter",
        TASK + "  backoff: {jitter: 1.01}",
        [("OUT_OF_BOUNDS", "/steps/0/backoff/jitter", 7)],
    ),
    (
        "a maximum below the first delay",
        TASK + "  backoff:\n    initial: 2s\n    max: 1s",
        [("OUT_OF_BOUNDS", "/steps/0/backoff/max", 9)],
    ),
    (
        "a first delay above the default maximum",
        TASK + "  backoff: {initial: 10m}",
        [("OUT_OF_BOUNDS", "/steps/0/backoff/initial", 7)],
    ),
    (
        "a concurrency key that is no text",
        TASK + "  concurrency_key: 5",
        [("BAD_TYPE", "/steps/0/concurrency_key", 7)],
    ),
    ("no branches", STEPS + "- parallel: p", [("MISSING_FIELD", "/steps/0", 4)]),
    (
        "empty branches",
        STEPS + "- parallel: p\n  branches: {}",
        [("OUT_OF_BOUNDS", "/steps/0/branches", 5)],
    ),
    (
        "branches as a list",
        STEPS + "- parallel: p\n  branches: []",
        [("BAD_TYPE", "/steps/0/branches", 5)],
    ),
    (
        "an empty branch",
        STEPS + "- parallel: p\n  branches:\n    a: []",
        [("OUT_OF_BOUNDS", "/steps/0/branches/a", 6)],
    ),
    (
        "a branch name of the wrong form",
        STEPS + "- parallel: p\n  branches:\n    a b: [{task: a, queue: q, handler: h}]",
        [("BAD_NAME", "/steps/0/branches/a b", 6)],
    ),
    ("a sequence without steps", STEPS + "- sequence: s", [("MISSING_FIELD", "/steps/0", 4)]),
    (
        "an expression that ends early",
        TASK + "  input:\n    a: ${input.}",
        [("BAD_EXPRESSION", "/steps/0/input/a", 8)],
    ),
    (
        "an expression that isn't closed",
        TASK + "  input:\n    a: ${input.a",
        [("BAD_EXPRESSION", "/steps/0/input/a", 8)],
    ),
    (
        "an unknown name",
        TASK + "  input:\n  - ${inputs.a}",
        [("BAD_EXPRESSION", "/steps/0/input/0", 8)],
    ),
    (
        "an expression in a key",
        TASK + "  input:\n    ${input.a}: 1",
        [("NOT_LITERAL", "/steps/0/input/${input.a}", 8)],
    ),
    (
        "an unknown step",
        TASK + "  input:\n    a: ${steps.chrage.output}",
        [("UNKNOWN_STEP", "/steps/0/input/a", 8)],
    ),
    (
        "a step that reads itself",
        TASK + "  input: ${steps.charge.output}",
        [("NOT_COMPLETE_HERE", "/steps/0/input", 7)],
    ),
    ("a bad input contract", "input: {type: strin}\n" + TASK, [("BAD_CONTRACT", "/input/type", 1)]),
    (
        "a bad output contract",
        TASK + "  output:\n    properties:\n      a: {minLength: -1}",
        [("BAD_CONTRACT", "/steps/0/output/properties/a/minLength", 9)],
    ),
    (
        "an output that reads no step",
        "output: ${steps.x.output}\n" + TASK,
        [("UNKNOWN_STEP", "/output", 1)],
    ),
    ("an empty text", "", [("BAD_TYPE", "", 1)]),
    ("a list", "- a", [("BAD_TYPE", "", 1)]),
]


@pytest.mark.rule("WEA-1")
@pytest.mark.parametrize(
    ("text", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_each_error_has_its_code_place_and_line(
    text: str, expected: list[tuple[str, str, int]]
) -> None:
    source = sources.parse(text)
    placed = sources.place(source, problems_of(source.value))

    assert [(found.code.value, found.pointer, spot.line) for spot, found in placed] == expected


def test_every_code_is_shown_by_a_case() -> None:
    shown = {code for _, _, expected in CASES for code, _, _ in expected}

    assert shown | {"INVALID_JSON"} == {code.value for code in ProblemCode}


@pytest.mark.rule("WEA-1")
def test_all_errors_are_told_at_once_in_the_order_of_their_places() -> None:
    value = document(
        task("charge", queue="${x}", max_attempts=0, input={"a": "${", "b": ["${nope}"]}),
        {"tsk": "x"},
        task("charge", output={"type": "strin", "$ref": "http://example.com/x"}),
        name="",
        deadline=5,
        extra=1,
    )
    found = problems_of(value)

    assert [(problem.pointer, problem.code.value) for problem in found] == [
        ("/deadline", "BAD_DURATION"),
        ("/extra", "UNKNOWN_FIELD"),
        ("/name", "BAD_NAME"),
        ("/steps/0/input/a", "BAD_EXPRESSION"),
        ("/steps/0/input/b/0", "BAD_EXPRESSION"),
        ("/steps/0/max_attempts", "OUT_OF_BOUNDS"),
        ("/steps/0/queue", "NOT_LITERAL"),
        ("/steps/1", "UNKNOWN_KIND"),
        ("/steps/2/output/$ref", "BAD_CONTRACT"),
        ("/steps/2/output/type", "BAD_CONTRACT"),
        ("/steps/2/task", "DUPLICATE_KEY"),
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (document(task("a", qeue="x")), "did you mean 'queue'?"),
        (document({"tsak": "a"}), "did you mean 'task'?"),
        (document({}), "the kinds are task, poll, signal, timer, parallel, sequence, choice, map"),
        (document(task("a", effect="idempotnt")), "did you mean 'idempotent'?"),
        (document(task("a"), task("b", input="${steps.aa.output}")), "did you mean 'a'?"),
        (document(task("a", input="${inptu.x}")), "did you mean 'input'?"),
        (document(task("a", input="${input.x.startWith('a')}")), "did you mean 'startsWith'?"),
        (document(task("a", input="${now()}")), "there are double, duration, dyn, has"),
        (document(task("a"), task("a")), "already that of the step at /steps/0"),
        (document(task("a", lease="1ms")), "between 1s and 1d"),
        (document(task("a", priority=101)), "between -100 and 100; it is 101"),
        (document(zzz=1), "there are name, version, description"),
        (document(task("a", deadline="soon")), 'written like "250ms"'),
    ],
)
def test_a_message_says_what_would_be_right(value: object, told: str) -> None:
    (problem,) = problems_of(value)

    assert told in problem.message


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({1: 2}, ""),
        (document(description={"x": float("nan")}), "/description/x"),
        (document(description=object()), "/description"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(value: object, pointer: str) -> None:
    (problem,) = problems_of(value)

    assert (problem.code, problem.pointer) == (ProblemCode.INVALID_JSON, pointer)


def test_a_document_nested_too_deep_is_refused() -> None:
    nested: object = "x"
    for _ in range(500):
        nested = [nested]
    (problem,) = problems_of(document(task("a", input=nested)))

    assert problem.code is ProblemCode.INVALID_JSON
    assert "nested deeper" in problem.message


def test_a_document_too_large_is_refused() -> None:
    (problem,) = problems_of(document(task("a", input="x" * limits.PAYLOAD_BYTES_MAX)))

    assert (problem.code, problem.pointer) == (ProblemCode.OUT_OF_BOUNDS, "")


@pytest.mark.rule("WEA-1")
def test_steps_and_depth_have_bounds() -> None:
    steps = [task(f"s{number}") for number in range(limits.STEPS_PER_DEFINITION_MAX + 3)]
    (many,) = problems_of(document(*steps))
    assert (many.code, many.pointer) == (ProblemCode.OUT_OF_BOUNDS, "/steps/1000/task")

    nested: dict[str, object] = task("leaf")
    for depth in range(limits.DEFINITION_DEPTH_MAX):
        nested = {"sequence": f"level{depth}", "steps": [nested]}
    (deep,) = problems_of(document(nested))
    assert (deep.code, deep.pointer) == (ProblemCode.OUT_OF_BOUNDS, "/steps/0" * 16 + "/steps")


@pytest.mark.parametrize("field", ["description", "name", "key", "handler"])
def test_texts_have_bounds(field: str) -> None:
    long = "x" * 5000
    values: dict[str, Any] = {
        "description": document(description=long),
        "name": document(name=long),
        "key": document(task(long)),
        "handler": document(task("a", handler=long)),
    }
    (problem,) = problems_of(values[field])

    assert "at most" in problem.message


def test_a_step_that_can_not_be_built_makes_no_other_error() -> None:
    found = problems_of(
        document({"tmier": "wait", "for": "1h"}, task("a", input="${steps.wait.output}"))
    )

    assert [problem.code for problem in found] == [ProblemCode.UNKNOWN_KIND]


def test_a_task_with_a_bad_key_still_has_its_other_errors_told() -> None:
    found = problems_of(document(task("1", input="${steps.b.output}"), task("b")))

    assert [problem.code for problem in found] == [
        ProblemCode.NOT_COMPLETE_HERE,
        ProblemCode.BAD_NAME,
    ]


def test_the_refusal_is_a_coded_one() -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        compile_definition(document(task("a", queue=1, handler=2, effect=3, priority="x")))

    refusal = caught.value
    assert (refusal.code, refusal.status, refusal.rule) == ("DEFINITION_INVALID", 422, "WEA-1")
    assert refusal.message.endswith("and 1 more")
    first = refusal.problems[0]
    assert refusal.detail["problems"][0] == {
        "pointer": first.pointer,
        "code": first.code.value,
        "message": first.message,
    }
    assert str(DefinitionInvalid([Problem("", ProblemCode.BAD_TYPE, "no")])) == (
        "DEFINITION_INVALID: /: no"
    )
