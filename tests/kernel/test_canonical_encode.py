"""Canonical JSON out: one text for one value, and what is no JSON with its place."""

import enum
import json
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from copy import copy, deepcopy
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given

from pulseweave.kernel import canonical, limits
from pulseweave.kernel.canonical import InvalidJson, Literal, TooLarge
from pulseweave.kernel.check import InvariantViolation
from tests.kernel.json_values import values

ROOT = Path(__file__).parents[2]


class Colour(enum.StrEnum):
    RED = "red"


class OldColour(str, enum.Enum):  # noqa: UP042  # the older kind writes itself otherwise
    RED = "red"


class Size(enum.IntEnum):
    BIG = 7


class Text(str):
    __slots__ = ()


class Ratio(float):
    __slots__ = ()

    def __repr__(self) -> str:
        return "a ratio"


def refused(value: object, **bounds: int) -> InvalidJson:
    with pytest.raises(InvalidJson) as caught:
        canonical.encode(value, **bounds)
    return caught.value


@given(values)
def test_the_text_is_canonical(value: object) -> None:
    text = canonical.encode(value)
    assert text.isascii()
    assert canonical.encode(canonical.parse(text)) == text


def test_the_form() -> None:
    value = {"b": [1, 2.5, True, None], "a": {"é": "\0\ud800\U0001f600/\x7f"}, "": Literal("1E2")}
    text = '{"":1E2,"a":{"\\u00e9":"\\u0000\\ud800\\ud83d\\ude00/\\u007f"},"b":[1,2.5,true,null]}'
    assert canonical.encode(value) == text
    del value[""]
    assert canonical.encode(value) == text.replace('"":1E2,', "")


@pytest.mark.parametrize("extra", [[], [Literal("1.10")]])
def test_keys_are_sorted_by_code_point(extra: list[object]) -> None:
    keys = ["\U0001f600", "\uffff", "a", "Z", "", "aa", "\ud83d", "a\0"]
    text = canonical.encode([dict.fromkeys(keys), *extra])
    assert list(json.loads(text)[0]) == sorted(keys, key=lambda key: [ord(char) for char in key])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, (2,)), "[1,[2]]"),
        ({Colour.RED: Colour.RED}, '{"red":"red"}'),
        ({OldColour.RED: OldColour.RED}, '{"red":"red"}'),
        ([Size.BIG, True], "[7,true]"),
        ([Text("a"), {Text("b"): Text("c")}], '["a",{"b":"c"}]'),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        ([Ratio(0.5)], "[0.5]"),
        ([1e16, 1.0, -0.0, 5e-324], "[1e+16,1.0,-0.0,5e-324]"),
        ([], "[]"),
        ({}, "{}"),
        ([(), {}], "[[],{}]"),
    ],
)
def test_what_counts_as_json(value: object, text: str) -> None:
    assert canonical.encode(value) == text


