"""Testing definitions, handlers and recovery procedures without sleeping.

``WorkflowEnvironment`` is a whole Weave in this process, on a file of its own, with a clock that
moves when the test moves it. The client is the real one; handlers run one after the other in the
test's thread, as the worker would run them; what the worker can't know is told as honestly::

    with WorkflowEnvironment() as env:
        env.use(worker)
        env.client.definitions.put(order)
        env.lose_outcome("payments.charge")
        run = env.client.instances.start("order", key="o-1", input={"amount": 5})
        env.run()
        assert run.detail().state == "NEEDS_REVIEW"

Stands above the server's layers, like ``embedded``; nothing of the SDK imports it.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Self, TypeVar

from pulseweave.embedded import Embedded
from pulseweave.kernel import duration
from pulseweave.kernel.clock import ManualClock
from pulseweave.kernel.instant import format_at
from pulseweave.sdk import requests as r
from pulseweave.sdk.client import Client
from pulseweave.sdk.worker import outcome
from pulseweave.sdk.worker.context import Context, StartRefused
from pulseweave.sdk.worker.worker import Registered, Start, Worker
from pulseweave.store.facts.due import next_due_at
from pulseweave.txn.unit import read
from pulseweave.wire.worker import Claim, ClaimedTask, Hold, Report, TurnRequest

Handler = TypeVar("Handler", bound=Callable[..., Any])

_WORKER = "pulseweave.testing"
_ROUNDS_MAX = 10_000


class WorkflowEnvironment:
    """See the module. ``calls`` counts the executions of each handler that took effect."""

    __test__ = False  # not a test of anybody's, whatever the name

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weave-testing-")
        self._clock = ManualClock()
        url = f"sqlite:///{Path(self._folder.name) / 'weave.db'}"
        self._embedded = Embedded(url, clock=self._clock, engine=False)
        self._steps = self._embedded.steps()
        self.client = Client(transport=self._embedded, token=self._embedded.token)
        self._handlers: dict[str, Registered] = {}
        self._lost: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()
        self._folder.cleanup()

    # --- what runs -------------------------------------------------------------------------------

    def use(self, worker: Worker) -> None:
        """Take all handlers of a worker; it need not be started, and is never connected."""
        self._handlers |= worker.handlers

    def handler(self, name: str, *, start: Start = "auto") -> Callable[[Handler], Handler]:
        """Register one handler, or a stand-in for one of a worker's."""

        def register(function: Handler) -> Handler:
            is_async = iscoroutinefunction(function)
            self._handlers[name] = Registered(function, start, is_async)
            return function

        return register

    def lose_outcome(self, handler: str, *, times: int = 1) -> None:
        """The next executions take effect, and nobody hears of it: the worker dies behind it."""
        self._lost[handler] += times

    def die_before_effect(self, handler: str, *, times: int = 1) -> None:
        """The next executions are authorised and never take place: the worker dies before it."""
        self._dead[handler] += times

    # --- time ------------------------------------------------------------------------------------

    @property
    def now(self) -> str:
        """The time of this environment, RFC 3339."""
        return format_at(self._clock.now())

    def advance(self, by: str | timedelta) -> None:
        """Let time pass, ``"90s"`` or a timedelta: everything that falls due happens in its order,
        at its time.
        """
        by_ms = duration.parse(by) if isinstance(by, str) else by // timedelta(milliseconds=1)
        end = self._clock.now() + by_ms * 1000
        self.run()
        while (due := self._next_due()) is not None and due <= end:
            self._move_to(due)
            self.run()
        self._move_to(end)
        self.run()

    def run(self) -> None:
        """Everything that can happen now: the engine's steps and the handlers, until nothing is
        left to do.
        """
        for _ in range(_ROUNDS_MAX):
            self._steps.settle()
            if not self._work():
                return
        raise RuntimeError(f"still busy after {_ROUNDS_MAX} rounds: does a handler start itself?")

    def run_until_ended(self, instance_id: str) -> str:
        """Let as much time pass as the instance needs to end, or to need a person; its state."""
        for _ in range(_ROUNDS_MAX):
            self.run()
            found = self.client.instances.get(instance_id)
            if found.ended_at is not None or found.state == "NEEDS_REVIEW" or found.paused:
                return found.state
            due = self._next_due()
            if due is None:
                return found.state
            self._move_to(due)
        raise RuntimeError(f"instance {instance_id} has not ended after {_ROUNDS_MAX} moments")

    def _next_due(self) -> int | None:
        return read(self._steps.database, next_due_at)

    def _move_to(self, instant: int) -> None:
        """To the next whole millisecond, where time has not come further already."""
        left_us = instant - self._clock.now()
        if left_us > 0:
            self._clock.advance_ms(-(-left_us // 1000))

    # --- the worker's part -----------------------------------------------------------------------

    def _work(self) -> bool:
        """Run what can be claimed; whether there was anything."""
        queues = sorted(queue.name for queue in self.client.admin.queues())
        claimed: list[ClaimedTask] = []
        for first in range(0, len(queues), 64):
            claim = Claim(queues=queues[first : first + 64], limit=100)
            claimed += self.client.do(r.turn(TurnRequest(worker=_WORKER, claim=claim))).claimed
        known = [task for task in claimed if task.handler in self._handlers]
        strange = [_hold(task) for task in claimed if task.handler not in self._handlers]
        if strange:
            self.client.do(r.turn(TurnRequest(worker=_WORKER, releases=strange)))
        for task in known:
            self._execute(task, self._handlers[task.handler])
        return bool(known)

    def _execute(self, task: ClaimedTask, registered: Registered) -> None:
        execution = _Execution(self.client, task, is_async=registered.is_async)
        report: Report | None = None
        try:
            if registered.start == "auto":
                execution.start()
            if self._dead[task.handler] > 0:
                self._dead[task.handler] -= 1
                report = outcome.unknown(task, "the test's worker died", ended=True)
            else:
                report = self._call(task, registered, execution)
        except StartRefused:
            return
        if execution.started and self._lost[task.handler] > 0:
            self._lost[task.handler] -= 1
            report = outcome.unknown(task, "the test lost the outcome", ended=True)
        self.client.do(r.turn(TurnRequest(worker=_WORKER, reports=[report])))

    def _call(self, task: ClaimedTask, registered: Registered, execution: "_Execution") -> Report:
        try:
            result = registered.function(execution.context, task.input)
            if registered.is_async:
                result = asyncio.run(result)
        except StartRefused:
            raise
        except Exception as error:  # noqa: BLE001  # what a handler raises is told, not raised
            return outcome.of_exception(task, error, started=execution.started)
        finally:
            self.calls[task.handler] += execution.started
        return outcome.of_result(task, result)


class _Execution:
    """One execution: its context, and whether it was authorised."""

    def __init__(self, client: Client, task: ClaimedTask, *, is_async: bool) -> None:
        self._client = client
        self._task = task
        self.started = False
        self.context = Context(
            task, start=self.start, remaining_ms=lambda: task.lease_ms, is_async=is_async
        )

    def start(self) -> None:
        request = TurnRequest(worker=_WORKER, starts=[_hold(self._task)])
        (answer,) = self._client.do(r.turn(request)).starts
        if not answer.accepted:
            raise StartRefused(answer.code or "", answer.message or "")
        self.started = True


def _hold(task: ClaimedTask) -> Hold:
    return Hold(task_id=task.task_id, token=task.token)


__all__: list[str] = ["WorkflowEnvironment"]
