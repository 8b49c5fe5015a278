"""Cancel one task: a stand-alone one, or a workflow's alone, the undo of a mistaken retry.

Unstarted and untainted it is CANCELLED at once; running it is asked, and its report or lost lease
decides (PUL-8, PUL-18).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse import cancel as core
from pulseweave.core.pulse.task import Task, TaskState
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.pulse.frame import Decided, TaskCommand, command_on_task
from pulseweave.txn.unit import run

OPERATION = "CANCEL_TASK"


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask:
    """``instance_id`` None: a stand-alone task; else the owner that the task must have."""

    principal: Principal
    task_id: str
    instance_id: str | None
    idempotency_key: str
    expected_task_revision: int
    reason: str


def execute(database: Database, command: CancelTask, *, ids: IdSource) -> Mapping[str, Any]:
    owned = command.instance_id is not None
    body = [str(command.expected_task_revision), command.reason, command.instance_id]
    framed = TaskCommand(
        operation=OPERATION,
        permission=Permission.WORKFLOWS_CONTROL if owned else Permission.TASKS_CONTROL,
        principal=command.principal,
        task_id=command.task_id,
        idempotency_key=command.idempotency_key,
        reason=command.reason,
        evidence_ref="",
        digest=canonical.digest_of([OPERATION, command.task_id, body]),
    )

    def decide(task: Task, now: int, _: str) -> Decided | Rejected:
        return _decide(task, command, now)

    return run(database, lambda tx: command_on_task(tx, framed, decide, ids=ids))


def _decide(task: Task, command: CancelTask, now: int) -> Decided | Rejected:
    if task.instance_id != command.instance_id:
        return reject(
            "NOT_OWNED",
            "a workflow's task is cancelled through its instance",
            rule="PUL-18",
            instance_id=task.instance_id,
        )
    if task.revision != command.expected_task_revision:
        return reject(
            "TASK_REVISION_CONFLICT",
            f"task {task.id} is at revision {task.revision}",
            current_task_revision=str(task.revision),
        )
    change = core.cancel(task, now=now)
    return _refuse(task) if change is None else Decided(change=change)


def _refuse(task: Task) -> Rejected:
    """Why there is nothing to cancel: it has settled, or only its execution's end is missing."""
    if task.settled:
        return reject("TASK_SETTLED", f"task {task.id} is {task.state}: there is nothing to cancel")
    told = "a review" if task.state is TaskState.NEEDS_REVIEW else "its worker's report"
    return reject(
        "EXECUTION_UNSETTLED",
        f"task {task.id} is {task.state}: {told} decides what became of it",
        rule="PUL-8",
    )
