"""Tasks, attempts, audit and stream entries as wire messages."""

from typing import Any

from pulseweave.app.encode import at, holds, raw, raw_of
from pulseweave.core.pulse.task import Leased, Queued, Running, Settled
from pulseweave.kernel.instant import format_at
from pulseweave.store.views.tasks import TaskDetail
from pulseweave.wire.admin import InboxRecord
from pulseweave.wire.recovery import AuditEntry
from pulseweave.wire.workflows import (
    AttemptView,
    JournalEntry,
    LateReportView,
    TaskEventView,
    TaskView,
)


def task_view(detail: TaskDetail) -> TaskView:
    task, spec, phase = detail.task, detail.spec, detail.task.phase
    settled = phase if isinstance(phase, Settled) else None
    return TaskView(
        id=task.id,
        queue=task.queue,
        handler=spec.handler,
        state=task.state.value,
        revision=str(task.revision),
        effect=task.effect.value,
        priority=task.priority,
        max_attempts=task.max_attempts,
        attempt_count=task.attempt_count,
        unstarted_losses=task.unstarted_losses,
        tainted=task.tainted,
        holds=holds(task.holds),
        due_at=at(phase.due_at) if isinstance(phase, Queued) else None,
        deadline_at=at(task.deadline_at),
        start_by=at(task.start_by),
        cancel_requested_at=at(task.cancel_requested_at),
        lease_expires_at=format_at(phase.expires_at)
        if isinstance(phase, Leased | Running)
        else None,
        instance_id=task.instance_id,
        activation_id=task.activation_id,
        retry_of=spec.retry_of,
        business_key=raw_of(spec.business_key),
        concurrency_key=raw_of(spec.concurrency_key),
        settled_by=settled.by.value if settled is not None else None,
        settled_code=settled.code if settled is not None else None,
        settled_at=at(settled.at) if settled is not None else None,
        created_at=format_at(spec.created_at),
        input=raw(spec.input),
        result=raw(detail.result),
        attempts=[_attempt(row) for row in detail.attempts],
        late_reports=[_late(row) for row in detail.late_reports],
    )


def _attempt(row: Any) -> AttemptView:
    return AttemptView(
        number=row.number,
        worker=raw(row.worker),
        started_at=format_at(row.started_at),
        outcome=row.outcome,
        ended_at=at(row.ended_at),
        closed_by=row.closed_by,
        code=row.code,
        error=raw(row.error),
        result=raw(row.result),
        reviewed_by=row.reviewed_by,
    )


def _late(row: Any) -> LateReportView:
    return LateReportView(
        id=row.id,
        attempt=row.attempt,
        outcome=row.outcome,
        code=row.code,
        error=raw(row.error),
        result=raw(row.result),
        received_at=format_at(row.received_at),
    )


def audit_entry(row: Any) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        layer=row.layer,
        operation=row.operation,
        outcome=row.outcome,
        code=row.code,
        actor=row.actor,
        at=format_at(row.at),
        instance_id=row.instance_id,
        task_id=row.task_id,
        idempotency_key=row.idempotency_key,
        command_digest=row.command_digest,
        reason=raw(row.reason),
        evidence_ref=raw(row.evidence_ref),
        prior=raw(row.prior),
        next=raw(row.next),
        execution_audit_id=row.execution_audit_id,
    )


def journal_entry(row: Any) -> JournalEntry:
    return JournalEntry(
        revision=str(row.revision),
        at=format_at(row.at),
        actor=row.actor,
        cause=row.cause,
        changes=raw(row.changes),
    )


def event_view(row: Any) -> TaskEventView:
    return TaskEventView(
        partition=row.partition_id,
        seq=str(row.seq),
        task_id=row.task_id,
        task_revision=str(row.task_revision),
        instance_id=row.instance_id,
        kind=row.kind,
        code=row.code,
        attempt=row.attempt,
        late_report_id=row.late_report_id,
        at=format_at(row.at),
    )


def inbox_record(row: Any) -> InboxRecord:
    return InboxRecord(
        partition=row.partition_id,
        seq=str(row.seq),
        instance_id=row.instance_id,
        activation_id=row.activation_id,
        task_id=row.task_id,
        kind=row.kind,
        state=row.state,
        disposition=row.disposition,
        cause=row.cause,
        cause_detail=raw(row.cause_detail),
        recorded_at=format_at(row.recorded_at),
        processed_at=at(row.processed_at),
    )
