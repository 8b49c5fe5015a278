"""Expressions: what they give, what they refuse, and that CEL's library agrees (WEA-2)."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.core.weave.definition.expressions.expression import (
    EXPRESSION_CHARS_MAX,
    EXPRESSION_HEIGHT_MAX,
    compile_expression,
)
from pulseweave.core.weave.definition.expressions.failure import Exhausted, Failure, Meter
from pulseweave.core.weave.definition.expressions.parser import EXPRESSION_DEPTH_MAX
from pulseweave.core.weave.definition.expressions.tokens import BadExpression
from pulseweave.core.weave.definition.expressions.values import INT64_MAX, INT64_MIN, kind_of
from pulseweave.kernel.canonical import Literal

HUGE = 2**80
NAMES: dict[str, Any] = {
    "input": {
        "a": 1,
        "n": None,
        "t": True,
        "f": 1.5,
        "s": "abc",
        "emoji": "😀é",
        "nul": "\0",
        "lone": "x\ud800",
        "\ud800": "odd key",
        "with-dash": 7,
        "in": 8,
        "huge": HUGE,
        "max": INT64_MAX,
        "min": INT64_MIN,
        "decimal": Literal("1.10"),
        "list": [3, 1, 2],
        "rows": [{"id": 1, "ok": True}, {"id": 2, "ok": False}, {"id": HUGE, "ok": True}],
        "map": {"b": 1, "c": 2, "a": 3},
        "when": "2026-01-02T03:04:05.678Z",
    },
    "steps": {"charge": {"output": {"amount": 5}}, "ship-it": {"output": [True]}},
}


def evaluate(text: str, names: dict[str, Any] = NAMES) -> Any:
    return compile_expression(text).value(names, Meter())


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # selecting
        ("input.a", 1),
        (" input . a ", 1),
        ("input.huge", HUGE),
        ("input.lone", "x\ud800"),
        ("input.nul", "\0"),
        ('input["with-dash"]', 7),
        ('input["in"]', 8),
        ("input.list[1]", 1),
        ("input.list[input.a]", 1),
        ("input.rows[2].id", HUGE),
        ("(input).s", "abc"),
        ("steps.charge.output.amount", 5),
        ('steps["ship-it"].output[0]', True),
        ('steps["charge"]["output"]', {"amount": 5}),
        ("{'x': [1]}.x[0]", 1),
        # literals
        ("null", None),
        ("[true, false,]", [True, False]),
        ("0x10", 16),
        ("-9223372036854775808", INT64_MIN),
        ("--5", 5),
        ("- 1.5e3", -1500.0),
        (".5", 0.5),
        ("'a\\n\\u00e9\\x41\\101'", "a\néAA"),
        ("r'a\\n'", "a\\n"),
        ("'''it's\n\"so\"'''", 'it\'s\n"so"'),
        ('"""a"b"""', 'a"b'),
        ("''", ""),
        ("'}'", "}"),
        # arranging
        ("[input.huge, input.lone]", [HUGE, "x\ud800"]),
        ("{'id': input.huge, input.s: {}}", {"id": HUGE, "abc": {}}),
        ("input.t ? input.huge : nope_never", HUGE),
        ("input.a == 2 ? 'two' : input.a == 1 ? 'one' : 'many'", "one"),
        ("input.list + [input.huge]", [3, 1, 2, HUGE]),
        # comparing, exactly
        ("input.huge == input.huge", True),
        ("input.huge > 5", True),
        ("9007199254740993 == 9007199254740992.0", False),
        ("9007199254740993 > 9007199254740992.0", True),
        ("1 == 1.0", True),
        ("input.t == 1", False),
        ("input.n == null", True),
        ("input.n != 0", True),
        ("input.s == 'abc' && input.s != 'b'", True),
        ("input.s < 'b' && 'b' >= input.s && true > false && input.f <= 1.5", True),
        ("[1, {'a': [2]}] == [1.0, {'a': [2]}]", True),
        ("[1] == [1, 2]", False),
        ("{'a': 1} == {'b': 1}", False),
        ("{'a': 1} == {'a': 2}", False),
        ("input.lone == input.lone", True),
        ("1 in input.list", True),
        ("true in input.list", False),
        ("input.huge in [input.huge]", True),
        ("'b' in input.map", True),
        ("1 in input.map", False),
        ("has(input.a) && !has(input.zzz) && has(input.n)", True),
        # logic
        ("false && input.zzz", False),
        ("input.zzz && false", False),
        ("1 && false", False),
        ("true || input.zzz", True),
        ("input.zzz || true", True),
        ("!!input.t", True),
        ("!input.t", False),
        # computing
        ("input.a + 2 * 3 - 4 / 2 % 5", 5),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("-input.a", -1),
        ("-(-input.a)", 1),
        ("---input.a", -1),
        ("-input.f", -1.5),
        ("'a' + 'b'", "ab"),
        ("input.nul + 'x'", "\0x"),
        ("input.f * 2.0", 3.0),
        ("input.decimal + 1.0", 2.1),
        ("string(input.a) + string(1.5) + string('x')", "11.5x"),
        ("int('-5') + int(1.9)", -4),
        ("double('1.5') + double(1)", 2.5),
        ("dyn(input.a) + 1", 2),
        ("size(input.emoji)", 2),
        ("input.s.size()", 3),
        ("size(input.map) + size(input.list)", 6),
        ("input.s.startsWith('a') && input.s.endsWith('c') && input.s.contains('b')", True),
        ("input.s.matches('^[a-c]+$')", True),
        # time
        ("timestamp(input.when).getFullYear()", 2026),
        ("timestamp(input.when) > timestamp('2026-01-01T00:00:00Z')", True),
        ("string(timestamp(input.when) - duration('24h'))", "2026-01-01T03:04:05.678+00:00"),
        ("duration('90m').getMinutes()", 90),
        ("duration('1h') == duration('60m')", True),
        # comprehensions
        ("input.list.map(x, x * 2)", [6, 2, 4]),
        ("input.rows.map(r, r.ok, r.id)", [1, HUGE]),
        ("input.rows.filter(r, r.ok).map(r, r.id)", [1, HUGE]),
        ("input.list.all(x, x > 0)", True),
        ("input.list.all(x, x > 1)", False),
        ("input.list.exists(x, x == 2)", True),
        ("input.list.exists(x, x == 9)", False),
        ("input.list.exists_one(x, x > 2)", True),
        ("input.list.exists_one(x, x > 1)", False),
        ("[1, 'a'].exists(x, x > 'A')", True),
        ("[1, 0].all(x, 1 / x > 5)", False),
        ("[].all(x, x) && ![].exists(x, x)", True),
        ("input.map.map(k, k)", ["a", "b", "c"]),
        ("input.map.filter(k, input.map[k] > 1)", ["a", "c"]),
        ("input.list.map(x, [x].map(y, x + y))", [[6], [2], [4]]),
        ("input.list.map(x, [x].map(x, x))", [[3], [1], [2]]),
        ("[input.a].map(size, size + 1)", [2]),
    ],
)
def test_values(text: str, expected: object) -> None:
    if "nope_never" in text:  # a branch that isn't taken still has to be a valid one
        text = text.replace("nope_never", "input.zzz")
    value = evaluate(text)

    assert value == expected
    assert kind_of(value) == kind_of(expected)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("input.zzz", "NO_SUCH_KEY"),
        ("input['zzz']", "NO_SUCH_KEY"),
        ("input.s.x", "WRONG_TYPE"),
        ("input.list.x", "WRONG_TYPE"),
        ("input.n.x", "WRONG_TYPE"),
        ("has(input.s.x)", "WRONG_TYPE"),
        ("input.list[3]", "INDEX_OUT_OF_RANGE"),
        ("input.list[-1]", "INDEX_OUT_OF_RANGE"),
        ("input.list[input.huge]", "INDEX_OUT_OF_RANGE"),
        ("input.list['0']", "WRONG_TYPE"),
        ("input.list[true]", "WRONG_TYPE"),
        ("input.list[0.0]", "WRONG_TYPE"),
        ("input.s[0]", "WRONG_TYPE"),
        ("input[0]", "WRONG_TYPE"),
        ("{1: 2}", "WRONG_TYPE"),
        ("{'a': 1, 'a': 2}", "DUPLICATE_KEY"),
        ("input.a ? 1 : 2", "WRONG_TYPE"),
        ("!input.a", "WRONG_TYPE"),
        ("input.a && true", "WRONG_TYPE"),
        ("true && input.a", "WRONG_TYPE"),
        ("input.zzz || false", "NO_SUCH_KEY"),
        ("input.zzz || input.n.x", "NO_SUCH_KEY"),
        ("1 in 'abc'", "WRONG_TYPE"),
        ("1.5 in input.map", "WRONG_TYPE"),
        ("null in input.map", "WRONG_TYPE"),
        ("1 < 'a'", "WRONG_TYPE"),
        ("input.list < input.list", "WRONG_TYPE"),
        ("input.n <= input.n", "WRONG_TYPE"),
        ("true < 1", "WRONG_TYPE"),
        ("input.max + 1", "OVERFLOW"),
        ("input.min - 1", "OVERFLOW"),
        ("-input.min", "OVERFLOW"),
        ("input.min * -1", "OVERFLOW"),
        ("input.min / -1", "OVERFLOW"),
        ("int(1e300)", "OVERFLOW"),
        ("duration('100000000000000h')", "OVERFLOW"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1h')", "OVERFLOW"),
        ("1 / 0", "DIVISION_BY_ZERO"),
        ("1 % 0", "DIVISION_BY_ZERO"),
        ("input.huge + 1", "NOT_COMPUTABLE"),
        ("-input.huge", "NOT_COMPUTABLE"),
        ("string(input.huge)", "NOT_COMPUTABLE"),
        ("input.lone + 'x'", "NOT_COMPUTABLE"),
        ("input.s.contains(input.lone)", "NOT_COMPUTABLE"),
        ("1 + 1.0", "WRONG_TYPE"),
        ("'a' * 3", "WRONG_TYPE"),
        ("-'a'", "WRONG_TYPE"),
        ("-true", "WRONG_TYPE"),
        ("input.map + input.map", "WRONG_TYPE"),
        ("[1] + 1", "WRONG_TYPE"),
        ("null + null", "WRONG_TYPE"),
        ("size(1)", "WRONG_TYPE"),
        ("string(input.list)", "WRONG_TYPE"),
        ("string(null)", "WRONG_TYPE"),
        ("input.s.startsWith(1)", "WRONG_TYPE"),
        ("input.s.getHours()", "WRONG_TYPE"),
        ("int('12x')", "BAD_ARGUMENT"),
        ("timestamp('soon')", "BAD_ARGUMENT"),
        ("duration('soon')", "BAD_ARGUMENT"),
        ("input.s.matches('(')", "BAD_ARGUMENT"),
        ("input.s.map(x, x)", "WRONG_TYPE"),
        ("input.list.filter(x, x)", "WRONG_TYPE"),
        ("input.list.all(x, x)", "WRONG_TYPE"),
        ("[1, 0].all(x, 1 / x > 0)", "DIVISION_BY_ZERO"),
        ("[1, 0].exists_one(x, 1 / x > 0)", "DIVISION_BY_ZERO"),
        ("input.rows.map(r, r.zzz, r.id)", "NO_SUCH_KEY"),
    ],
)
def test_failures_have_a_code(text: str, code: str) -> None:
    with pytest.raises(Failure) as caught:
        evaluate(text)

    assert caught.value.code.value == code
    assert str(HUGE) not in caught.value.message


