"""Strict JSON in: what comes back exactly, and what is refused where."""

import json
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.kernel import canonical, limits
from pulseweave.kernel.canonical import InvalidJson, Literal, TooLarge
from tests.kernel.json_values import shape, values


def refused(raw: bytes | str, **bounds: int) -> InvalidJson:
    with pytest.raises(InvalidJson) as caught:
        canonical.parse(raw, **bounds)
    return caught.value


@given(values)
def test_any_value_comes_back_exactly(value: object) -> None:
    text = canonical.encode(value)
    assert shape(canonical.parse(text)) == shape(value)
    assert shape(canonical.parse(text.encode())) == shape(value)


@given(values)
def test_the_text_agrees_with_the_standard_library(value: object) -> None:
    assert json.loads(canonical.encode(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "9007199254740993",
        "3544790567247868102",
        "-9223372036854775808",
        str(2**64 - 1),
        str(2**200),
        "9" * 640,
        "-" + "9" * 640,
        "0",
        "-0",
        "-1",
        "0.1",
        "1.0",
        "-0.0",
        "1.10",
        "1E2",
        "1e2",
        "1e+16",
        "1e16",
        "1E400".replace("E400", "E-400"),
        "0.1000000000000000055511151231257827",
        "0.2345678901234568",
        "1e-320",
        "123456789012345678901234567890.1234567890",
        "0." + "3" * 638,
    ],
)
def test_a_number_keeps_its_characters(text: str) -> None:
    value = canonical.parse(text)
    assert canonical.encode(value) == text
    assert canonical.encode([{"a": value}]) == f'[{{"a":{text}}}]'


def test_types_of_numbers() -> None:
    assert type(canonical.parse("1")) is int
    assert type(canonical.parse("1.0")) is float
    assert type(canonical.parse("1e2")) is Literal
    assert canonical.parse("1e2") == 100.0
    assert type(canonical.parse("-0")) is Literal


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"\\ud800"', "\ud800"),
        (b'"\\udc00\\ud800"', "\udc00\ud800"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"\U0001f600"'.encode(), "\U0001f600"),
        (b'"\\u0000"', "\0"),
        (b'{"\\u0000": null}', {"\0": None}),
        (b' \t\r\n[ 1 , {"a" : true} ] \n', [1, {"a": True}]),
        ('"é"', "é"),
    ],
)
def test_texts_survive(raw: bytes | str, value: object) -> None:
    assert canonical.parse(raw) == value
    assert canonical.parse(canonical.encode(value)) == value


