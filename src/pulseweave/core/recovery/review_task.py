"""ReviewTask: a person settles what an execution did (REV-1, REV-2).

It changes neither the step nor the instance's review: the task's event travels through the inbox.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulseweave.core.pulse.change import LateReport, TaskChange
from pulseweave.core.pulse.review import verdict
from pulseweave.core.pulse.task import TaskState
from pulseweave.core.recovery.command import ReviewTask
from pulseweave.core.recovery.evidence import refuse_command
from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.recovery.ownership import refuse_foreign
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.kernel.errors import Rejected, reject


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReviewed:
    """The instance's plan, the task's change, and the result that the execution audit keeps."""

    plan: InstancePlan
    change: TaskChange
    result: str


def applies(facts: RecoveryFacts, command: ReviewTask) -> TaskHistory | Rejected:
    """Everything but what only a person can give."""
    refusal = refuse_command(facts, command)
    if refusal is not None:
        return refusal
    history = facts.histories.get(command.task_id)
    owner = facts.owner_of(command.task_id)
    if history is None or owner is None:
        return reject("NOT_OWNED", f"task {command.task_id} is not of this instance", rule="REC-9")
    foreign = refuse_foreign(facts, owner.step_key)
    if foreign is not None:
        return foreign
    task = history.task
    if task.revision != command.expected_task_revision:
        return reject(
            "TASK_REVISION_CONFLICT",
            f"task {task.id} is at revision {task.revision}",
            rule="PUL-6",
            current_task_revision=str(task.revision),
        )
    if task.state is not TaskState.NEEDS_REVIEW:
        return reject("TASK_NOT_IN_REVIEW", f"task {task.id} is {task.state}", rule="REV-1")
    return history


def decide(
    facts: RecoveryFacts,
    command: ReviewTask,
    *,
    now: int,
    new_id: Callable[[], str],
    actor: str,
    execution_audit_id: str,
) -> TaskReviewed | Rejected:
    history = applies(facts, command)
    if isinstance(history, Rejected):
        return history
    result = verified_result(
        facts.late_reports,
        task_id=command.task_id,
        result=command.result,
        late_report_id=command.late_report_id,
    )
    if isinstance(result, Rejected):
        return result
    draft = Draft(facts.base, now=now, new_id=new_id)
    change = verdict(
        history.task, succeeded=command.succeeded, now=draft.now, audit_id=execution_audit_id
    )
    plan = draft.finish(actor=actor, cause=command.OPERATION, control=True)
    return TaskReviewed(plan=plan, change=change, result=result)


def verified_result(
    late_reports: Mapping[str, LateReport],
    *,
    task_id: str,
    result: str | None,
    late_report_id: str | None,
) -> str | Rejected:
    """The result given, or that of the cited late report of the same task; never null."""
    if late_report_id is None:
        if result is None or result == "null":
            return _refuse("result must be a JSON value other than null", "/result")
        return result
    report = late_reports.get(late_report_id)
    if report is None or report.task_id != task_id:
        return _refuse(f"task {task_id} has no late report {late_report_id}", "/late_report_id")
    text = report.result if report.result is not None else report.error
    if result is not None or text is None or text == "null":
        return _refuse("give either a result or a late report that has one", "/late_report_id")
    return text


def _refuse(message: str, pointer: str) -> Rejected:
    return reject("INVALID_COMMAND", message, rule="REV-1", pointer=pointer)
