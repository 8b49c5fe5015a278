"""Wake-ups for long polls: hints of committed transactions, heard across threads. Only ever hints
(B106).
"""

import asyncio
from collections.abc import Hashable, Iterable
from threading import Lock
from typing import Any

Scope = tuple[str, Hashable]


class Wakeups:
    """Waiters by scope, each on its own event loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Scope, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    def heard(self, hints: dict[str, set[Any]]) -> None:
        """Called after a commit, on whatever thread committed."""
        woken: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        with self._lock:
            for kind, values in hints.items():
                for value in values:
                    woken += self._waiting.get((kind, value), ())
        for loop, event in woken:
            loop.call_soon_threadsafe(event.set)

    async def wait(self, scopes: Iterable[Scope], timeout_s: float) -> None:
        """Until something in one of the scopes was hinted at, or the time is over."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        wanted = set(scopes)
        with self._lock:
            for scope in wanted:
                self._waiting.setdefault(scope, set()).add(waiter)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                for scope in wanted:
                    self._waiting[scope].discard(waiter)
                    if not self._waiting[scope]:
                        del self._waiting[scope]