@pytest.mark.parametrize(
    ("raw", "pointer", "offset", "message"),
    [
        (b'{"a": 1, "a": 2}', "/a", 9, "the key 'a' stands twice"),
        (b'{"x": [0, {"a/b": 1, "~": 2, "a\\/b": 3}]}', "/x/1/a~1b", 29, "stands twice"),
        (b'{"a": {"b": 1, "b": 2}, "a": 1}', "/a/b", 15, "'b' stands twice"),
        (b'{"a": {"b": 1}, "b": {"a": {"c": 2, "c": []}}}', "/b/a/c", 36, "'c' stands twice"),
        (b"[1, NaN]", "/1", 4, "NaN is not JSON"),
        (b'{"a": [Infinity]}', "/a/0", 7, "Infinity is not JSON"),
        (b'{"a": [[], {}, -Infinity]}', "/a/2", 15, "-Infinity is not JSON"),
        (b'{"a": 1e400}', "/a", 6, "the number 1e400 is out of range"),
        (b'{"a": 1, "b": [2.5e3, -1E999]}', "/b/1", 22, "the number -1E999 is out of range"),
        (b"[" + b"9" * 400 + b".0]", "/0", 1, "is out of range"),
        (b'{"a": [1e400, }', "/a/0", 7, "the number 1e400 is out of range"),
        (b"[0, " + b"1" * 641 + b"]", "/1", 4, "an integer of 641 digits; at most 640"),
        (b"[-" + b"1" * 641 + b"]", "/0", 1, "an integer of 641 digits; at most 640"),
        (b"[0." + b"1" * 640 + b"]", "/0", 1, "a number of 642 characters; at most 640"),
        (b"[1] 2", "", 4, "something stands behind the value"),
        (b"{} }", "", 3, "something stands behind the value"),
        (b"", "", 0, "Expecting value"),
        (b"  ", "", 2, "Expecting value"),
        (b"\xef\xbb\xbf1", "", 0, "Expecting value"),
        (b'{"a": [1, tru]}', "/a/1", 10, "Expecting value"),
        (b'{"a": {"b": 1 "c": 2}}', "/a/b", 14, "Expecting ',' delimiter"),
        (b'{"a": [1, 2', "/a/1", 11, "Expecting ',' delimiter"),
        (b'{"a"}', "/a", 4, "Expecting ':' delimiter"),
        (b"{1: 2}", "", 1, "Expecting property name"),
        (b'{"a": 1, "b', "", 9, "Unterminated string"),
        (b'["a\nb"]', "/0", 3, "Invalid control character"),
        (b'{"a\nb": 1}', "", 3, "Invalid control character"),
        (b'["\\x"]', "/0", 2, "Invalid \\escape"),
        (b"[01]", "/0", 2, "Expecting ',' delimiter"),
        (b"[1.]", "/0", 2, "Expecting ',' delimiter"),
        (b"[+1]", "/0", 1, "Expecting value"),
        (b"['a']", "/0", 1, "Expecting value"),
        (b"]", "", 0, "Expecting value"),
        (b",", "", 0, "Expecting value"),
        (b'"a', "", 0, "Unterminated string"),
        (b'["a\\', "/0", 1, "Unterminated string"),
    ],
)
def test_a_refusal_names_the_place(raw: bytes, pointer: str, offset: int, message: str) -> None:
    error = refused(raw)
    assert message in error.message
    assert (error.code, error.pointer, error.offset) == ("INVALID_JSON", pointer, offset)
    assert str(error).startswith(error.message)
    assert f"offset {offset}" in str(error)


def test_bad_utf8_is_refused_with_its_byte() -> None:
    error = refused(b'{"a": "\xff"}')
    assert (error.message, error.pointer, error.offset) == ("the text is not UTF-8", None, 7)
    assert str(error) == "the text is not UTF-8 at offset 7"
    assert refused(b'"\xed\xa0\x80"').message == "the text is not UTF-8"


def test_a_lone_surrogate_must_be_an_escape() -> None:
    error = refused('["\ud800"]')
    assert "written as an escape" in error.message
    assert error.offset == 2


@pytest.mark.parametrize("raw", [b'"12345678"', '"12345678"', '"éééé"', '"éééé"'.encode()])
def test_size_is_counted_in_bytes(raw: bytes | str) -> None:
    assert canonical.parse(raw, bytes_max=10)
    error = refused(raw, bytes_max=9)
    assert isinstance(error, TooLarge)
    assert error.code == "PAYLOAD_TOO_LARGE"
    assert error.message == "the text has 10 bytes; at most 9 are allowed"


def test_a_body_has_the_bounds_of_a_body() -> None:
    deepest = "[" * limits.BODY_DEPTH_MAX + "]" * limits.BODY_DEPTH_MAX
    assert canonical.encode(canonical.parse_body(deepest)) == deepest
    with pytest.raises(InvalidJson, match="nested deeper than 72 levels"):
        canonical.parse_body("[" + deepest + "]")
    with pytest.raises(TooLarge):
        canonical.parse_body(b" " * limits.BODY_BYTES_MAX + b"1")
    assert canonical.parse_body(b" 1", bytes_max=2) == 1


