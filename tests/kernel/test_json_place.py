"""Finding the place of an error costs little, however large the text."""

import pytest

from pulseweave.kernel import canonical, json_place
from pulseweave.kernel.json_errors import InvalidJson, escape, pointer, short_pointer


def refused(raw: str) -> InvalidJson:
    with pytest.raises(InvalidJson) as caught:
        canonical.parse(raw)
    return caught.value


def test_the_search_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[" + "0," * 20 + '{"a": 1, "a": NaN}]'
    found = refused(text)
    assert (found.pointer, found.offset) == ("/20/a", 50)
    monkeypatch.setattr(json_place, "TOKENS_MAX", 10)
    lost = refused(text)
    assert (lost.pointer, lost.offset) == (None, None)
    assert "NaN" in lost.message or "'a' stands twice" in lost.message
    syntax = refused("[" + "0," * 20 + "x]")
    assert (syntax.pointer, syntax.offset) == (None, 41)


def test_a_repeated_key_is_named_beyond_the_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_place, "TOKENS_MAX", 1)
    assert refused('[[0, {"b": 1, "c": 2, "b": 3}]]').message == (
        "the key 'b' stands twice in one object"
    )


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 500_000,  # every quote but the first is escaped, and the string never ends
        "[" * 100 + '\\"' * 500_000,
        '["' + '","' * 300_000,
        " " * 1_000_000 + "x",
        "1" * 1_000_000,
        "0." + "1" * 1_000_000,
        "[" + "1" * 600 + ("," + "1" * 600) * 1_500 + "x]",
        "[" + ("1" * 300 + "e1x") * 3_000,
        "[" + ("1" * 249 + ",") * 4_000 + "x]",
        "[" + ("1" * 249 + "." + "1" * 249 + ",") * 2_000 + "NaN]",
        "[" + "1.1" * 300_000,
        "[" + "-" * 1_000_000,
    ],
)
@pytest.mark.timeout(20)
def test_hostile_texts_are_refused_in_linear_time(text: str) -> None:
    refused(text)


def test_a_doubtful_number_that_is_all_right_is_passed() -> None:
    fine = "1" * 300
    assert refused(f"[{fine}, 1e5, 0.{fine}, NaN]").pointer == "/3"


def test_pointers() -> None:
    assert pointer([]) == ""
    assert pointer(["a", 0, "b/c", "d~e", ""]) == "/a/0/b~1c/d~0e/"
    assert escape("~1") == "~01"
    assert short_pointer(["a", "b" * 600, "c"]) == "/a"
