"""Review a task that no workflow owns, with the same fields and checks as ReviewTask (PUL-13)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse.change import LateReport
from pulseweave.core.pulse.review import verdict
from pulseweave.core.pulse.task import Task, TaskState
from pulseweave.core.recovery.review_task import verified_result
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.store.facts.recovery import late_reports_of
from pulseweave.store.tx import Tx
from pulseweave.txn.pulse.frame import Decided, TaskCommand, command_on_task
from pulseweave.txn.unit import run

OPERATION = "REVIEW_TASK"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOwnTask:
    """``result``: canonical JSON text, None where a late report is cited."""

    principal: Principal
    task_id: str
    idempotency_key: str
    reason: str
    evidence_ref: str
    expected_task_revision: int
    declared: bool
    succeeded: bool
    result: str | None
    late_report_id: str | None


def execute(database: Database, command: ReviewOwnTask, *, ids: IdSource) -> Mapping[str, Any]:
    body = [
        str(command.expected_task_revision),
        command.reason,
        command.evidence_ref,
        command.declared,
        command.succeeded,
        command.result,
        command.late_report_id,
    ]
    framed = TaskCommand(
        operation=OPERATION,
        permission=Permission.TASKS_REVIEW,
        principal=command.principal,
        task_id=command.task_id,
        idempotency_key=command.idempotency_key,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        digest=canonical.digest_of([OPERATION, command.task_id, body]),
    )

    def work(tx: Tx) -> Mapping[str, Any]:
        def decide(task: Task, now: int, audit_id: str) -> Decided | Rejected:
            late = late_reports_of(tx, [task.id])
            return _decide(task, command, late, now=now, audit_id=audit_id)

        return command_on_task(tx, framed, decide, ids=ids)

    return run(database, work)


def _decide(
    task: Task,
    command: ReviewOwnTask,
    late: Mapping[str, LateReport],
    *,
    now: int,
    audit_id: str,
) -> Decided | Rejected:
    """Order of refusals: DECLARATION_REQUIRED, NOT_OWNED, TASK_REVISION_CONFLICT,
    TASK_NOT_IN_REVIEW, then those of the result.
    """
    if not command.declared:
        return reject(
            "DECLARATION_REQUIRED",
            "execution_settled must be literally true",
            rule="REC-11",
            pointer="/execution_settled",
        )
    if task.instance_id is not None:
        return reject(
            "NOT_OWNED",
            "a workflow's task is reviewed through its instance's recovery",
            rule="PUL-13",
            instance_id=task.instance_id,
        )
    if task.revision != command.expected_task_revision:
        return reject(
            "TASK_REVISION_CONFLICT",
            f"task {task.id} is at revision {task.revision}",
            current_task_revision=str(task.revision),
        )
    if task.state is not TaskState.NEEDS_REVIEW:
        return reject("TASK_NOT_IN_REVIEW", f"task {task.id} is {task.state}", rule="REV-1")
    result = verified_result(
        late, task_id=task.id, result=command.result, late_report_id=command.late_report_id
    )
    if isinstance(result, Rejected):
        return result
    change = verdict(task, succeeded=command.succeeded, now=now, audit_id=audit_id)
    return Decided(
        change=change,
        verdict=change.after.state.value,
        result=result,
        late_report_id=command.late_report_id,
    )