def test_the_bounds_of_depth_nest() -> None:
    assert limits.JSON_DEPTH_MAX < limits.BODY_DEPTH_MAX < limits.STORED_DEPTH_MAX
    deepest = "[" * limits.STORED_DEPTH_MAX + "]" * limits.STORED_DEPTH_MAX
    assert canonical.encode(canonical.parse(deepest)) == deepest


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("levels", [300, 1000, 100_000])
def test_deep_nesting_is_refused_with_flat_memory(opening: str, levels: int) -> None:
    raw = (opening * levels).encode()
    tracemalloc.start()
    error = refused(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.message == "nested deeper than 128 levels"
    assert error.code == "INVALID_JSON"
    assert error.pointer is not None
    assert len(error.pointer) <= 512
    assert peak < 4 * len(raw) + 500_000


def test_brackets_that_close_nothing() -> None:
    assert refused("]" + "[" * 300).message == "nested deeper than 128 levels"
    assert refused("," + "[" * 300).message == "nested deeper than 128 levels"
    assert refused("]" * 300 + "[" * 300).message == "Expecting value"


def test_the_place_of_what_is_too_deep() -> None:
    error = refused('{"a": [[], [{"b": "]"}]]}', depth_max=3)
    assert (error.pointer, error.offset) == ("/a/1/0", 12)


@pytest.mark.parametrize(
    "text",
    [
        '["[[[[", "{{{", 1]',
        '["\\"[[[[[", 1]',
        '["\\\\", "[[[[["]',
        '["\\\\\\"[[[[["]',
        '["a", "", "b"]',
        '["\\n[[[[[[", "\\u005b"]',
        "[[], [], [], [], {}, {}]",
        '["[", "[", "["]',
    ],
)
def test_brackets_in_strings_and_side_by_side_are_no_depth(text: str) -> None:
    assert canonical.parse(text, depth_max=2) == json.loads(text)


@given(values, st.integers(0, 4))
def test_depth_is_that_of_the_value(value: object, depth_max: int) -> None:
    text = canonical.encode(value)
    if _depth(value) <= depth_max:
        assert canonical.parse(text, depth_max=depth_max) == value
    else:
        assert (
            refused(text, depth_max=depth_max).message == f"nested deeper than {depth_max} levels"
        )


def _depth(value: object) -> int:
    children = (
        list(value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else None
    )
    return 0 if children is None else 1 + max(map(_depth, children), default=0)


@given(values, st.data())
def test_a_broken_text_is_refused_or_another_text(value: object, data: st.DataObject) -> None:
    """Nothing but InvalidJson leaves the parser, and its place lies in the text."""
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1])))
    at = data.draw(st.integers(0, len(text)))
    more = data.draw(
        st.sampled_from(["", "]", "}", ",", '"', "\\", "1e999", "NaN", "[", '{"a":1,"a":2}'])
    )
    gone = data.draw(st.integers(0, 3))
    broken = text[:at] + more + text[at + gone :]
    known, error = outcome(broken)
    if error is None:
        assert json.loads(broken) == known
    else:
        assert error.offset is None or 0 <= error.offset <= len(broken)
        assert error.pointer is None or error.pointer == "" or error.pointer.startswith("/")


def outcome(raw: str) -> tuple[object, InvalidJson | None]:
    try:
        return canonical.parse(raw), None
    except InvalidJson as error:
        return None, error


@given(st.text())
def test_any_text_is_read_as_the_standard_library_does_or_refused(text: str) -> None:
    try:
        known: object = canonical.parse(text)
    except InvalidJson:
        return
    assert json.loads(text) == known


@given(st.binary())
def test_any_bytes_are_a_value_or_refused(raw: bytes) -> None:
    try:
        known: object = canonical.parse(raw)
    except InvalidJson:
        return
    assert json.loads(raw) == known


def test_no_setting_of_the_interpreter_breaks_the_longest_integers() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(sys.int_info.str_digits_check_threshold)
    try:
        longest = "9" * limits.INTEGER_DIGITS_MAX
        assert canonical.encode(canonical.parse(longest)) == longest
    finally:
        sys.set_int_max_str_digits(before)


def test_an_error_stays_short_whatever_was_sent() -> None:
    key = "k" * 100_000
    error = refused(f'{{"{key}": {{"a": 1, "a": 2}}}}')
    assert error.pointer == ""
    assert len(str(error)) < 1000
    twice = refused(f'{{"{key}": 1, "{key}": 2}}')
    assert len(str(twice)) < 1000
    assert "…" in twice.message
