"""Tables on narrow screens: ids stay whole."""

from io import StringIO

import pytest
from rich.console import Console

from pulseweave.cli import output

ID = "0197f3a0-0000-7000-8000-000000000001"


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_ids_are_whole_however_narrow_the_screen(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    told = StringIO()
    monkeypatch.setattr(output, "out", Console(file=told, width=width))
    words = "many words that a narrow screen breaks between its lines"
    output.table(("ID", "KEY", "TASK"), [(ID, words, ID), (ID, "short", ID)])
    lines = told.getvalue().splitlines()
    assert [line.count(ID) for line in lines if ID in line] == [2, 2]
    shown = " ".join(told.getvalue().split()).replace(ID, "")
    assert all(word in shown for word in words.split())
    assert "…" not in shown


def test_nothing_is_said_to_be_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told = StringIO()
    monkeypatch.setattr(output, "out", Console(file=told, width=80))
    output.table(("ID", "KEY"), [])
    assert told.getvalue() == "nothing to show\n"
