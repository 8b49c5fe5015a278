"""Named places at which a process may be made to die, or a simulator to step in. Closed list.

Does nothing in production: one comparison. ``WEAVE_DIE_AT=name:n`` is honoured only after a test launcher
has called ``arm_from_environment``.
"""

import os
import signal
from collections.abc import Callable

from pulseweave.kernel.check import invariant

POINTS = frozenset(
    {
        "unit.after_begin",
        "unit.after_work",
        "unit.before_commit",
        "unit.after_commit",
        "server.before_answer",
        "engine.before_pump",
        "engine.after_pump",
        "worker.after_claim",
        "worker.after_start",
        "worker.after_effect",
        "worker.before_report",
        "worker.after_report",
    }
)

_callback: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Say that the process is at a named point."""
    if _callback is not None:
        invariant(name in POINTS, "crash points are a closed list", point=name)
        _callback(name)


def install(callback: Callable[[str], None] | None) -> None:
    """Have every reached point told to ``callback``; None switches it off."""
    global _callback  # noqa: PLW0603
    _callback = callback


def arm_from_environment() -> None:
    """Honour ``WEAVE_DIE_AT=name:n``: SIGKILL to this process when the point is reached for the n-th time."""
    wish = os.environ.get("WEAVE_DIE_AT")
    if not wish:
        return
    name, _, count = wish.partition(":")
    invariant(name in POINTS, "crash points are a closed list", point=name)
    left = int(count or "1")

    def die(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    install(die)
