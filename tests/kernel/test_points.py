"""Crash points: nothing in production, a callback in simulations, death in a test's process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulseweave.kernel import points
from pulseweave.kernel.check import InvariantViolation

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    points.install(None)


def test_a_point_does_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(points.DIE_AT, "unit.before_commit")
    points.reach("unit.before_commit")


def test_a_simulator_is_told_of_every_point() -> None:
    told: list[str] = []
    points.install(told.append)
    for name in sorted(points.POINTS):
        points.reach(name)
    assert told == sorted(points.POINTS)
    points.install(None)
    points.reach("unit.after_commit")
    assert len(told) == len(points.POINTS)


def test_an_error_of_the_callback_goes_on() -> None:
    def crash(name: str) -> None:
        raise ConnectionError(name)

    points.install(crash)
    with pytest.raises(ConnectionError, match=r"unit\.after_commit"):
        points.reach("unit.after_commit")


def test_unknown_points_are_refused_even_when_nobody_listens() -> None:
    with pytest.raises(InvariantViolation, match=r"unit\.no_such"):
        points.reach("unit.no_such")


@pytest.mark.parametrize(
    "wish",
    ["unit.no_such", "unit.before_commit:0", "unit.before_commit:x", "unit.before_commit:-1", ":1"],
)
def test_a_wish_of_another_form_is_refused(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(points.DIE_AT, wish)
    with pytest.raises(InvariantViolation, match="point:number"):
        points.arm_from_environment()


@pytest.mark.parametrize("wish", [None, ""])
def test_no_wish_arms_nothing(wish: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(points.DIE_AT, raising=False)
    if wish is not None:
        monkeypatch.setenv(points.DIE_AT, wish)
    points.arm_from_environment()
    points.reach("unit.before_commit")


@pytest.mark.parametrize(
    ("wish", "reaches"), [("unit.before_commit", 1), ("unit.before_commit:3", 3)]
)
def test_the_wish_is_fulfilled_at_the_nth_reach(
    wish: str, reaches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    monkeypatch.setenv(points.DIE_AT, wish)
    points.arm_from_environment()
    for _ in range(reaches - 1):
        points.reach("unit.before_commit")
        points.reach("unit.after_commit")
    assert killed == []
    points.reach("unit.before_commit")
    assert killed == [(os.getpid(), signal.SIGKILL)]


SCRIPT = """
import sys
from pulseweave.kernel import points
if "armed" in sys.argv:
    points.arm_from_environment()
for n in range(3):
    print(n, flush=True)
    points.reach("worker.after_effect")
"""


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={
            **os.environ,
            points.DIE_AT: "worker.after_effect:2",
            "PYTHONPATH": str(ROOT / "src"),
        },
        capture_output=True,
        check=False,
        text=True,
    )


def test_a_process_dies_at_its_point_only_when_it_was_armed() -> None:
    armed = run_script("armed")
    assert (armed.returncode, armed.stdout) == (-signal.SIGKILL, "0\n1\n")
    unarmed = run_script()
    assert (unarmed.returncode, unarmed.stdout) == (0, "0\n1\n2\n")
