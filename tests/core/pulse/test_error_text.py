"""Whatever a handler says of its failure, the failure can be written (B088)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.core.pulse.error_text import code_of, cut, failure_text, unknown_text
from pulseweave.kernel import canonical, limits

_any_text = st.text(st.characters(exclude_categories=()), max_size=200)


@pytest.mark.case("B088")
@given(message=_any_text, detail=_any_text)
def test_any_text_is_told_as_ascii_and_read_back_as_it_was(message: str, detail: str) -> None:
    text = failure_text(message, [detail])
    assert text.isascii()
    assert "\0" not in text
    assert canonical.parse(text) == {"message": message, "details": [detail]}


@pytest.mark.case("B088")
@pytest.mark.parametrize("char", ["x", "\0", "\ud800", "\U0001f9ff"])
def test_words_that_are_too_many_are_cut_with_a_mark(char: str) -> None:
    bound = limits.MESSAGE_CHARS_MAX
    assert canonical.parse(failure_text(char * bound)) == {"message": char * bound}
    told = canonical.parse(failure_text(char * (bound + 1)))
    assert told == {"message": char * (bound - 1) + "…"}
    unknown = canonical.parse(unknown_text(char * (bound + 1), ended=True))
    assert unknown == {"message": char * (bound - 1) + "…", "ended": True}


@pytest.mark.case("B088")
def test_details_that_are_too_large_are_cut_and_their_size_is_told() -> None:
    room = limits.PAYLOAD_BYTES_MAX - len(failure_text("no", ""))
    whole = failure_text("no", "d" * room)
    assert len(whole) == limits.PAYLOAD_BYTES_MAX
    assert canonical.parse(whole)["details"] == "d" * room

    told = canonical.parse(failure_text("no", "d" * (room + 1)))
    assert told["message"] == "no"
    assert told["details"]["bytes"] == room + 3
    assert told["details"]["cut"] == '"' + "d" * (limits.MESSAGE_CHARS_MAX - 2) + "…"


@pytest.mark.case("B088")
def test_the_longest_failure_fits_its_bound() -> None:
    most = "\U0001f9ff" * (limits.MESSAGE_CHARS_MAX + 9)
    text = failure_text(most, [most] * 100)
    assert len(text) <= limits.PAYLOAD_BYTES_MAX


def test_no_details_are_no_details() -> None:
    assert failure_text("no") == '{"message":"no"}'
    assert failure_text("no", {"a": None}) == '{"details":{"a":null},"message":"no"}'


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ("CARD_DECLINED", "CARD_DECLINED"),
        ("http.402:a-b", "http.402:a-b"),
        ("größer als 5", "gr__er_als_5"),
        ("a\0\ud800b", "a__b"),
        ("²", "_"),
        ("", "FAILED"),
        ("C" * 70, "C" * limits.CODE_CHARS_MAX),
    ],
)
def test_a_code_fits_its_column(told: str, code: str) -> None:
    assert code_of(told) == code


def test_what_fits_is_not_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
