"""A whole engine for tests: Pulse's world with definitions, instances, steps and recovery.

Everything goes through the façade, as the API does. ``settle`` runs the engine until it has no
more to do; time stands still unless the test moves it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import update

from pulseweave.app.core import Core
from pulseweave.app.facade import Facade
from pulseweave.core.identity import Principal
from pulseweave.core.pulse.report import Report
from pulseweave.core.recovery.command import (
    Command,
    Continue,
    ContinuePoll,
    RearmWait,
    ResolveStep,
    RetryStep,
    ReviewTask,
)
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected
from pulseweave.runtime.steps import Steps
from pulseweave.store import schema as t
from pulseweave.txn.doctor import Finding, examine
from pulseweave.txn.weave.detail import Detail
from pulseweave.txn.weave.signal import Accepted, SignalRequest
from pulseweave.txn.weave.start import Started, StartRequest
from tests.pulse.world import Lease, World, failed, succeeded

WHY = {"reason": "looked at the provider", "evidence_ref": "provider:1", "declared": True}


def task(key: str, **more: Any) -> dict[str, Any]:
    """A task step in queue ``q``."""
    return {"task": key, "queue": "q", "handler": f"do.{key}", "lease": "30s", **more}


class WeaveWorld(World):
    """See the module. Keys of operations are made up here, one for each command."""

    def __init__(self, url: str, *, virtual: bool = True) -> None:
        super().__init__(url, virtual=virtual)
        core = Core(database=self.database, clock=self.clock, entropy=self.entropy)
        core.ids = self.ids
        self.app = Facade(core)
        self.steps = Steps(self.database, self.ids, self.entropy)
        self._keys = 0

    # --- definitions and instances ----------------------------------------------------------------

    def define(
        self, *steps: Mapping[str, Any], name: str = "flow", version: int = 1, **more: Any
    ) -> None:
        document = {"name": name, "version": version, "steps": list(steps), **more}
        self.app.workflows.define(self.principal, name, version, document)

    def begin(
        self, key: str = "k", value: Any = None, *, name: str = "flow", version: int | None = None
    ) -> str:
        """Start an instance; its id. Raises the refusal."""
        answer = self.try_begin(key, value, name=name, version=version)
        if isinstance(answer, Rejected):
            raise answer
        return answer.instance.id

    def try_begin(
        self, key: str = "k", value: Any = None, *, name: str = "flow", version: int | None = None
    ) -> Started | Rejected:
        text = canonical.encode({} if value is None else value)
        request = StartRequest(definition=name, version=version, instance_key=key, input=text)
        return self.app.workflows.start(self.principal, [request])[0]

    def settle(self) -> None:
        self.steps.settle()

    def look(self, instance_id: str) -> Detail:
        return self.app.workflows.detail(self.principal, instance_id)

    def instance(self, instance_id: str) -> Instance:
        return self.look(instance_id).instance

    def leaf(self, instance_id: str, step_key: str) -> Leaf:
        """The leaf's current activation."""
        activations = self.look(instance_id).activations
        return next(a for a in activations if a.step_key == step_key and a.current)

    def work(self, told: Report | None = None, *, limit: int = 1) -> list[Lease]:
        """Claim, start and report tasks of queue ``q``, then settle."""
        leases = self.claim(limit)
        for lease in leases:
            answer = self.start(lease)
            assert answer.rejected is None, answer.rejected
            self.report(lease, told or succeeded({"ok": True}))
        self.settle()
        return leases

    # --- control and recovery ---------------------------------------------------------------------

    def key(self) -> str:
        self._keys += 1
        return f"key-{self._keys}"

    def control(
        self, instance_id: str, verb: ControlVerb, *, principal: Principal | None = None
    ) -> Any:
        """At the control revision of this moment."""
        return self.app.workflows.control(
            principal or self.principal,
            verb,
            instance_id=instance_id,
            key=self.key(),
            expected_control_revision=self.instance(instance_id).control_revision,
            reason="because",
        )

    def recover(
        self,
        instance_id: str,
        command: Command,
        *,
        key: str | None = None,
        dry_run: bool = False,
        principal: Principal | None = None,
    ) -> Mapping[str, Any]:
        return self.app.recovery.execute(
            principal or self.principal,
            instance_id=instance_id,
            key=key or self.key(),
            command=command,
            dry_run=dry_run,
        )

    def refusal(self, instance_id: str, command: Command, **more: Any) -> Rejected:
        try:
            self.recover(instance_id, command, **more)
        except Rejected as refused:
            return refused
        raise AssertionError("it was accepted")

    def review_task(self, instance_id: str, step_key: str, **more: Any) -> ReviewTask:
        detail = self.look(instance_id)
        leaf = self.leaf(instance_id, step_key)
        held = next(d.task for d in detail.tasks if d.task.id == leaf.task_id)
        plain: dict[str, Any] = {
            "expected_revision": detail.instance.revision,
            "task_id": held.id,
            "expected_task_revision": held.revision,
            "succeeded": True,
            "result": '{"ok":true}',
            "late_report_id": None,
            **WHY,
        }
        return ReviewTask(**{**plain, **more})

    def resolve_step(self, instance_id: str, step_key: str, **more: Any) -> ResolveStep:
        leaf = self.leaf(instance_id, step_key)
        plain: dict[str, Any] = {
            "expected_revision": self.instance(instance_id).revision,
            "step_key": step_key,
            "activation_id": leaf.id,
            "expected_step_revision": leaf.revision,
            "succeeded": True,
            "result": '{"ok":true}',
            **WHY,
        }
        return ResolveStep(**{**plain, **more})

    def retry_step(self, instance_id: str, step_key: str, **more: Any) -> RetryStep:
        leaf = self.leaf(instance_id, step_key)
        plain: dict[str, Any] = {
            "expected_revision": self.instance(instance_id).revision,
            "step_key": step_key,
            "activation_id": leaf.id,
            "expected_step_revision": leaf.revision,
            **WHY,
        }
        return RetryStep(**{**plain, **more})

    def continue_poll(self, instance_id: str, step_key: str, **more: Any) -> ContinuePoll:
        return ContinuePoll(**{**self._step(instance_id, step_key), **more})

    def rearm_wait(self, instance_id: str, step_key: str, **more: Any) -> RearmWait:
        return RearmWait(**{**self._step(instance_id, step_key), **more})

    def _step(self, instance_id: str, step_key: str) -> dict[str, Any]:
        leaf = self.leaf(instance_id, step_key)
        return {
            "expected_revision": self.instance(instance_id).revision,
            "step_key": step_key,
            "activation_id": leaf.id,
            "expected_step_revision": leaf.revision,
            **WHY,
        }

    def signal(
        self,
        instance_id: str,
        name: str,
        payload: Any = None,
        *,
        correlation: str | None = None,
        key: str | None = None,
    ) -> Accepted:
        """Send a signal; raises the refusal."""
        request = SignalRequest(
            principal=self.principal,
            instance_id=instance_id,
            signal_key=key or self.key(),
            name=name,
            correlation=correlation,
            payload=canonical.encode(payload),
        )
        return self.app.workflows.signal(request)

    def armed(self, instance_id: str) -> list[Wait]:
        return [wait for wait in self.look(instance_id).waits if wait.armed]

    def go_on(self, instance_id: str, **more: Any) -> Continue:
        plain: dict[str, Any] = {
            "expected_revision": self.instance(instance_id).revision,
            **WHY,
        }
        return Continue(**{**plain, **more})

    # --- looking and breaking ---------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        """What the doctor finds in the whole database."""
        return [finding for page in examine(self.database) for finding in page.findings]

    def break_row(self, table: Any, row_id: str, **values: Any) -> None:
        """Damage a row behind everybody's back."""
        with self.database.writer.begin() as connection:
            connection.execute(update(table).where(table.c.id == row_id).values(**values))

    def break_wait(self, wait_id: str) -> None:
        """Lose an armed wait, as a faulty restore would."""
        self.break_row(t.waits, wait_id, state="CLOSED", closed_at=self.now)

    def rows_of(self, table: str) -> int:
        return len(self.rows(t.metadata.tables[table]))

    def dispositions(self, instance_id: str) -> list[str]:
        """Of the instance's inbox records, in order."""
        rows = [row for row in self.rows(t.inbox) if row.instance_id == instance_id]
        return [row.disposition for row in sorted(rows, key=lambda row: row.seq)]

    def fail_next(self, handler: str) -> None:
        """Claim until the task of a handler comes, and fail it for good."""
        for lease in self.claim(10):
            if self.detail(lease.task_id).spec.handler == handler:
                self.start(lease)
                self.report(lease, failed("NOPE", retryable=False))
            else:
                self.release(lease)
        self.settle()

    def counts(self) -> dict[str, int]:
        """Rows of every table."""
        return {table.name: len(self.rows(table)) for table in t.metadata.sorted_tables}
