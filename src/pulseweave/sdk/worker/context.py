"""What a handler is given, and what it may raise.

``TaskFailed``: a failure that the handler *knows*. ``Cancelled``: cancel was asked, nothing took
effect and nothing runs any more. Any other exception after the start means that nobody knows:
UNKNOWN (PUL-4).
"""

import asyncio
from collections.abc import Callable, Generator
from threading import Event
from typing import Any

from pulseweave.wire.worker import ClaimedTask


class TaskFailed(Exception):
    """The effect did not happen, and the handler knows it. ``retryable``: another attempt may be
    made.
    """

    def __init__(
        self, code: str, message: str = "", *, retryable: bool = False, details: Any = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.details = details


class Cancelled(Exception):
    """Raised by a handler that was asked to cancel: nothing took effect, nothing runs."""


class StartRefused(Exception):
    """The server did not authorise the execution; the handler must do nothing outside."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class _Started:
    """The answer to ``ctx.start()``: already waited for in a sync handler, awaitable in an async
    one.
    """

    def __init__(self, wait: Callable[[], None], *, is_async: bool) -> None:
        self._wait = wait
        if not is_async:
            wait()

    def __await__(self) -> Generator[Any, None, None]:
        yield from asyncio.to_thread(self._wait).__await__()


class Context:
    """One execution, as its handler sees it."""

    def __init__(
        self,
        task: ClaimedTask,
        *,
        start: Callable[[], None],
        remaining_ms: Callable[[], int],
        is_async: bool,
    ) -> None:
        self.task_id = task.task_id
        self.handler = task.handler
        self.queue = task.queue
        self.attempt = task.attempt
        self.max_attempts = task.max_attempts
        self.business_key = task.business_key
        self.deadline_at = task.deadline_at
        self.instance_id = task.instance_id
        #: Set when the handler is to stop: cancel was asked, or the lease is about to be lost
        #: (B132).
        self.cancel_requested = Event()
        self._start = start
        self._remaining_ms = remaining_ms
        self._is_async = is_async

    def start(self) -> Any:
        """With ``start="manual"``: ask for authority, just before the effect. Raises StartRefused.

        ``await`` it in an async handler.
        """
        return _Started(self._start, is_async=self._is_async)

    @property
    def lease_remaining_ms(self) -> int:
        """How long this execution still has authority without another heartbeat."""
        return self._remaining_ms()
