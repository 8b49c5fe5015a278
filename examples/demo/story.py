"""The story that the demo tells, step by step; every line that it prints was seen, none is assumed.

It ends with a failure when the ledger or the instances say otherwise than they should.
"""

import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from rich.console import Console
from rich.panel import Panel

from examples.demo.processes import Processes
from examples.provider.client import Provider
from pulseweave import Client
from pulseweave.cli.commands.workflows import _tree
from pulseweave.cli.output import in_columns
from pulseweave.sdk.retry import ENDED
from pulseweave.wire import sources
from pulseweave.wire.recovery import ReviewItem
from pulseweave.wire.workflows import InstanceDetail

ORDERS = 10
LOST, REFUSED = "order-07", "order-04"
WAIT_SECONDS_MAX = 50


class DemoFailed(Exception):
    """Something is not as the story says; the demo must not pretend."""


class Story:
    def __init__(self, processes: Processes, definition: str, console: Console) -> None:
        self.processes = processes
        self.definition = definition
        self.console = console
        self.client = Client(processes.url, processes.token)
        self.provider = Provider(processes.provider.url)
        self.runs: dict[str, str] = {}

    def tell(self) -> None:
        self._start_orders()
        self._kill_the_worker()
        item = self._see_the_review()
        self._verify_and_recover(item)
        self._retry_the_refused()
        self._end()

    # --- the chapters ----------------------------------------------------------------------------

    def _start_orders(self) -> None:
        self._chapter("Ten orders", "charge → reserve ∥ notify → ship, against a payment provider")
        self.client.definitions.put(sources.parse(self.definition).value)
        self.provider.set_fault("charge", "hold", order_id=LOST, times=1)
        self.provider.set_fault("charge", "refuse", order_id=REFUSED, times=1)
        for n in range(1, ORDERS + 1):
            order_id = f"order-{n:02d}"
            order = {"order_id": order_id, "amount": 1000 + n, "currency": "EUR"}
            self.runs[order_id] = self.client.instances.start("order", key=order_id, input=order).id
        pid = self.processes.start_worker()
        self._say(f"{ORDERS} instances started; worker {pid} runs the handlers")

    def _kill_the_worker(self) -> None:
        self._chapter(
            "The worker dies between a charge and its report",
            f"the provider has charged {LOST} and holds the answer back",
        )
        self.provider.wait_held(kind="charge", order_id=LOST, mode="hold")
        others = [run for order_id, run in self.runs.items() if order_id not in (LOST, REFUSED)]
        self._wait_for(lambda: all(self._state(run) in ENDED for run in others), "eight orders")
        pid = self.processes.kill_worker()
        self.provider.release()
        charges = self.provider.charges(LOST)
        self._say(f"worker {pid} is killed (SIGKILL); the provider's ledger: {len(charges)} charge")
        self._say(f"worker {self.processes.start_worker()} takes over")

    def _see_the_review(self) -> ReviewItem:
        self._chapter(
            "Weave stops instead of guessing",
            "the lease runs out; nobody can know what the call did, so a person is asked",
        )
        run = self.runs[LOST]
        self._wait_for(lambda: self._state(run) == "NEEDS_REVIEW", "the lost order's review")
        self._show(run)
        item = self._item(run)
        for operation in item.operations:
            word = "[green]applies[/]" if operation.applies else f"[dim]{operation.code}[/]"
            self.console.print(f"    {operation.operation:<13} {word}")
        return item

    def _verify_and_recover(self, item: ReviewItem) -> None:
        self._chapter("A person verifies at the provider, and settles the facts", "with evidence")
        charge = self.provider.charges(LOST)[0]
        evidence = f"provider:charge/{charge['charge_id']}"
        self._say(f"the provider has {evidence}, {charge['amount']} {charge['currency']}")
        run, recovery = self.runs[LOST], self.client.recovery
        why = {"reason": "found at the provider by order id", "evidence_ref": evidence}
        command = {**self._ready(item, "REVIEW_TASK"), **why, "execution_settled": True}
        receipt = recovery.review_task(run, **command, verdict="SUCCEEDED", result=charge)
        self._say(
            f"ReviewTask: task {receipt.details['task_state']}; instance {receipt.state_after}"
        )
        self._wait_for(lambda: self._applies(run, "RESOLVE_STEP"), "the verdict to be consumed")
        command = {**self._ready(self._item(run), "RESOLVE_STEP"), **why, "execution_settled": True}
        receipt = recovery.resolve_step(run, **command, verdict="SUCCEEDED", result=charge)
        self._say(
            f"ResolveStep: step {receipt.details['step_state']}; instance {receipt.state_after}"
        )
        command = {**self._ready(self._item(run), "CONTINUE"), **why, "review_resolved": True}
        receipt = recovery.continue_instance(run, **command)
        self._say(f"Continue: instance {receipt.state_after}, gate {receipt.gate}")
        self._wait_for(lambda: self._state(run) in ENDED, "the lost order to end")
        self._show(run)

    def _retry_the_refused(self) -> None:
        self._chapter(
            "A failure that is known", f"{REFUSED} was refused; its budget allows another attempt"
        )
        run, recovery = self.runs[REFUSED], self.client.recovery
        self._wait_for(lambda: self._applies(run, "RETRY_STEP"), "the refused order's review")
        why = {"reason": "the card was unblocked", "evidence_ref": "ticket:4711"}
        command = {**self._ready(self._item(run), "RETRY_STEP"), **why, "safe_to_retry": True}
        receipt = recovery.retry_step(run, **command)
        self._say(
            f"RetryStep: a new task with {receipt.details['max_attempts']} attempts left, "
            "the gate still closed"
        )
        detail = self.client.instances.get(run)
        command = {"expected_revision": detail.revision, **why, "review_resolved": True}
        receipt = recovery.continue_instance(run, **command)
        self._say(f"Continue: instance {receipt.state_after}, gate {receipt.gate}")
        self._wait_for(lambda: self._state(run) in ENDED, "the refused order to end")
        self._show(run)

    def _end(self) -> None:
        self._chapter("The end", "the provider's ledger, and who did what")
        charges = self.provider.effects(kind="charge")
        counts = dict.fromkeys(self.runs, 0)
        for charge in charges:
            counts[charge["order_id"]] += 1
        states = {order_id: self._state(run) for order_id, run in self.runs.items()}
        self._table(
            ("ORDER", "STATE", "CHARGES"),
            [(order_id, state, counts[order_id]) for order_id, state in states.items()],
        )
        self._table(
            ("AT", "LAYER", "OPERATION", "ACTOR", "EVIDENCE"),
            [
                (entry.at[11:19], entry.layer, entry.operation, entry.actor, entry.evidence_ref)
                for entry in self.client.instances.audit(self.runs[LOST])
            ],
        )
        wrong = {o: n for o, n in counts.items() if n != 1}
        unfinished = {o: s for o, s in states.items() if s != "SUCCEEDED"}
        if wrong or unfinished:
            raise DemoFailed(f"charges {wrong}, states {unfinished}")
        self._say(f"all {ORDERS} orders done, each charged exactly once", "bold green")

    # --- telling ---------------------------------------------------------------------------------

    def _chapter(self, title: str, what: str) -> None:
        self.console.print(Panel.fit(f"[bold]{title}[/]\n[dim]{what}[/]", border_style="cyan"))

    def _say(self, line: str, style: str = "") -> None:
        self.console.print(f"  {line}", style=style)

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.console.print(in_columns(columns, rows, width=self.console.width), crop=False)

    def _show(self, instance_id: str) -> None:
        self.console.print(_tree(self.client.instances.get(instance_id)))

    # --- looking ---------------------------------------------------------------------------------

    def _detail(self, instance_id: str) -> InstanceDetail:
        return self.client.instances.get(instance_id)

    def _state(self, instance_id: str) -> str:
        return self._detail(instance_id).state

    def _item(self, instance_id: str) -> ReviewItem:
        return self._detail(instance_id).reviews[0]

    def _applies(self, instance_id: str, operation: str) -> bool:
        detail = self._detail(instance_id)
        return any(
            o.operation == operation and o.applies for i in detail.reviews for o in i.operations
        )

    def _ready(self, item: ReviewItem, operation: str) -> dict[str, Any]:
        """The ready command: ids and revisions are filled in, what only a person can give is left
        out.
        """
        ready = next(o.command for o in item.operations if o.operation == operation)
        return {name: value for name, value in ready.items() if value is not None}

    def _wait_for(self, seen: Callable[[], bool], what: str) -> None:
        ends_at = time.monotonic() + WAIT_SECONDS_MAX
        with self.console.status(f"waiting for {what}"):
            while not seen():
                if time.monotonic() > ends_at:
                    raise DemoFailed(f"waited {WAIT_SECONDS_MAX} s for {what}")
                Event().wait(0.1)
