"""Templates: payloads pass through exactly, texts are put together, errors have a place (WEA-2)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.core.weave.definition.problems import ProblemCode, Problems
from pulseweave.core.weave.definition.template import (
    RESULT_DEPTH_MAX,
    ExpressionError,
    Scope,
    Template,
    compile_template,
)
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.check import InvariantViolation
from tests.core.weave.definition.documents import compiled, task, task_of


def template(value: object) -> Template:
    problems = Problems()
    made = compile_template(value, ("at",), problems)
    assert problems.found == ()
    return made


def evaluate(value: object, input_value: object = None, **steps: object) -> Any:
    return template(value).evaluate(Scope(input=input_value, steps=steps))


_numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["1.10", "-0", "1e-400", "0.1000", "1E5", "123456789.123456789123"]).map(
        canonical.Literal
    ),
)
#: lone surrogates, NUL and 4-byte characters included
_texts = st.text(st.characters(exclude_categories=()), max_size=8)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.exhaustive
@pytest.mark.rule("WEA-2")
@given(value=_json, key=_texts)
def test_a_selected_value_passes_through_exactly(value: object, key: str) -> None:
    given_text = canonical.encode(value)
    payload = {"deep": [{key: value}]}

    selected = (
        evaluate(f"${{input.deep[0][{_literal(key)}]}}", payload) if _writable(key) else value
    )
    whole = evaluate({"copy": "${input}", "of": ["${steps.s.output}"]}, payload, s=value)

    assert canonical.encode(selected) == given_text
    assert canonical.encode(whole) == canonical.encode({"copy": payload, "of": [value]})
    assert canonical.encode(payload) == canonical.encode({"deep": [{key: value}]})


def _writable(key: str) -> bool:
    """A CEL text can hold any character but a surrogate."""
    return not any("\ud800" <= char <= "\udfff" for char in key)


def _literal(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


@pytest.mark.exhaustive
@pytest.mark.rule("WEA-2")
@given(value=_json)
def test_arranging_and_choosing_keep_values_exact(value: object) -> None:
    given_text = canonical.encode(value)

    made = evaluate("${[input.v, {'v': input.v}].map(x, x)}", {"v": value})
    chosen = evaluate("${has(input.v) && input.v == input.v ? input.v : null}", {"v": value})
    kept = evaluate("${[input.v].filter(x, true)[0]}", {"v": value})

    assert canonical.encode(made) == f'[{given_text},{{"v":{given_text}}}]'
    assert canonical.encode(chosen) == given_text
    assert canonical.encode(kept) == given_text


@pytest.mark.exhaustive
@given(value=_json)
def test_what_has_no_expression_is_itself(value: object) -> None:
    escaped = json.loads(json.dumps(_plain(value)).replace("${", "$${"))

    assert canonical.encode(evaluate(escaped)) == canonical.encode(_plain(value))


def _plain(value: object) -> Any:
    return json.loads(canonical.encode(value))


@pytest.mark.parametrize("key", ["with-dash", "if", "ünï", "a b", "", "0", "$", 'q"', "😀"])
def test_any_writable_key_can_be_selected(key: str) -> None:
    assert evaluate(f"${{input[{_literal(key)}]}}", {key: 1}) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ""),
        ("plain $ {text} $}", "plain $ {text} $}"),
        ("$${", "${"),
        ("$${input.a}", "${input.a}"),
        ("$$${input.a}", "$${input.a}"),
        ("a$${b}${input.s}", "a${b}x"),
        ("${input.s}$${", "x${"),
        ("${input.i}", 5),
        (" ${input.i}", " 5"),
        ("${ input.i }", 5),
        ("${input.i}${input.s}", "5x"),
        ("${input.t}/${!input.t}", "true/false"),
        ("<${input.lone}|${input.nul}>", "<\ud800|\0>"),
        ("n=${input.huge}", f"n={2**80}"),
        ("${'}'}${'${'}", "}${"),
        ("${{'a': {'b': 1}}}", {"a": {"b": 1}}),
        ("${{'a': {'b': 1}}.a.b}!", "1!"),
        ("${input.s == 'x' ? 'ja' : 'nein'}", "ja"),
        ({"$${k}": ["${input.i}", None, 1.5, True]}, {"${k}": [5, None, 1.5, True]}),
    ],
)
def test_texts_and_wholes(value: object, expected: object) -> None:
    names = {"i": 5, "s": "x", "t": True, "lone": "\ud800", "nul": "\0", "huge": 2**80}

    made = evaluate(value, names)

    assert (made, type(made)) == (expected, type(expected))


@given(text=_texts, number=st.integers(-(10**30), 10**30), flag=st.booleans())
def test_parts_of_a_text_are_written_as_json_has_them(text: str, number: int, flag: bool) -> None:
    names = {"s": text, "i": number, "b": flag}

    made = evaluate("<${input.s}|${input.i}|${input.b}>", names)

    assert made == f"<{text}|{number}|{json.dumps(flag)}>"


@pytest.mark.parametrize("part", [None, 1.5, canonical.Literal("-0"), [], {}, ["a"]], ids=repr)
def test_other_values_are_no_part_of_a_text(part: object) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate("a ${input}", part)

    assert caught.value.code == "WRONG_TYPE"
    assert "strings, ints and bools" in caught.value.message


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("${", "the end stands here"),
        ("${input", "the } that closes the expression is missing"),
        ("a ${input} ${", "the end stands here"),
        ("${}", "a value is expected"),
        ("${input.a}} ${foo}", "no name 'foo'"),
        ("x ${ 1 + }", "(at character 6 of the expression)"),
        ("${'a}", "a string is not closed"),
    ],
)
def test_bad_expressions_are_problems_with_a_place(value: str, told: str) -> None:
    problems = Problems()
    made = compile_template({"k/1": ["", value]}, ("steps", 0, "input"), problems)

    (problem,) = problems.found
    assert (problem.code, problem.pointer) == (
        ProblemCode.BAD_EXPRESSION,
        "/steps/0/input/k~11/1",
    )
    assert told in problem.message
    assert made.reads == frozenset()


def test_keys_are_literal() -> None:
    problems = Problems()
    compile_template({"${input.a}": 1, "$${b}": 2}, (), problems)

    assert [(found.code, found.pointer) for found in problems.found] == [
        (ProblemCode.NOT_LITERAL, "/${input.a}")
    ]


def test_a_template_tells_what_it_reads() -> None:
    made = template({"a": ["${steps.x.output}", "… ${steps.y.output} ${input.b}"], "b": "steps.z"})

    assert made.reads == {"x", "y"}
    assert [(placed.place, placed.expression.text) for placed in made.expressions] == [
        (("at", "a", 0), "steps.x.output"),
        (("at", "a", 1), "steps.y.output"),
        (("at", "a", 1), "input.b"),
    ]


def test_an_error_names_the_expression_and_its_place() -> None:
    definition = compiled(task("charge", input={"a": ["ok", "n: ${ input.zzz }"]}))

    with pytest.raises(ExpressionError) as caught:
        task_of(definition, "charge").input.evaluate(Scope(input={}, steps={}))

    error = caught.value
    assert (error.code, error.pointer) == ("NO_SUCH_KEY", "/steps/0/input/a/1")
    assert error.expression == "input.zzz"
    assert error.message == "there is no key 'zzz'"
    assert str(error) == ("NO_SUCH_KEY at /steps/0/input/a/1: there is no key 'zzz' in input.zzz")


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("0.0 / 0.0", "nan"),
        ("1.0 / 0.0", "inf"),
        ("[-1.0 / 0.0]", "-inf"),
        ("timestamp('2026-01-01T00:00:00Z')", "string()"),
        ("{'a': [duration('1h')]}", "string()"),
    ],
)
def test_what_canonical_json_can_not_keep_is_refused(expression: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate({"x": f"${{{expression}}}"})

    assert caught.value.code == "NOT_JSON"
    assert told in caught.value.message


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_may_nest_only_so_deep() -> None:
    deepest = evaluate(["${input}"], _nested(RESULT_DEPTH_MAX - 1))
    assert canonical.parse(canonical.encode(deepest)) == deepest
    with pytest.raises(ExpressionError) as caught:
        evaluate(["${input}"], _nested(RESULT_DEPTH_MAX))
    assert caught.value.code == "TOO_DEEP"


def test_a_payload_at_its_bound_still_fits_into_what_is_made_of_it() -> None:
    deep = _nested(limits.JSON_DEPTH_MAX)

    assert evaluate({"a": {"b": "${input}"}}, deep) == {"a": {"b": deep}}
    assert evaluate("${input == steps.s.output}", deep, s=deep) is True


@pytest.mark.parametrize(
    "value",
    [
        ["${input.text}"] * 3,
        "${input.text}${input.text}${input.text}",
        "${[input.text, input.text, input.text]}",
        pytest.param("${input.list.map(x, input.list)}", marks=pytest.mark.exhaustive),
        "${[1, 2, 3].map(x, {input.text: x})}",
    ],
    ids=str,
)
def test_a_value_larger_than_a_payload_is_refused(value: object) -> None:
    half = {"text": "x" * (limits.PAYLOAD_BYTES_MAX // 2), "list": list(range(2_000))}

    with pytest.raises(ExpressionError) as caught:
        evaluate(value, half)

    assert caught.value.code == "TOO_LARGE"


def test_the_largest_payload_fits() -> None:
    text = "x" * (limits.PAYLOAD_BYTES_MAX - 2)

    assert evaluate("${input}", text) == text


def test_an_evaluation_that_costs_too_much_is_refused() -> None:
    large = {"text": "a" * 500_000, "list": list(range(2_000))}

    with pytest.raises(ExpressionError) as caught:
        evaluate("${input.list.all(x, !input.text.contains('b'))}", large)

    assert caught.value.code == "TOO_COSTLY"


def test_a_scope_without_a_step_that_is_read_is_a_bug() -> None:
    with pytest.raises(InvariantViolation):
        evaluate("${steps.x.output}")


def test_each_value_is_its_own() -> None:
    made = template({"list": [1], "o": {}})
    first = made.evaluate(Scope(input=None, steps={}))
    assert isinstance(first, dict)
    first["list"].append(2)

    assert made.evaluate(Scope(input=None, steps={})) == {"list": [1], "o": {}}
