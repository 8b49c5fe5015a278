"""Queues, applications, namespaces, tokens and the inbox, for administrators; ``/me``
for everyone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulseweave.app.core import Core, require
from pulseweave.core.identity import Permission, Principal
from pulseweave.kernel.errors import reject
from pulseweave.store.facts import identity as facts
from pulseweave.store.facts.definitions import partitions_of
from pulseweave.store.facts.identity import Credential
from pulseweave.store.views.tasks import open_inbox
from pulseweave.txn.admin import limits as limits_txn
from pulseweave.txn.admin import tokens
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder
from pulseweave.txn.unit import read
from pulseweave.txn.weave import requeue


@dataclass(frozen=True, slots=True)
class Admin:
    core: Core

    def partitions(self, principal: Principal) -> list[int]:
        """The partitions of the namespace's result stream."""
        return read(self.core.database, lambda tx: partitions_of(tx, principal.namespace))

    def queues(self, principal: Principal) -> tuple[list[Any], list[Any]]:
        """Configured queues, and counts of open tasks by queue, state and hold."""
        require(principal, Permission.TASKS_READ)

        def work(tx: Any) -> tuple[list[Any], list[Any]]:
            namespace = principal.namespace
            return facts.queue_rows(tx, namespace), facts.open_task_counts(tx, namespace)

        return read(self.core.database, work)

    def set_queue(self, principal: Principal, name: str, settings: Mapping[str, Any]) -> None:
        require(principal, Permission.ADMIN)
        limits_txn.configure_queue(
            self.core.database,
            principal.namespace,
            name,
            settings,
            actor=principal.actor,
            ids=self.core.ids,
        )

    def applications(self, principal: Principal) -> list[Any]:
        require(principal, Permission.ADMIN)
        return read(self.core.database, lambda tx: facts.applications(tx, principal.namespace))

    def set_application(self, principal: Principal, name: str, settings: Mapping[str, Any]) -> None:
        require(principal, Permission.ADMIN)
        limits_txn.configure_application(
            self.core.database,
            principal.namespace,
            name,
            settings,
            actor=principal.actor,
            ids=self.core.ids,
        )

    def tokens(self, principal: Principal) -> list[Credential]:
        require(principal, Permission.ADMIN)
        return read(self.core.database, lambda tx: facts.credentials_of(tx, principal.namespace))

    def create_token(self, principal: Principal, order: TokenOrder) -> tuple[str, Credential]:
        """A token can't be given more than its maker has (deny by default)."""
        require(principal, Permission.ADMIN)
        beyond = sorted(p.value for p in order.permissions - principal.permissions)
        if beyond:
            raise reject(
                "PERMISSION_DENIED", f"your own token lacks {', '.join(beyond)}", needed=beyond
            )
        if order.all_queues and not principal.all_queues:
            raise reject("QUEUE_ACCESS_DENIED", "your own token has not all queues")
        refusal = principal.refuse_queues(order.queues)
        if refusal is not None:
            raise refusal
        return tokens.create_token(
            self.core.database,
            order,
            actor=principal.actor,
            ids=self.core.ids,
            entropy=self.core.entropy,
        )

    def revoke_token(self, principal: Principal, credential_id: str) -> Credential:
        require(principal, Permission.ADMIN)
        found = tokens.revoke_token(
            self.core.database,
            principal.namespace,
            credential_id,
            actor=principal.actor,
            ids=self.core.ids,
        )
        self.core.forget_beliefs()
        return found

    def create_namespace(self, name: str) -> bool:
        """For the operator of the installation only: no HTTP credential reaches beyond its
        namespace.
        """
        return create_namespace(self.core.database, name)

    def inbox(
        self, principal: Principal, *, after_partition: int, after_seq: int, limit: int
    ) -> Sequence[Any]:
        require(principal, Permission.ADMIN)
        return read(
            self.core.database,
            lambda tx: open_inbox(
                tx,
                principal.namespace,
                after_partition=after_partition,
                after_seq=after_seq,
                limit=limit,
            ),
        )

    def requeue(self, principal: Principal, instance_id: str) -> requeue.Requeued:
        """Take the quarantined records of an instance again, after their cause was
        mended (REC-16).
        """
        require(principal, Permission.ADMIN)
        return requeue.execute(
            self.core.database, principal=principal, instance_id=instance_id, ids=self.core.ids
        )
