"""YAML and JSON texts of definitions: what they mean, where its parts stand, what is refused."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.kernel import canonical, limits
from pulseweave.wire import sources
from pulseweave.wire.sources import SOURCE_BYTES_MAX, SourceInvalid, Spot, Syntax


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # words that YAML 1.1 would change
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("2026-12-01", "2026-12-01"),
        ("2026-12-01T10:00:00Z", "2026-12-01T10:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("<<", "<<"),
        ("=", "="),
        # words of YAML 1.2's core schema
        ("", None),
        ("# only a remark", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("trUE", "trUE"),
        # numbers
        ("0", 0),
        ("-12", -12),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.5", 1.5),
        ("-100.25", -100.25),
        ("1.5.5", "1.5.5"),
        ("1a", "1a"),
        # texts
        ("'null'", "null"),
        ('"12"', "12"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
        ('"\\0\\u00e9\\U0001F600"', "\0é😀"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\ud83d-\\ude00"', "\ud83d-\ude00"),
        ("${input.a}", "${input.a}"),
        # structures
        ("a: {b: [1, c]}\nd:\n- e\n-\n", {"a": {"b": [1, "c"]}, "d": ["e", None]}),
        ("yes: no", {"yes": "no"}),
        ("'1': x", {"1": "x"}),
        ("--- a\n...\n", "a"),
        ("&anchor a", "a"),
    ],
)
def test_yaml_means_what_json_would(text: str, expected: object) -> None:
    value = sources.parse(text, Syntax.YAML).value

    assert (value, type(value)) == (expected, type(expected))


def test_numbers_keep_their_digits() -> None:
    value = sources.parse("[1.10, 1e-400, -0, 0.1]", Syntax.YAML).value

    assert canonical.encode(value) == "[1.10,1e-400,-0,0.1]"


YAML_TEXT = """\
name: order
steps:
  - task: charge
    input: {a: 1, "b/c": [x,
      y]}
  -
    - z
"""
JSON_TEXT = """{
  "name": "order",
  "steps": [
    {"task": "charge", "input": {"a": 1, "b/c": ["x,{",
      []]}, "e": {}, "f": [[], {}]}, [ "z" ]
  ]
}"""


def test_yaml_places() -> None:
    places = sources.parse(YAML_TEXT).places

    assert {pointer: (spot.line, spot.column) for pointer, spot in places.items()} == {
        "": (1, 1),
        "/name": (1, 1),
        "/steps": (2, 1),
        "/steps/0": (3, 5),
        "/steps/0/task": (3, 5),
        "/steps/0/input": (4, 5),
        "/steps/0/input/a": (4, 13),
        "/steps/0/input/b~1c": (4, 19),
        "/steps/0/input/b~1c/0": (4, 27),
        "/steps/0/input/b~1c/1": (5, 7),
        "/steps/1": (7, 5),
        "/steps/1/0": (7, 7),
    }


def test_json_places() -> None:
    source = sources.parse(JSON_TEXT)

    assert source.value["steps"][0]["input"]["b/c"] == ["x,{", []]
    assert {pointer: (spot.line, spot.column) for pointer, spot in source.places.items()} == {
        "": (1, 1),
        "/name": (2, 3),
        "/steps": (3, 3),
        "/steps/0": (4, 5),
        "/steps/0/task": (4, 6),
        "/steps/0/input": (4, 24),
        "/steps/0/input/a": (4, 34),
        "/steps/0/input/b~1c": (4, 42),
        "/steps/0/input/b~1c/0": (4, 50),
        "/steps/0/input/b~1c/1": (5, 7),
        "/steps/0/e": (5, 13),
        "/steps/0/f": (5, 22),
        "/steps/0/f/0": (5, 28),
        "/steps/0/f/1": (5, 32),
        "/steps/1": (5, 38),
        "/steps/1/0": (5, 40),
    }


_texts = st.text(st.characters(exclude_categories=()), max_size=5)
_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        _texts,
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)
    ),
    max_leaves=10,
)


def _pointers(value: object, path: tuple[str | int, ...] = ()) -> set[str]:
    found = {canonical.pointer(path)}
    if isinstance(value, dict):
        return found.union(*(_pointers(child, (*path, key)) for key, child in value.items()))
    if isinstance(value, list):
        return found.union(*(_pointers(child, (*path, at)) for at, child in enumerate(value)))
    return found


@given(value=_json)
def test_every_json_value_comes_back_with_all_its_places(value: Any) -> None:
    text = canonical.encode(value)
    source = sources.parse(text, Syntax.JSON)

    assert canonical.encode(source.value) == text
    assert set(source.places) == _pointers(source.value)


@given(value=_json)
def test_canonical_json_read_as_yaml_means_the_same(value: Any) -> None:
    """In PyYAML's flow style ``[?`` begins a key, but no canonical text has it unquoted."""
    text = canonical.encode(value)
    source = sources.parse(text, Syntax.YAML)

    assert canonical.encode(source.value) == text
    assert set(source.places) == _pointers(source.value)


@given(value=_json)
def test_what_a_yaml_writer_writes_is_read_or_refused(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=False)
    with suppress(SourceInvalid):
        found = sources.parse(text, Syntax.YAML).value
        assert canonical.parse(canonical.encode(found)) == found