@pytest.mark.parametrize(
    ("value", "pointer", "message"),
    [
        ({"a": [0, float("nan")]}, "/a/1", "nan is not JSON"),
        ({"a": {"b/c": float("-inf")}}, "/a/b~1c", "-inf is not JSON"),
        ([[Ratio("inf")]], "/0/0", "inf is not JSON"),
        ({"a": {1, 2}}, "/a", "a set is not JSON"),
        ([b"x"], "/0", "a bytes is not JSON"),
        ([0, Decimal("1.5")], "/1", "a Decimal is not JSON"),
        (object(), "", "a object is not JSON"),
        ({"a": {1: "x"}}, "/a", "the key '1' is no text"),
        ({"a": {None: "x", "b": 1}}, "/a", "the key 'None' is no text"),
        ([{True: 1}], "/0", "the key 'True' is no text"),
        ([10**640], "/0", "an integer of more than 640 digits"),
        ([-(10**640)], "/0", "an integer of more than 640 digits"),
        ({"a": 10**5000}, "/a", "an integer of more than 640 digits"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(
    value: object, pointer: str, message: str
) -> None:
    error = refused(value)
    assert (error.pointer, error.message, error.offset) == (pointer, message, None)
    assert str(error) == f"{message} at {pointer or 'the top'}"


def test_a_value_that_contains_itself() -> None:
    inner: list[object] = []
    value = {"a": [inner]}
    inner.append(value)
    error = refused(value)
    assert (error.pointer, error.message) == ("/a/0/0", "a value that contains itself is not JSON")


def test_one_value_may_stand_in_many_places() -> None:
    shared = {"a": Literal("1E2")}
    assert canonical.encode([shared, {"b": shared}]) == '[{"a":1E2},{"b":{"a":1E2}}]'


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_is_bounded_as_it_is_for_reading() -> None:
    text = canonical.encode(nested(limits.STORED_DEPTH_MAX))
    assert canonical.encode(canonical.parse(text)) == text
    error = refused(nested(limits.STORED_DEPTH_MAX + 1))
    assert error.message == "nested deeper than 128 levels"
    assert error.pointer == "/0" * 128
    assert refused(nested(100_000)).message == "nested deeper than 128 levels"
    assert refused([1, [2]], depth_max=1).pointer == "/1"
    assert refused([{}], depth_max=1).pointer == "/0"
    assert refused([1], depth_max=0).pointer == ""


def test_a_payload_has_the_bounds_of_a_payload() -> None:
    deepest = nested(limits.JSON_DEPTH_MAX)
    assert canonical.encode_payload(deepest) == canonical.encode(deepest)
    with pytest.raises(InvalidJson, match="nested deeper than 64 levels"):
        canonical.encode_payload([deepest])
    largest = "x" * (limits.PAYLOAD_BYTES_MAX - 2)
    assert canonical.encode_payload(largest) == f'"{largest}"'
    with pytest.raises(TooLarge) as caught:
        canonical.encode_payload(largest + "x")
    assert (caught.value.code, caught.value.pointer) == ("PAYLOAD_TOO_LARGE", "")
    with pytest.raises(TooLarge):
        canonical.encode_payload("é", bytes_max=7)
    assert canonical.encode_payload("é", bytes_max=8) == '"\\u00e9"'


# --- literals -------------------------------------------------------------------------------------


def test_a_literal_computes_as_a_float_and_writes_itself() -> None:
    literal = Literal("1.10")
    assert literal == 1.1
    assert hash(literal) == hash(1.1)
    assert literal + 1 == 2.1
    assert (literal.text, repr(literal), str(literal)) == ("1.10", "1.10", "1.10")
    for same in (copy(literal), deepcopy(literal), pickle.loads(pickle.dumps(literal))):
        assert type(same) is Literal
        assert same.text == "1.10"


def test_a_literal_never_changes() -> None:
    with pytest.raises(AttributeError):
        Literal("1.10").text = "2"  # type: ignore[misc]  # that is the point
    with pytest.raises(AttributeError):
        Literal("1.10").other = 1  # type: ignore[attr-defined]  # nor may it grow


@pytest.mark.parametrize(
    "text", ["inf", "nan", " 1", "1 ", "1_0", "01", "1.", ".5", "+1", "", "1e", "٣", "0x1", "1\n"]
)
def test_a_literal_is_a_number_of_json(text: str) -> None:
    with pytest.raises(InvalidJson, match="is no number of JSON"):
        Literal(text)


def test_a_literal_is_bounded_like_any_number() -> None:
    with pytest.raises(InvalidJson, match="out of range"):
        Literal("1e400")
    with pytest.raises(InvalidJson, match="641 characters"):
        Literal("1." + "0" * 639)


# --- digests --------------------------------------------------------------------------------------


def test_a_digest_is_that_of_the_canonical_text() -> None:
    expected = "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert canonical.digest('{"a":1}') == expected
    assert canonical.digest_of({"a": 1}) == expected
    assert canonical.digest_of({"b": 2, "a": 1}) == canonical.digest_of({"a": 1, "b": 2})
    assert canonical.digest_of(1) != canonical.digest_of(1.0)
    with pytest.raises(InvariantViolation):
        canonical.digest('"é"')


SCRIPT = """
from pulseweave.kernel import canonical
names = {f"key-{n}" for n in range(200)} | {"\\ud800", "\\0", "\\U0001f600"}
value = {name: [{other: 1.5 for other in names}, canonical.parse("1E2")] for name in names}
print(canonical.digest_of(value))
"""


def test_digests_do_not_depend_on_the_hash_seed() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(told) == 1
    assert told.pop().startswith("sha256:")
