"""How the provider fails on request, as real ones do by themselves; and the requests that it holds.

Faults and held requests live in memory: a restart forgets them. A request meets the first fault
that matches it, in the order in which they were set, and uses up one of its ``times``.
"""

import asyncio
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """What a fault does. The caller can't tell ``error_after`` from ``error_before``."""

    DROP_ANSWER = "drop_answer"  # applies, then closes the connection without an answer
    LATE_ANSWER = "late_answer"  # applies, answers after delay_ms
    REFUSE = "refuse"  # applies nothing, and says so: 402
    ERROR_AFTER = "error_after"  # applies, answers 500
    ERROR_BEFORE = "error_before"  # applies nothing, answers 500
    FORGET_KEYS = "forget_keys"  # applies again what it has applied for the same key
    HANG = "hang"  # applies nothing and does not answer, until released; then does both
    HOLD = "hold"  # applies, and does not answer until released


@dataclass
class Fault:
    """``order_id`` None: any order. ``times`` None: until it is deleted."""

    kind: str
    mode: Mode
    order_id: str | None = None
    times: int | None = None
    delay_ms: int | None = None


@dataclass(frozen=True)
class Wanted:
    """Which held requests; None: any."""

    kind: str | None = None
    order_id: str | None = None
    mode: str | None = None


@dataclass(frozen=True)
class Held:
    """A request on hold: ``request_id`` is its number in the ledger."""

    request_id: int
    kind: str
    order_id: str | None
    mode: Mode
    released: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)
    finished: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)

    def is_wanted(self, wanted: Wanted) -> bool:
        return (
            wanted.kind in (None, self.kind)
            and wanted.order_id in (None, self.order_id)
            and wanted.mode in (None, self.mode)
        )

    def shown(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "kind": self.kind,
            "order_id": self.order_id,
            "mode": self.mode,
        }


class Stopping(Exception):
    """The provider stops: what is on hold goes no further and gets no answer."""


class Faults:
    """The faults that are set, in order."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def clear(self) -> None:
        self._faults.clear()

    def shown(self) -> list[dict[str, Any]]:
        return [asdict(fault) for fault in self._faults]

    def meet(self, kind: str, order_id: str | None) -> Fault | None:
        """The fault that a request meets, if any."""
        for fault in self._faults:
            if fault.kind == kind and fault.order_id in (None, order_id):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
        return None


class Holds:
    """The requests on hold. Their callers may be gone; what they asked for still goes on."""

    def __init__(self) -> None:
        self._held: list[Held] = []
        self._arrived = asyncio.Event()
        self._stopping = False

    def matching(self, wanted: Wanted) -> list[Held]:
        return [held for held in self._held if held.is_wanted(wanted)]

    async def hold(self, held: Held, *, at_most_ms: int | None = None) -> None:
        """Return when released or after ``at_most_ms``; the caller sets ``finished`` in the end.

        Raises Stopping.
        """
        self._held.append(held)
        self._arrived.set()
        try:
            async with asyncio.timeout(None if at_most_ms is None else at_most_ms / 1000):
                await held.released.wait()
        except TimeoutError:
            pass
        finally:
            self._held.remove(held)
        if self._stopping:
            raise Stopping

    async def release(self, wanted: Wanted) -> int:
        """Let the matching ones go on; returns how many, when their effects are in the ledger."""
        released = self.matching(wanted)
        for held in released:
            held.released.set()
        for held in released:
            await held.finished.wait()
        return len(released)

    async def wait(self, wanted: Wanted, *, at_most_ms: int) -> list[Held]:
        """The matching ones, as soon as there is one; raises TimeoutError or Stopping."""
        async with asyncio.timeout(at_most_ms / 1000):
            while not (found := self.matching(wanted)):
                if self._stopping:
                    raise Stopping
                self._arrived.clear()
                await self._arrived.wait()
        return found

    def stop(self) -> None:
        self._stopping = True
        self._arrived.set()
        for held in self._held:
            held.released.set()