@pytest.mark.rule("WEA-1")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a value is expected, but the end"),
        ("  ", "a value is expected, but the end"),
        ("1 +", "a value is expected, but the end"),
        ("1 2", "an operator or the end is expected, but '2'"),
        ("input.", "a name is expected"),
        ("input.1", "an operator or the end is expected"),
        ("(1", "')' is expected"),
        ("[1, 2", "']' is expected"),
        ("[1 2]", "']' is expected, but '2'"),
        ("{'a' 1}", "':' is expected"),
        ("true ? 1", "':' is expected"),
        ("size(1", "')' is expected"),
        ("in", "a value is expected, but 'in'"),
        ("input.in", 'write ["in"]'),
        ("input.true", 'write ["true"]'),
        ("a-b", "no name 'a'"),
        ("inputs.a", "did you mean 'input'?"),
        ("input.list.map(row, rwo.x)", "did you mean 'row'?"),
        ("input.list.map(x, x) + x", "no name 'x'"),
        ("type(1)", "no function 'type'"),
        ("int", "no name 'int'"),
        ("steps", "steps is no value of its own"),
        ("size(steps)", "steps is no value of its own"),
        ("steps.charge", "read like steps.charge.output"),
        ("steps.charge.result", "read like steps.charge.output"),
        ("steps[input.s].output", "read like steps.charge.output"),
        ("has(steps.charge)", "read like steps.charge.output"),
        ("steps[0].output", "read like steps.charge.output"),
        ("input.list.map(input, 1)", "not called input"),
        ("input.list.map(steps, 1)", "not called steps"),
        ("input.list.map(1, 1)", "map is written like list.map(item"),
        ("input.list.all(x)", "all is written like list.all(item"),
        ("input.list.all(x, 1, 2)", "all is written like"),
        ("input.list.map()", "map is written like"),
        ("has(input)", "has asks for a member"),
        ("has(input['a'])", "has asks for a member"),
        ("size()", "size takes one argument, not 0"),
        ("size(1, 2)", "size takes one argument, not 2"),
        ("input.s.contains()", "contains takes one argument"),
        ("input.s.size(1)", "size takes no argument"),
        ("input.s.lower()", "no method 'lower'"),
        ("matches('a', 'b')", "no function 'matches'"),
        ("1u", "unsigned integers are not supported"),
        ("b'a'", "bytes are not supported"),
        ("bR'a'", "bytes are not supported"),
        ("1 // one", "no comments"),
        ("a # b", "'#' has no meaning"),
        ("input.`a`", "'`' has no meaning"),
        ("1 & 2", "'&' has no meaning"),
        ("'abc", "a string is not closed"),
        ("'a\nb'", "a string is not closed"),
        ("'''abc''", "a string is not closed"),
        ("'\\q'", "no literal of CEL"),
        ("'\\ud800'", "no literal of CEL"),
        ("'\ud800'", "no literal of CEL"),
        ("9223372036854775808", "no literal of CEL"),
        ("1e999", "no literal of CEL"),
        ("input.a }", "a } closes nothing"),
        ("input.if.a + if", "not valid in CEL, 1:14: reserved identifier"),
        ("input.list.map(if, if)", "not valid in CEL, 1:16: reserved identifier"),
        (".input.a", "a value is expected, but '.'"),
        ("Message{a: 1}", "an operator or the end is expected, but '{'"),
        ("1 ? 2 ? 3 : 4 : 5", "':' is expected"),
        ("-!true", "a value is expected, but '!'"),
        ("size(1,)", "not valid in CEL"),
        ("(" * 40 + "1" + ")" * 40, f"nested deeper than {EXPRESSION_DEPTH_MAX}"),
        ("1" + "+1" * 200, f"more than {EXPRESSION_HEIGHT_MAX} operators"),
        ("input" + ".a" * 200, f"more than {EXPRESSION_HEIGHT_MAX} operators"),
        ("'" + "x" * EXPRESSION_CHARS_MAX + "'", "at most 4096 characters, not 4098"),
    ],
)
def test_bad_forms_are_refused_with_a_reason(text: str, told: str) -> None:
    with pytest.raises(BadExpression) as caught:
        compile_expression(text)

    assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "offset"), [("1 + ", 4), ("  input.x + 'a", 12), ("1 + nope()", 4), ("ä", 0)]
)
def test_an_offset_tells_where(text: str, offset: int) -> None:
    with pytest.raises(BadExpression) as caught:
        compile_expression(text)

    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("input.a", set()),
        ("steps.a.output + steps.b.output.x", {"a", "b"}),
        ("has(steps.a.output.x) ? steps['b']['output'] : 1", {"a", "b"}),
        ("steps.a.output[steps.b.output]", {"a", "b"}),
        ("input.list.map(x, steps.a.output.map(y, x + y + steps.b.output[x]))", {"a", "b"}),
        ("[1].filter(x, steps.a.output)", {"a"}),
        ("[1].map(x, steps.a.output, steps.b.output)", {"a", "b"}),
        ("{steps.a.output: -steps.b.output}", {"a", "b"}),
        ("'steps.c.output'", set()),
        ("input.steps.c.output", set()),
        ("size(steps.a.output) in [dyn(steps.b.output)]", {"a", "b"}),
    ],
)
def test_the_steps_that_are_read(text: str, reads: set[str]) -> None:
    assert compile_expression(text).reads == reads


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    [
        "input.l.map(x, input.l.map(y, 1))",
        "input.l.all(x, input.l.exists(y, false) || true)",
        "input.l.all(x, !(x in input.rest))",
        "input.l.all(x, input.rest == input.other)",
        "input.l.map(x, input.l + input.l)",
        "input.l.all(x, !input.text.contains('b'))",
        "input.l.all(x, input.text == input.text)",
        "input.wide.all(x, 'a'.matches('a'))",
    ],
)
def test_an_evaluation_has_a_budget(text: str) -> None:
    names = {
        "input": {
            "l": list(range(2_000)),
            "rest": list(range(-2_000, 0)),
            "other": list(range(-2_000, 0)),
            "text": "a" * 100_000,
            "wide": list(range(50_000)),
        }
    }
    with pytest.raises(Exhausted):
        evaluate(text, names)


