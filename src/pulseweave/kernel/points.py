"""Named places at which a process may be made to die, or a simulator may step in. A closed list.

In production ``reach`` looks the name up and does nothing. ``WEAVE_DIE_AT=name:n`` is honoured only
after a test's launcher has called ``arm_from_environment``: no setting can make a real server die.
"""

import os
import re
import signal
from collections.abc import Callable

from pulseweave.kernel.check import InvariantViolation

POINTS = frozenset(
    {
        "unit.after_begin",
        "unit.after_work",
        "unit.before_commit",
        "unit.after_commit",
        "server.after_decode",
        "server.before_answer",
        "engine.before_pump",
        "engine.after_pump",
        "engine.after_wake",
        "engine.after_sweep",
        "engine.after_promote",
        "worker.after_claim",
        "worker.after_start",
        "worker.after_effect",
        "worker.before_report",
        "worker.after_report",
    }
)

DIE_AT = "WEAVE_DIE_AT"
_WISH = re.compile(r"([a-z_.]+)(?::([1-9][0-9]{0,8}))?")

_callback: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Say that the process is at a named point."""
    if name not in POINTS:
        raise InvariantViolation("crash points are a closed list", {"point": name})
    if _callback is not None:
        _callback(name)


def install(callback: Callable[[str], None] | None) -> None:
    """Tell ``callback`` of every reached point, in the thread that reaches it; None ends it."""
    global _callback  # noqa: PLW0603  # one process, one set of points
    _callback = callback


def arm_from_environment() -> None:
    """Honour ``WEAVE_DIE_AT=name:n``: SIGKILL to this process when the point is reached for the
    n-th time (the first, where no number is given). Raises InvariantViolation for another form.
    """
    wish = os.environ.get(DIE_AT)
    if not wish:
        return
    found = _WISH.fullmatch(wish)
    if found is None or found[1] not in POINTS:
        raise InvariantViolation(f"{DIE_AT} is point:number", {"wish": wish})
    install(_Death(found[1], int(found[2] or "1")))


class _Death:
    """Ends the process at the n-th reach of one point."""

    def __init__(self, point: str, left: int) -> None:
        self._point = point
        self._left = left

    def __call__(self, name: str) -> None:
        if name == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