@given(text=st.text("{}[]:,-?&*!|>'\"%@`# \n\t\\ab01.~", max_size=40))
def test_no_text_breaks_the_readers(text: str) -> None:
    for syntax in (None, *Syntax):
        with suppress(SourceInvalid):
            source = sources.parse(text, syntax)
            assert set(source.places) == _pointers(source.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3", [(3, 1, "DUPLICATE_KEY")]),
        ("a: {b: 1, b: 2}", [(1, 11, "DUPLICATE_KEY")]),
        ("a: &x 1\nb: *x", [(2, 4, "NOT_SUPPORTED")]),
        ("*x : 1", [(1, 1, "BAD_KEY"), (1, 1, "NOT_SUPPORTED")]),
        ("a: !!str 1", [(1, 4, "NOT_SUPPORTED")]),
        ("!thing\na: 1", [(1, 1, "NOT_SUPPORTED")]),
        ("a: !!python/object:os.system {}", [(1, 4, "NOT_SUPPORTED")]),
        ("a\n---\nb", [(2, 1, "NOT_SUPPORTED")]),
        ("1: a", [(1, 1, "BAD_KEY")]),
        ("true: a", [(1, 1, "BAD_KEY")]),
        ("? ~\n: a", [(1, 3, "BAD_KEY")]),
        ("? [a]\n: b", [(1, 3, "BAD_KEY")]),
        ("a: 007", [(1, 4, "AMBIGUOUS")]),
        ("a: 0x1F", [(1, 4, "AMBIGUOUS")]),
        ("a: 0o17", [(1, 4, "AMBIGUOUS")]),
        ("a: +1", [(1, 4, "AMBIGUOUS")]),
        ("a: .5", [(1, 4, "AMBIGUOUS")]),
        ("a: 5.", [(1, 4, "AMBIGUOUS")]),
        ("a: -.inf", [(1, 4, "AMBIGUOUS")]),
        ("a: .NaN", [(1, 4, "AMBIGUOUS")]),
        ("a: 1e999", [(1, 4, "BAD_SYNTAX")]),
        ("a: [1", [(1, 6, "BAD_SYNTAX")]),
        ("a: b: c", [(1, 5, "BAD_SYNTAX")]),
        ("a: 'x", [(1, 6, "BAD_SYNTAX")]),
        ("\ta: 1", [(1, 1, "BAD_SYNTAX")]),
        ("ok: 1\na: \x01", [(2, 4, "BAD_SYNTAX")]),
        ("a: \ud800", [(1, 4, "BAD_SYNTAX")]),
        (
            "a: 007\na: *x\n1: .5",
            [
                (1, 4, "AMBIGUOUS"),
                (2, 1, "DUPLICATE_KEY"),
                (2, 4, "NOT_SUPPORTED"),
                (3, 1, "BAD_KEY"),
                (3, 4, "AMBIGUOUS"),
            ],
        ),
        ("a: " + "[" * 70 + "]" * 70, [(1, 67, "TOO_DEEP")]),
        ('{"a": 1,\n "a": 2}', [(2, 2, "BAD_JSON")]),
        ('{"a": [NaN]}', [(1, 8, "BAD_JSON")]),
        ('{"a": 1', [(1, 8, "BAD_JSON")]),
        ('{"a": 1}\n x', [(2, 2, "BAD_JSON")]),
        ('{"a": 1e999}', [(1, 7, "BAD_JSON")]),
        ("[" * 70 + "]" * 70, [(1, 65, "BAD_JSON")]),
    ],
)
def test_refusals_have_a_spot_and_a_code(text: str, expected: list[tuple[int, int, str]]) -> None:
    with pytest.raises(SourceInvalid) as caught:
        sources.parse(text)

    found = caught.value.problems
    assert [(p.spot.line, p.spot.column, p.code.value) for p in found] == expected
    assert str(caught.value).startswith(f"line {expected[0][0]}, column {expected[0][1]}: ")


def test_the_deepest_text_is_read() -> None:
    levels = limits.JSON_DEPTH_MAX
    for syntax in Syntax:
        assert sources.parse("[" * levels + "]" * levels, syntax).places.keys() >= {"/0" * 63}


def test_bytes_are_utf8() -> None:
    assert sources.parse("é: 1".encode()).value == {"é": 1}
    assert sources.parse(b"\xef\xbb\xbfa: 1").value == {"a": 1}
    assert sources.parse("\ufeffa: 1").value == {"a": 1}
    with pytest.raises(SourceInvalid) as caught:
        sources.parse("é: 1\nb: ".encode() + b"\xff")
    (problem,) = caught.value.problems
    assert (problem.spot, problem.message) == (Spot(2, 4), "the text is not UTF-8")


def test_a_text_has_a_bound() -> None:
    with pytest.raises(SourceInvalid) as caught:
        sources.parse(" " * (SOURCE_BYTES_MAX + 1))
    assert caught.value.problems[0].code is sources.SourceCode.TOO_LARGE


@pytest.mark.parametrize(
    ("text", "syntax", "expected"),
    [
        ("{a: 1}", Syntax.YAML, {"a": 1}),
        (' {"a": 1}', None, {"a": 1}),
        ("\n[1]", None, [1]),
        ("a: 1", None, {"a": 1}),
        ("5", Syntax.JSON, 5),
    ],
)
def test_the_syntax_is_told_or_seen(text: str, syntax: Syntax | None, expected: object) -> None:
    assert sources.parse(text, syntax).value == expected


@dataclass(frozen=True)
class _Found:
    pointer: str


def test_problems_are_placed_in_the_order_of_the_text() -> None:
    source = sources.parse(YAML_TEXT)
    found = [_Found("/steps/0/input/b~1c/1"), _Found("/steps/0/missing/deep"), _Found("/zzz")]

    assert sources.place(source, found) == [
        (Spot(1, 1), found[2]),
        (Spot(3, 5), found[1]),
        (Spot(5, 7), found[0]),
    ]
