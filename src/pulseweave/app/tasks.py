"""Workers' turns, stand-alone tasks, reviews of them, and the result stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulseweave.app.core import Core, require
from pulseweave.core.identity import Permission, Principal
from pulseweave.kernel.errors import reject
from pulseweave.store.views import tasks as views
from pulseweave.store.views.tasks import TaskDetail
from pulseweave.txn.form import check_form
from pulseweave.txn.pulse import cancel, create, declare_lost, review
from pulseweave.txn.pulse.create import TaskOrder
from pulseweave.txn.pulse.turn import TurnAnswer, TurnCommand, turn
from pulseweave.txn.unit import read


@dataclass(frozen=True, slots=True)
class Tasks:
    core: Core

    def turn(self, principal: Principal, command: TurnCommand) -> TurnAnswer:
        require(principal, Permission.TASKS_WORK)
        if command.claim is not None:
            refusal = principal.refuse_queues(command.claim.queues)
            if refusal is not None:
                raise refusal
        return turn(
            self.core.database,
            command,
            principal=principal,
            ids=self.core.ids,
            entropy=self.core.entropy,
        )

    def create(self, principal: Principal, order: TaskOrder) -> tuple[TaskDetail, bool]:
        """The task, and whether this call made it (idempotent by task_key)."""
        require(principal, Permission.TASKS_CREATE)
        refusal = principal.refuse_queues([order.queue])
        if refusal is not None:
            raise refusal
        return create.create_task(self.core.database, order, principal=principal, ids=self.core.ids)

    def get(self, principal: Principal, task_id: str) -> TaskDetail:
        require(principal, Permission.TASKS_READ)
        found = read(self.core.database, lambda tx: views.task_details(tx, [task_id]))
        if not found or found[0].task.namespace != principal.namespace:
            raise reject("TASK_NOT_FOUND", f"there is no task {task_id}")
        return found[0]

    def cancel(
        self,
        principal: Principal,
        *,
        task_id: str,
        instance_id: str | None,
        key: str,
        expected_task_revision: int,
        reason: str,
    ) -> Mapping[str, Any]:
        """A stand-alone task by ``tasks:control``; a workflow's by ``workflows:control`` (PUL-8,
        PUL-18).
        """
        owned = instance_id is not None
        require(principal, Permission.WORKFLOWS_CONTROL if owned else Permission.TASKS_CONTROL)
        check_form(key=key, reason=reason, evidence_ref=None)
        command = cancel.CancelTask(
            principal=principal,
            task_id=task_id,
            instance_id=instance_id,
            idempotency_key=key,
            expected_task_revision=expected_task_revision,
            reason=reason,
        )
        return cancel.execute(self.core.database, command, ids=self.core.ids)

    def review(self, principal: Principal, command: review.ReviewOwnTask) -> Mapping[str, Any]:
        """PUL-13: the same fields and checks as ReviewTask, for a task that no workflow owns."""
        require(principal, Permission.TASKS_REVIEW)
        check_form(
            key=command.idempotency_key, reason=command.reason, evidence_ref=command.evidence_ref
        )
        return review.execute(self.core.database, command, ids=self.core.ids)

    def declare_lost(
        self, principal: Principal, command: declare_lost.DeclareLost
    ) -> Mapping[str, Any]:
        """REC-17."""
        require(principal, Permission.WORKFLOWS_RECOVER)
        check_form(
            key=command.idempotency_key, reason=command.reason, evidence_ref=command.evidence_ref
        )
        return declare_lost.execute(
            self.core.database, command, ids=self.core.ids, entropy=self.core.entropy
        )

    def events(
        self, principal: Principal, *, partition: int, after: int, limit: int
    ) -> Sequence[Any]:
        require(principal, Permission.TASKS_READ)
        return read(
            self.core.database,
            lambda tx: views.stream(
                tx, principal.namespace, partition_id=partition, after=after, limit=limit
            ),
        )
