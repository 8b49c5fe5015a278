"""Contracts: JSON Schema 2020-12, exact and local, for every value that JSON allows (WEA-2)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.core.weave.definition.contract import (
    VIOLATIONS_MAX,
    Contract,
    compile_contract,
)
from pulseweave.core.weave.definition.problems import ProblemCode, Problems
from pulseweave.kernel.canonical import Literal, parse


def contract(schema: object) -> Contract:
    problems = Problems()
    made = compile_contract(schema, (), problems)
    assert problems.found == ()
    assert made is not None
    return made


def pointers(schema: object, value: object) -> list[str]:
    return [found.pointer for found in contract(schema).check(value)]


ROW = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "a/b": {"type": "array", "items": {"minimum": 3}}},
    "additionalProperties": False,
}


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (ROW, {"id": 1}, []),
        (ROW, {}, [""]),
        (ROW, [], [""]),
        (ROW, {"id": "1", "a/b": [3, 2, 1]}, ["/a~1b/1", "/a~1b/2", "/id"]),
        (ROW, {"id": 1, "other": 1}, [""]),
        (True, None, []),
        (False, None, [""]),
        ({}, {"anything": [1]}, []),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"const": 1}}}, 2, [""]),
        ({"$ref": "#named", "$defs": {"x": {"$anchor": "named", "const": 1}}}, 2, [""]),
        ({"items": {"$ref": "#"}, "type": "array"}, [[[1]]], ["/0/0/0"]),
        ({"type": "string", "format": "email"}, "not an address", []),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, 1, []),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema#"}, 1, []),
        ({"const": {"$ref": "http://example.com"}}, 1, [""]),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": 1}, ["/$ref"]),
        ({"prefixItems": [{"type": "null"}], "unevaluatedItems": False}, [None, 1], [""]),
    ],
)
def test_checks(schema: object, value: object, expected: list[str]) -> None:
    assert sorted(pointers(schema, value)) == expected


@pytest.mark.parametrize(
    ("schema", "value", "meets"),
    [
        ({"type": "integer"}, 10**600, True),
        ({"type": "string"}, 10**600, False),
        ({"const": 2**53 + 1}, 2**53 + 1, True),
        ({"const": 2**53 + 1}, 2**53, False),
        ({"maximum": 10**40}, 10**40, True),
        ({"maximum": 10**40}, 10**40 + 1, False),
        ({"enum": [2**70]}, 2**70 + 1, False),
        ({"multipleOf": 10}, 10**30 + 1, False),
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, Literal("-0"), True),
        ({"type": "integer"}, Literal("1E5"), True),
        ({"type": "integer"}, Literal("1.10"), False),
        ({"const": 1.1}, Literal("1.10"), True),
        ({"maximum": Literal("1.0000000000000000001")}, Literal("1.0000000000000000002"), False),
        ({"maximum": Literal("1.0000000000000000002")}, Literal("1.0000000000000000001"), True),
        ({"exclusiveMinimum": 0}, Literal("1e-350"), True),
        ({"exclusiveMinimum": 0}, Literal("1e-9999"), False),
        ({"exclusiveMinimum": 0}, Literal("1e-99999999999999999999"), False),
        ({"multipleOf": 0.01}, Literal("0.070"), True),
        ({"const": 1}, True, False),
        ({"const": False}, 0, False),
    ],
)
def test_numbers_compare_exactly(schema: object, value: object, meets: bool) -> None:
    assert (contract(schema).check(value) == []) is meets


@pytest.mark.parametrize(
    ("schema", "value", "meets"),
    [
        ({"type": "string", "minLength": 1}, "\0", True),
        ({"pattern": "^\\u0000$"}, "\0", True),
        ({"type": "string", "minLength": 3, "maxLength": 3}, "a\ud800\udbff", True),
        ({"type": "string", "maxLength": 1}, "\udfff\udfff", False),
        ({"type": "integer"}, "\ud800", False),
        ({"const": "\ud800"}, "\ud800", True),
        ({"const": "\ud800"}, "\ud801", False),
        ({"enum": ["a\udfff"]}, "a\udfff", True),
        ({"uniqueItems": True}, ["\ud800", "\ud801"], True),
        ({"uniqueItems": True}, ["\ud800", "\ud800"], False),
        ({"required": ["\ud800"]}, {"\ud800": 1}, True),
        ({"properties": {"\ud800": {"type": "string"}}}, {"\ud800": 1}, False),
        ({"additionalProperties": False}, {"\ud800": 1}, False),
        ({"minProperties": 2}, dict.fromkeys(("\ud800", "\ud801")), True),
        ({"maxLength": 1}, "😀", True),
    ],
)
def test_any_text_can_be_checked(schema: object, value: object, meets: bool) -> None:
    assert (contract(schema).check(value) == []) is meets


def test_a_lone_surrogate_is_told_as_it_was() -> None:
    schema = {"properties": {"\ud800": {"type": "string"}}, "required": ["é\udfff"]}
    found = contract(schema).check({"\ud800": 1})

    assert {violation.pointer for violation in found} == {"/\ud800", ""}
    assert any("é\udfff" in violation.message for violation in found)


_texts = st.text(st.characters(exclude_categories=()), max_size=6)
_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**40), 10**40),
        st.floats(allow_nan=False, allow_infinity=False),
        _texts,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)
    ),
    max_leaves=10,
)


@pytest.mark.exhaustive
@given(value=_json)
def test_every_json_value_is_its_own_constant_and_no_other(value: Any) -> None:
    made = contract({"const": value})

    assert made.check(value) == []
    assert made.check([value, "other"]) != []


@pytest.mark.exhaustive
@given(value=_json)
def test_no_value_breaks_a_check(value: object) -> None:
    made = contract(
        {
            "anyOf": [{"type": "array", "uniqueItems": True}, {"type": "object"}, {"maximum": 5}],
            "propertyNames": {"pattern": "^[a-z]*$"},
            "items": {"multipleOf": 0.5, "minLength": 2},
        }
    )

    for violation in made.check(value):
        assert violation.message


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"enum": ["a"]},
        {"pattern": "^a$"},
        {"const": 5},
        {"not": {}},
        {"maxLength": 3},
        {"items": False},
        {"additionalProperties": False},
        {"contains": {"const": 1}},
        {"oneOf": [{"type": "null"}]},
    ],
)
@pytest.mark.parametrize("value", ["secret", ["secret"], {"key": "secret"}])
def test_a_message_never_repeats_the_value(schema: object, value: object) -> None:
    for violation in contract(schema).check(value):
        assert "secret" not in violation.message


def test_the_number_of_violations_is_bounded() -> None:
    found = contract({"items": {"type": "integer"}}).check(["x"] * 10_000)

    assert len(found) == VIOLATIONS_MAX


@pytest.mark.rule("WEA-1")
@pytest.mark.parametrize(
    ("schema", "pointer", "told"),
    [
        (5, "", "not of types"),
        (None, "", "not of types"),
        ({"type": "strin"}, "/type", "a type is one of array, boolean"),
        ({"properties": {"type": 5}}, "/properties/type", "not of types"),
        ({"minLength": -1}, "/minLength", "less than the minimum"),
        ({"pattern": "("}, "/pattern", 'not a "regex"'),
        ({"pattern": "(?=a)b"}, "/pattern", "look-around and back-references are not supported"),
        ({"pattern": "(a)\\1"}, "/pattern", "look-around and back-references are not supported"),
        ({"patternProperties": {"(": True}}, "/patternProperties/(", 'not a "regex"'),
        ({"$ref": "http://example.com/x"}, "/$ref", "is not local"),
        ({"$ref": "file:///etc/passwd"}, "/$ref", "is not local"),
        ({"$ref": "other.json#/x"}, "/$ref", "is not local"),
        (
            {"anyOf": [{"$ref": "https://json-schema.org/draft/2020-12/schema"}]},
            "/anyOf/0/$ref",
            "local",
        ),
        ({"$dynamicRef": "http://example.com/x"}, "/$dynamicRef", "is not local"),
        ({"$ref": "#/$defs/missing"}, "", "does not exist"),
        ({"$ref": "#missing"}, "", "does not exist"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema", "2020-12"),
        ({"properties": {"\ud800": {"type": 1}}}, "/properties/\ud800/type", "a type is one of"),
        ({"$id": ":::"}, "", "Invalid URI"),
    ],
)
def test_a_bad_contract_is_refused_with_its_place(schema: object, pointer: str, told: str) -> None:
    problems = Problems()

    assert compile_contract(schema, ("input",), problems) is None
    (problem,) = problems.found
    assert (problem.code, problem.pointer) == (ProblemCode.BAD_CONTRACT, "/input" + pointer)
    assert told in problem.message


def test_all_errors_of_a_contract_are_told() -> None:
    problems = Problems()
    schema = {"type": 1, "minimum": "x", "not": {"$ref": "x"}, "items": {"required": "a"}}
    compile_contract(schema, (), problems)

    assert [problem.pointer for problem in problems.found] == [
        "/items/required",
        "/minimum",
        "/not/$ref",
        "/type",
    ]


def test_a_schema_nested_as_deep_as_a_document_may_be_is_handled() -> None:
    schema = parse('{"not":' * 63 + "{}" + "}" * 63)

    assert len(contract(schema).check(1)) == 1


def test_one_contract_serves_many_threads() -> None:
    made = contract(ROW)

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda n: len(made.check({"id": "x", "a/b": [n]})), range(200)))
    assert counts == [2 if n < 3 else 1 for n in range(200)]
