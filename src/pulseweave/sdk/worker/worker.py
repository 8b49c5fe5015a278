"""The worker: threads around ``slots``. One tells and starts, one claims, one keeps leases alive.

Reports, starts and heartbeats never wait behind a long poll, and heartbeats share neither thread
nor loop with handlers (B130). What a handler did is told until the server has answered, across its
restarts.
"""

import asyncio
import logging
import os
import platform
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, Literal, TypeVar

from pulseweave.kernel.clock import SystemClock
from pulseweave.kernel.errors import WeaveError
from pulseweave.kernel.points import reach
from pulseweave.sdk import requests as r
from pulseweave.sdk.client import Client
from pulseweave.sdk.retry import pause_s
from pulseweave.sdk.worker import outcome
from pulseweave.sdk.worker.context import Context, StartRefused
from pulseweave.sdk.worker.slots import Phase, Slot, Slots, Turn
from pulseweave.sdk.worker.spool import Spool
from pulseweave.wire.worker import Claim, Hold, Report, TurnRequest, TurnResponse

log = logging.getLogger("pulseweave.worker")

Handler = TypeVar("Handler", bound=Callable[..., Any])
Start = Literal["auto", "manual"]

JOIN_S_MAX = 10.0
BEAT_REST_MS = 100


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler as it was registered."""

    function: Callable[..., Any]
    start: Start
    is_async: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """How a worker ended: reports delivered, and tasks abandoned with an unknown outcome."""

    reported: int
    abandoned: list[str]

    @property
    def exit_code(self) -> int:
        return 1 if self.abandoned else 0


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Async handlers run here; what still runs when the worker stops is cancelled with its loop."""
    try:
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


class _Execution:
    """What the shell keeps beside a slot: the handler's context and the waiting ``ctx.start()``."""

    def __init__(self, slot: Slot, registered: Registered, worker: "Worker") -> None:
        self.slot = slot
        self.registered = registered
        self.refused: tuple[str, str] | None = None
        self.answered = threading.Event()
        self.context = Context(
            slot.task,
            start=lambda: worker.start_now(self),
            remaining_ms=lambda: worker.remaining_ms(slot),
            is_async=registered.is_async,
        )


