"""Threads that call the engine's steps. A hint wakes a loop at once; its rest bounds what a lost
hint costs.

A step that fails because the database does is tried again after a growing rest, and said so once;
no step failing stops another loop, and nothing here decides anything.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from pulseweave.kernel.errors import OutcomeUnknown, Unavailable
from pulseweave.runtime.steps import Steps

log = logging.getLogger("pulseweave.engine")

REST_MS_MAX = 10_000
LOST_WAITS_REST_MS = 60_000
PRUNE_REST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Duty:
    """A loop: its step, how long it rests at most, and the kind of hint that wakes it."""

    name: str
    step: Callable[[], bool]
    rest_ms: int
    hint: str | None


class _Loop:
    def __init__(self, duty: Duty) -> None:
        self.duty = duty
        self.woken = Event()
        self.stopping = False
        self.failures = 0
        self.thread = Thread(target=self._run, name=f"weave-{duty.name}", daemon=True)

    def _run(self) -> None:
        while not self.stopping:
            self.woken.clear()
            if self._step():
                continue
            rest_ms = min(
                self.duty.rest_ms << min(self.failures, 10), max(REST_MS_MAX, self.duty.rest_ms)
            )
            self.woken.wait(rest_ms / 1000)

    def _step(self) -> bool:
        try:
            more = self.duty.step()
        except (Unavailable, OutcomeUnknown) as error:
            if self.failures == 0:
                log.warning("%s: %s", self.duty.name, error)
            self.failures += 1
            return False
        except Exception:
            log.exception("the %s loop met an unexpected fault", self.duty.name)
            self.failures += 1
            return False
        if self.failures:
            log.info("%s works again after %d failures", self.duty.name, self.failures)
        self.failures = 0
        return more


class Engine:
    """All loops of one process. Any number of processes may run them over one database.

    ``lost_waits_rest_ms``: how long the search for lost waits (WEA-19) rests; it reads much.
    """

    def __init__(self, steps: Steps, *, lost_waits_rest_ms: int = LOST_WAITS_REST_MS) -> None:
        duties = (
            Duty("pump", steps.pump, 200, "partition"),
            Duty("wake", steps.wake, 250, "instance"),
            Duty("sweep", steps.sweep, 500, None),
            Duty("promote", steps.promote, 1000, "key"),
            Duty("prune", steps.prune, PRUNE_REST_MS, None),
            Duty("lost-waits", steps.find_lost_waits, lost_waits_rest_ms, None),
        )
        self._loops = [_Loop(duty) for duty in duties]
        steps.database.on_hints.append(self._heard)

    def _heard(self, hints: dict[str, set[Any]]) -> None:
        for loop in self._loops:
            if loop.duty.hint in hints:
                loop.woken.set()

    def start(self) -> None:
        for loop in self._loops:
            loop.thread.start()

    def stop(self, timeout_s: float = 10) -> None:
        """Let each loop finish its step; a step is one transaction, so nothing is half done."""
        for loop in self._loops:
            loop.stopping = True
            loop.woken.set()
        for loop in self._loops:
            if loop.thread.is_alive():
                loop.thread.join(timeout_s)

    @property
    def failing(self) -> list[str]:
        """Loops whose last step failed; not ready while there are any."""
        return [loop.duty.name for loop in self._loops if loop.failures]
