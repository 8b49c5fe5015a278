"""The form of reasons, references, keys, revisions and names."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulseweave.kernel.texts import (
    complain_of_evidence_ref,
    complain_of_key,
    complain_of_name,
    complain_of_reason,
    complain_of_revision,
)

MAN = "\U0001f468"  # one code point, two units of UTF-16, four bytes


@pytest.mark.parametrize(
    "text", ["x", " x ", "line\nline\ttab", "核查", "x" * 1024, MAN * 1024, "\x01", "\u200b"]
)
def test_reasons(text: str) -> None:
    assert complain_of_reason(text) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1 to 1024 characters, this one 0"),
        ("x" * 1025, "1 to 1024 characters, this one 1025"),
        (MAN * 1025, "this one 1025"),
        (" ", "not blank"),
        ("\n\t\u3000\u00a0", "not blank"),
        ("a\0b", "neither NUL nor lone surrogates"),
        ("a\ud800b", "neither NUL nor lone surrogates"),
        ("a\udfff", "neither NUL nor lone surrogates"),
    ],
)
def test_other_reasons(text: str, complaint: str) -> None:
    assert complaint in (complain_of_reason(text) or "")


@pytest.mark.parametrize(
    "text",
    ["x", "https://tickets.example/T-1?a=b#c", "凭证-1", "x" * 512, MAN * 512, "file:///etc"],
)
def test_references(text: str) -> None:
    assert complain_of_evidence_ref(text) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1 to 512 characters, this one 0"),
        ("x" * 513, "1 to 512 characters, this one 513"),
        ("a b", "neither white space nor control characters"),
        (" a", "neither white space nor control characters"),
        ("a\u00a0", "neither white space nor control characters"),
        ("a\u3000b", "neither white space nor control characters"),
        ("a\u2028b", "neither white space nor control characters"),
        ("a\nb", "neither white space nor control characters"),
        ("a\0b", "neither white space nor control characters"),
        ("a\x7fb", "neither white space nor control characters"),
        ("a\x9fb", "neither white space nor control characters"),
        ("a\ud800", "no lone surrogates"),
    ],
)
def test_other_references(text: str, complaint: str) -> None:
    assert complaint in (complain_of_evidence_ref(text) or "")


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=512))
def test_a_reference_is_fine_unless_a_character_is_not(text: str) -> None:
    bad = any(c.isspace() or unicodedata.category(c) in ("Cc", "Cs") for c in text)
    assert (complain_of_evidence_ref(text) is not None) == bad


@pytest.mark.parametrize("text", ["k", "order-1042/charge", "!~", "a b", "x" * 200])
def test_keys(text: str) -> None:
    assert complain_of_key(text) is None


@pytest.mark.parametrize(
    "text", ["", " ", " a", "a ", "x" * 201, "é", "a\tb", "a\nb", "k\n", "a\0", "\x7f", "\ud800"]
)
def test_other_keys(text: str) -> None:
    assert "1 to 200 printable ASCII characters" in (complain_of_key(text) or "")


@pytest.mark.parametrize("text", ["1", "17", "9" * 19])
def test_revisions(text: str) -> None:
    assert complain_of_revision(text) is None


@pytest.mark.parametrize(
    "text", ["", "0", "01", "-1", "+1", "1.0", "1e3", " 1", "1\n", "٣", "1" * 20, "x"]
)
def test_other_revisions(text: str) -> None:
    assert "a decimal string" in (complain_of_revision(text) or "")


@pytest.mark.parametrize("text", ["a", "order 1042", "核查", "x" * 200, MAN * 200])
def test_names(text: str) -> None:
    assert complain_of_name(text) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1 to 200 characters, not 0"),
        ("x" * 201, "1 to 200 characters, not 201"),
        ("a\0b", "neither control characters nor lone surrogates"),
        ("a\nb", "neither control characters nor lone surrogates"),
        ("a\ud800", "neither control characters nor lone surrogates"),
    ],
)
def test_other_names(text: str, complaint: str) -> None:
    assert complain_of_name(text) == complaint


def test_a_name_has_the_length_of_its_column() -> None:
    assert complain_of_name("x" * 64, chars_max=64) is None
    assert complain_of_name("x" * 65, chars_max=64) == "1 to 64 characters, not 65"