class Worker:
    """Runs handlers for tasks of some queues. ``name`` is a label for people alone.

    ``claim_wait``: seconds for which the server may hold a claim while there is no work; a drain
    waits for a claim under way. ``drain_timeout``: seconds for handlers to end when told to stop.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[str],
        *,
        concurrency: int = 50,
        name: str | None = None,
        spool: str | os.PathLike[str] | None = None,
        drain_timeout: float = 30.0,
        claim_wait: float = 3.0,
    ) -> None:
        self._client = client
        self._queues = list(queues)
        self._concurrency = concurrency
        self._name = name or f"{platform.node()}:{os.getpid()}"
        self._spool_path = Path(spool) if spool is not None else None
        self._spool: Spool | None = None
        self._drain_timeout_s = drain_timeout
        self._claim_wait_ms = int(claim_wait * 1000)
        self._clock = SystemClock()
        self._handlers: dict[str, Registered] = {}
        self._slots = Slots(concurrency)
        self._executions: dict[str, _Execution] = {}
        self._stopping = threading.Event()
        self._drain_asked = threading.Event()
        self._threads: list[threading.Thread] = []
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._claiming = False
        self._reported = 0

    # --- registering handlers --------------------------------------------------------------------

    def handler(self, name: str, *, start: Start = "auto") -> Callable[[Handler], Handler]:
        """Register ``function(ctx, input)``, sync or async. ``start="manual"``: it calls
        ``ctx.start()``.
        """

        def register(function: Handler) -> Handler:
            if name in self._handlers:
                raise ValueError(f"handler {name} is registered twice")
            self._handlers[name] = Registered(function, start, iscoroutinefunction(function))
            return function

        return register

    @property
    def handlers(self) -> Mapping[str, Registered]:
        """The handlers by name; ``pulseweave.testing`` runs them without threads."""
        return MappingProxyType(self._handlers)

    # --- running ---------------------------------------------------------------------------------

    def run(self) -> Summary:
        """Work until SIGTERM or SIGINT, then drain. A second signal abandons what still runs."""

        def told(_: int, __: FrameType | None) -> None:
            if self._drain_asked.is_set():
                self._drain_timeout_s = 0
            self._drain_asked.set()

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)
        self.start()
        while not self._drain_asked.wait(0.5):
            pass
        return self.drain(self._drain_timeout_s)

    def start(self) -> None:
        """Start the threads and return."""
        if self._spool_path is not None:
            self._spool = Spool(self._spool_path)
        self._pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="weave-handler")
        if any(handler.is_async for handler in self._handlers.values()):
            self._loop = asyncio.new_event_loop()
            self._spawn("loop", partial(_run_loop, self._loop))
        self._spawn("turns", self._turns)
        self._spawn("claims", self._claims)
        self._spawn("beats", self._beats)

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=f"weave-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def drain(self, timeout: float | None = None) -> Summary:
        """Stop claiming, give unstarted leases back, let the rest finish; then report what is
        abandoned.
        """
        limit_s = self._drain_timeout_s if timeout is None else timeout
        slots = self._slots
        with slots.changed:
            slots.draining = True
            for slot in slots.held.values():
                if slot.phase is Phase.CLAIMED:
                    slots.release(slot.task.token)
            slots.changed.notify_all()
            done = slots.changed.wait_for(slots.idle, limit_s)
        abandoned: list[str] = []
        if not done:
            abandoned = self._abandon()
        self._stopping.set()
        with slots.changed:
            slots.changed.notify_all()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join(JOIN_S_MAX)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        return Summary(reported=self._reported, abandoned=abandoned)

    def _abandon(self) -> list[str]:
        """Nobody will know what these did: say so, and give the reports a moment to be
        delivered.
        """
        slots = self._slots
        with slots.changed:
            cut_off = [s for s in slots.held.values() if s.phase in (Phase.RUNNING, Phase.STARTING)]
            for slot in cut_off:
                log.error("abandoning task %s (%s)", slot.task.task_id, slot.task.handler)
                told = outcome.unknown(slot.task, "the worker stopped before it ended", ended=False)
                slots.finish(slot.task.token, told)
            slots.changed.wait_for(slots.idle, 5.0)
        return [slot.task.task_id for slot in cut_off]

    # --- telling ---------------------------------------------------------------------------------

    def _turns(self) -> None:
        """Tell the server whatever waits to be told; claim along where no claim is under way."""
        if self._spool is not None:
            self._tell_left_behind(self._spool)
        slots, tries = self._slots, 0
        while not self._stopping.is_set():
            with slots.changed:
                slots.changed.wait_for(lambda: slots.has_news() or self._stopping.is_set())
                claim = 0 if self._claiming else slots.reserve()
                turn = slots.next_turn(self._name, self._queues, claim=claim)
            self._keep(turn)
            reach("worker.before_report")
            sent_us = self._clock.monotonic_us()
            try:
                answer = self._client.do(r.turn(turn.request))
            except WeaveError as error:
                log.warning("a turn was not answered: %s", error)
                with slots.changed:
                    slots.undelivered(turn)
                self._stopping.wait(pause_s(min(tries, 5)))
                tries += 1
                continue
            tries = 0
            reach("worker.after_report")
            self._hear(turn, answer, sent_us)

    def _keep(self, turn: Turn) -> None:
        if self._spool is not None:
            for report in turn.request.reports:
                self._spool.keep(report)

    def _hear(self, turn: Turn, answer: TurnResponse, sent_us: int) -> None:
        slots = self._slots
        with slots.changed:
            told = zip(turn.reports, turn.request.reports, answer.reports, strict=True)
            for token, report, heard in told:
                self._reported += 1
                if not heard.accepted:
                    log.warning("task %s: %s %s", heard.task_id, heard.code, heard.message)
                if self._spool is not None:
                    self._spool.drop(report)
                self._executions.pop(token, None)
                slots.forget(token)
            for token in turn.releases:
                slots.forget(token)
            starts = [
                (token, word, slots.started(word, token, sent_us))
                for token, word in zip(turn.starts, answer.starts, strict=True)
            ]
            new = slots.claimed(answer.claimed, asked=turn.claim, sent_us=sent_us)
        for token, word, slot in starts:
            if slot is not None:
                refused = None if word.accepted else (word.code or "", word.message or "")
                self._started(token, refused)
        self._take(new)

    def _tell_left_behind(self, spool: Spool) -> None:
        """Outcomes of a former process: late reports, unless their lease still stands."""
        left: list[Report] = spool.left_behind()
        if not left:
            return
        log.info("telling %d outcomes that were left behind", len(left))
        answer = self._client.do(r.turn(TurnRequest(worker=self._name, reports=left)))
        for report, word in zip(left, answer.reports, strict=True):
            log.info("task %s: %s", report.task_id, word.code or word.state)
            spool.drop(report)

    # --- claiming --------------------------------------------------------------------------------

    def _claims(self) -> None:
        """Ask for work while there are free slots; the server holds the question until there is
        some.
        """
        slots, tries = self._slots, 0
        while not self._stopping.is_set():
            with slots.changed:
                slots.changed.wait_for(
                    lambda: (slots.free() > 0 and not slots.draining) or self._stopping.is_set()
                )
                asked = slots.reserve()
                self._claiming = asked > 0
            if not asked:
                if slots.draining:
                    return
                continue
            claim = Claim(queues=self._queues, limit=min(asked, 1000))
            sent_us = self._clock.monotonic_us()
            request = TurnRequest(worker=self._name, claim=claim, wait_ms=self._claim_wait_ms)
            try:
                found = self._client.do(r.turn(request)).claimed
                tries = 0
            except WeaveError as error:
                log.warning("a claim was not answered: %s", error)
                found = []
                self._stopping.wait(pause_s(min(tries, 5)))
                tries += 1
            received_us = self._clock.monotonic_us()
            waited_us = received_us - sent_us
            with slots.changed:
                self._claiming = False
                base_us = sent_us if waited_us < 1_000_000 else received_us - 1_000_000
                new = slots.claimed(found, asked=asked, sent_us=base_us)
            self._take(new)

    def _take(self, new: list[Slot]) -> None:
        """Start what was claimed, or give it back where nobody here can run it or we are
        leaving.
        """
        for slot in new:
            reach("worker.after_claim")
            registered = self._handlers.get(slot.task.handler)
            with self._slots.changed:
                if registered is None or self._slots.draining:
                    if registered is None:
                        log.error(
                            "no handler %s here; task %s goes back",
                            slot.task.handler,
                            slot.task.task_id,
                        )
                    self._slots.release(slot.task.token)
                    continue
                execution = _Execution(slot, registered, self)
                self._executions[slot.task.token] = execution
                if registered.start == "auto":
                    self._slots.ask_start(slot)
            if registered.start == "manual":
                self._submit(execution)

    # --- running handlers ------------------------------------------------------------------------

    def _started(self, token: str, refused: tuple[str, str] | None) -> None:
        execution = self._executions.get(token)
        if execution is None:
            return
        execution.refused = refused
        execution.answered.set()
        if refused is not None:
            log.info("task %s was not started: %s", execution.slot.task.task_id, refused[0])
            self._executions.pop(token, None)
        elif execution.registered.start == "auto":
            reach("worker.after_start")
            self._submit(execution)

    def start_now(self, execution: _Execution) -> None:
        """``ctx.start()`` of a manual handler."""
        with self._slots.changed:
            if execution.slot.phase is Phase.CLAIMED:
                self._slots.ask_start(execution.slot)
        execution.answered.wait()
        if execution.refused is not None:
            raise StartRefused(*execution.refused)
        reach("worker.after_start")

    def _submit(self, execution: _Execution) -> None:
        if execution.registered.is_async and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._run_async(execution), self._loop)
        elif self._pool is not None:
            self._pool.submit(self._run_sync, execution)

    def _run_sync(self, execution: _Execution) -> None:
        task = execution.slot.task
        try:
            result = execution.registered.function(execution.context, task.input)
        except BaseException as error:  # noqa: BLE001
            self._finish(execution, error=error)
        else:
            self._finish(execution, result=result)

    async def _run_async(self, execution: _Execution) -> None:
        task = execution.slot.task
        try:
            coroutine: Coroutine[Any, Any, Any] = execution.registered.function(
                execution.context, task.input
            )
            result = await coroutine
        except BaseException as error:  # noqa: BLE001
            self._finish(execution, error=error)
        else:
            self._finish(execution, result=result)

    def _finish(
        self, execution: _Execution, *, result: Any = None, error: BaseException | None = None
    ) -> None:
        reach("worker.after_effect")
        slot, slots = execution.slot, self._slots
        started = slot.phase is Phase.RUNNING
        if isinstance(error, StartRefused) and not started:
            with slots.changed:
                slots.forget(slot.task.token)
            return
        if error is None and not started and slot.phase is Phase.CLAIMED:
            log.error("handler %s never called ctx.start(); its task goes back", slot.task.handler)
            with slots.changed:
                slots.release(slot.task.token)
            return
        if error is not None:
            told = outcome.of_exception(slot.task, error, started=started)
        else:
            told = outcome.of_result(slot.task, result)
        with slots.changed:
            slots.finish(slot.task.token, told)

    # --- keeping leases --------------------------------------------------------------------------

    def remaining_ms(self, slot: Slot) -> int:
        return max(0, (slot.lease_ends_us - self._clock.monotonic_us()) // 1000)

    def _beats(self) -> None:
        """Renew running leases at a third of their length; tell those whose lease fades."""
        slots = self._slots
        while not self._stopping.wait(BEAT_REST_MS / 1000):
            with slots.changed:
                due = slots.beats_due(self._clock.monotonic_us())
            if due:
                self._beat(due)
            with slots.changed:
                fading = slots.fading(self._clock.monotonic_us())
                for slot in fading:
                    slot.cancel = True
            for slot in fading:
                log.error("task %s: its lease can't be renewed; told to stop", slot.task.task_id)
            self._tell_to_stop()

    def _beat(self, due: list[Slot]) -> None:
        holds = [Hold(task_id=slot.task.task_id, token=slot.task.token) for slot in due]
        sent_us = self._clock.monotonic_us()
        request = TurnRequest(worker=self._name, heartbeats=holds)
        try:
            answer = self._client.do(r.turn(request), tries=1)
        except WeaveError as error:
            log.warning("heartbeats were not answered: %s", error)
            return
        with self._slots.changed:
            for hold, word in zip(holds, answer.heartbeats, strict=True):
                self._slots.beat(word, hold.token, sent_us)

    def _tell_to_stop(self) -> None:
        for execution in list(self._executions.values()):
            if execution.slot.cancel and not execution.context.cancel_requested.is_set():
                execution.context.cancel_requested.set()