@pytest.mark.exhaustive
def test_a_linear_expression_over_a_large_payload_is_within_its_budget() -> None:
    rows = [{"id": number, "ok": number % 2 == 0} for number in range(50_000)]

    value = evaluate("input.filter(r, r.ok).map(r, {'id': r.id})", {"input": rows})

    assert value == [{"id": number} for number in range(0, 50_000, 2)]


def test_an_evaluation_changes_nothing_that_it_was_given() -> None:
    names = {"input": {"l": [[1], [2]], "m": {"a": {}}}, "steps": {}}

    joined = evaluate("(input.l + [input.m]).map(x, x)", names)
    joined.append("more")

    assert names == {"input": {"l": [[1], [2]], "m": {"a": {}}}, "steps": {}}


# --- the same as CEL's library, where the library can be trusted ----------------------------------

_SMALL: dict[str, Any] = {
    "input": {
        "i": 3,
        "j": -2,
        "f": 2.5,
        "s": "ab",
        "t": True,
        "n": None,
        "l": [1, 2],
        "m": {"k": 1},
    }
}
_ATOMS = ["input.i", "input.j", "input.f", "input.s", "input.t", "input.n", "input.l", "input.m"]
_LITERALS = ["0", "1", "-3", "1.5", "'a'", "true", "false", "null", "[]", "{}", "[1, 'x']", "'1'"]


