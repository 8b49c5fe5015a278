"""Definitions, starts, control, and what can be read of instances."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pulseweave.app.core import Core, require
from pulseweave.core.identity import Permission, Principal
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject
from pulseweave.store.facts.definitions import StoredDefinition
from pulseweave.store.tx import Tx
from pulseweave.store.views import definitions as definition_views
from pulseweave.store.views import instances as instance_views
from pulseweave.store.views.instances import InstanceFilter, Page
from pulseweave.txn.form import check_reason
from pulseweave.txn.unit import read
from pulseweave.txn.weave import control as control_txn
from pulseweave.txn.weave import signal as signal_txn
from pulseweave.txn.weave.define import Registered, register
from pulseweave.txn.weave.detail import Detail, instance_detail
from pulseweave.txn.weave.held import absent
from pulseweave.txn.weave.signal import Accepted, SignalRequest
from pulseweave.txn.weave.start import Outcome, StartRequest, start_instances

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workflows:
    core: Core

    def define(self, principal: Principal, name: str, version: int, document: Any) -> Registered:
        """Validate everything, then store. Raises DEFINITION_INVALID with every problem (WEA-1)."""
        require(principal, Permission.WORKFLOWS_DEFINE)
        definition = compile_definition(document)
        if definition.name != name or definition.version != version:
            raise reject(
                "INVALID_COMMAND",
                f"the path says {name} version {version}, the document {definition.name} "
                f"version {definition.version}",
            )
        return register(
            self.core.database,
            definition,
            namespace=principal.namespace,
            actor=principal.actor,
            ids=self.core.ids,
        )

    def definitions(
        self, principal: Principal, *, cursor: str | None, limit: int
    ) -> Page[StoredDefinition]:
        require(principal, Permission.WORKFLOWS_READ)
        return read(
            self.core.database,
            lambda tx: definition_views.page(tx, principal.namespace, cursor=cursor, limit=limit),
        )

    def definition(self, principal: Principal, name: str, version: int) -> StoredDefinition:
        require(principal, Permission.WORKFLOWS_READ)
        found = read(
            self.core.database,
            lambda tx: definition_views.find(tx, principal.namespace, name, version),
        )
        if found is None:
            raise reject("DEFINITION_NOT_FOUND", f"there is no definition {name} version {version}")
        return found

    def start(self, principal: Principal, requests: Sequence[StartRequest]) -> list[Outcome]:
        require(principal, Permission.WORKFLOWS_START)
        return start_instances(
            self.core.database,
            requests,
            namespace=principal.namespace,
            application=principal.application,
            actor=principal.actor,
            ids=self.core.ids,
        )

    def control(
        self,
        principal: Principal,
        verb: ControlVerb,
        *,
        instance_id: str,
        key: str,
        expected_control_revision: int,
        reason: str,
    ) -> Mapping[str, Any]:
        require(principal, Permission.WORKFLOWS_CONTROL)
        check_reason(reason)
        body = {"expected_control_revision": str(expected_control_revision), "reason": reason}
        request = control_txn.ControlRequest(
            principal=principal,
            instance_id=instance_id,
            idempotency_key=key,
            verb=verb,
            expected_control_revision=expected_control_revision,
            reason=reason,
            digest=canonical.digest_of([verb.value, instance_id, body]),
        )
        return control_txn.execute(self.core.database, request, ids=self.core.ids)

    def signal(self, request: SignalRequest) -> Accepted:
        """Accept a signal, once per key (WEA-10). Raises Rejected."""
        require(request.principal, Permission.WORKFLOWS_SIGNAL)
        return signal_txn.execute(self.core.database, request, ids=self.core.ids)

    def instances(
        self, principal: Principal, wanted: InstanceFilter, *, cursor: str | None, limit: int
    ) -> Page[Any]:
        require(principal, Permission.WORKFLOWS_READ)
        return read(
            self.core.database,
            lambda tx: instance_views.page(
                tx, principal.namespace, wanted, cursor=cursor, limit=limit
            ),
        )

    def detail(self, principal: Principal, instance_id: str) -> Detail:
        """Everything about one instance, from one snapshot (B011)."""
        require(principal, Permission.WORKFLOWS_READ)
        return self._of_instance(
            principal, instance_id, lambda tx: instance_detail(tx, principal.namespace, instance_id)
        )

    def _of_instance(
        self, principal: Principal, instance_id: str, look: Callable[[Tx], T | None]
    ) -> T:
        """What there is to read of an instance, or why there is nothing (WEA-18)."""

        def work(tx: Tx) -> T:
            found = look(tx)
            if found is None:
                raise absent(tx, principal.namespace, instance_id)
            return found

        return read(self.core.database, work)

    def history(
        self, principal: Principal, instance_id: str, *, cursor: str | None, limit: int
    ) -> Page[Any]:
        require(principal, Permission.WORKFLOWS_READ)
        return self._of_instance(
            principal,
            instance_id,
            lambda tx: instance_views.history(
                tx, principal.namespace, instance_id, cursor=cursor, limit=limit
            ),
        )

    def audit(
        self,
        principal: Principal,
        *,
        instance_id: str | None,
        task_id: str | None,
        cursor: str | None,
        limit: int,
    ) -> Page[Any]:
        require(principal, Permission.AUDIT_READ)
        return self._of_instance(
            principal,
            instance_id or "",
            lambda tx: instance_views.audit(
                tx,
                principal.namespace,
                instance_id=instance_id,
                task_id=task_id,
                cursor=cursor,
                limit=limit,
            ),
        )