_BINARY = ["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "in"]


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(_BINARY)
    return st.one_of(
        st.builds("({} {} {})".format, inner, binary, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("-({} {})".format, inner, st.sampled_from(["+ 0", "* 1.0"])),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}.k".format, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("has(input.{})".format, st.sampled_from(["i", "zzz"])),
        st.builds("{}({})".format, st.sampled_from(["int", "double", "string", "size"]), inner),
        st.builds("({}).startsWith({})".format, inner, inner),
        st.builds(
            "({}).{}(v, {})".format,
            inner,
            st.sampled_from(["map", "filter", "all", "exists", "exists_one"]),
            inner,
        ),
        st.builds("[{}].map(v, {})".format, inner, st.just("v")),
    )


_expressions = st.recursive(st.sampled_from(_ATOMS + _LITERALS), _extend, max_leaves=8)


@pytest.mark.exhaustive
@pytest.mark.rule("WEA-2")
@given(text=_expressions)
def test_values_are_those_of_the_library(text: str) -> None:
    """Or both have none.

    The library's slips aren't reached: values are small, and no bool has a minus, which the library
    takes for a logical not.
    """
    try:
        expected = cel.compile(text).execute(_SMALL)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        expected = _NOTHING
    value, _ = _value_or_reason(text)
    assert _comparable(value) == _comparable(expected)


def _value_or_reason(text: str) -> tuple[object, str]:
    try:
        return evaluate(text, _SMALL), ""
    except Failure as failure:
        return _NOTHING, failure.message


_NOTHING = timedelta(days=-1)  # no expression above gives a duration


def _comparable(value: object) -> object:
    """With kinds, so that 1 is neither 1.0 nor true; not a number equals itself."""
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    return kind_of(value), str(value)


_WORDS = st.text("input.steps[]{}()'\"\\+-?:,&|<>=!0123 ", max_size=30)


@pytest.mark.exhaustive
@given(text=st.one_of(st.text(max_size=30), _WORDS, _expressions))
def test_no_text_breaks_the_compiler(text: str) -> None:
    with suppress(BadExpression):
        compile_expression(text)
        cel.compile(text)  # what is accepted here is an expression of CEL


@pytest.mark.exhaustive
@given(text=_expressions)
def test_values_are_the_same_each_time(text: str) -> None:
    assert repr(_value_or_reason(text)) == repr(_value_or_reason(text))
