"""Recovery: the operations, reviews, acknowledgement, declare-lost."""

import msgspec

from pulseweave.api.convert import payload_text
from pulseweave.api.endpoint import PAGED, Call, Endpoint, Reply, flag
from pulseweave.app.encode import receipt_fields, review_item
from pulseweave.core.identity import Permission
from pulseweave.core.recovery import command as core
from pulseweave.txn.pulse.declare_lost import DeclareLost as LostCommand
from pulseweave.wire import recovery as wire
from pulseweave.wire.recovery import Receipt, ReviewPage

_DRY = {"dry_run": flag("true: check everything, write nothing, say what would happen")}


def _execute(call: Call, command: core.Command) -> Reply:
    receipt = call.app.recovery.execute(
        call.principal,
        instance_id=call.id("instance_id"),
        key=call.idempotency_key,
        command=command,
        dry_run=call.flag("dry_run"),
    )
    return Reply(Receipt(**receipt_fields(receipt)))


def review_task(call: Call) -> Reply:
    body: wire.ReviewTask = call.body
    return _execute(
        call,
        core.ReviewTask(
            expected_revision=int(body.expected_revision),
            reason=body.reason,
            evidence_ref=body.evidence_ref,
            declared=body.execution_settled is True,
            task_id=body.task_id,
            expected_task_revision=int(body.expected_task_revision),
            succeeded=body.verdict == "SUCCEEDED",
            result=None if body.result is None else payload_text(body.result, "/result"),
            late_report_id=body.late_report_id,
        ),
    )


def resolve_step(call: Call) -> Reply:
    body: wire.ResolveStep = call.body
    given = body.result is not msgspec.UNSET
    return _execute(
        call,
        core.ResolveStep(
            expected_revision=int(body.expected_revision),
            reason=body.reason,
            evidence_ref=body.evidence_ref,
            declared=body.execution_settled is True,
            step_key=body.step_key,
            activation_id=body.activation_id,
            expected_step_revision=int(body.expected_step_revision),
            succeeded=body.verdict == "SUCCEEDED",
            result=payload_text(body.result, "/result") if given else None,
        ),
    )


def retry_step(call: Call) -> Reply:
    body: wire.RetryStep = call.body
    return _execute(
        call,
        core.RetryStep(
            expected_revision=int(body.expected_revision),
            reason=body.reason,
            evidence_ref=body.evidence_ref,
            declared=body.safe_to_retry is True,
            step_key=body.step_key,
            activation_id=body.activation_id,
            expected_step_revision=int(body.expected_step_revision),
        ),
    )


def continue_poll(call: Call) -> Reply:
    body: wire.ContinuePoll = call.body
    return _execute(
        call,
        core.ContinuePoll(
            expected_revision=int(body.expected_revision),
            reason=body.reason,
            evidence_ref=body.evidence_ref,
            declared=body.pending_confirmed is True,
            step_key=body.step_key,
            activation_id=body.activation_id,
            expected_step_revision=int(body.expected_step_revision),
        ),
    )


def rearm_wait(call: Call) -> Reply:
    body: wire.RearmWait = call.body
    return _execute(
        call,
        core.RearmWait(
            expected_revision=int(body.expected_revision),
            reason=body.reason,
            evidence_ref=body.evidence_ref,
            declared=body.wait_verified is True,
            step_key=body.step_key,
            activation_id=body.activation_id,
            expected_step_revision=int(body.expected_step_revision),
        ),
    )


def continue_instance(call: Call) -> Reply:
    body: wire.Continue = call.body
    return _execute(
        call,
        core.Continue(
            expected_revision=int(body.expected_revision),
            reason=body.reason,
            evidence_ref=body.evidence_ref,
            declared=body.review_resolved is True,
        ),
    )


def acknowledge(call: Call) -> Reply:
    body: wire.AcknowledgeContradiction = call.body
    receipt = call.app.recovery.acknowledge_contradiction(
        call.principal,
        instance_id=call.id("instance_id"),
        key=call.idempotency_key,
        expected_revision=int(body.expected_revision),
        reason=body.reason,
        evidence_ref=body.evidence_ref,
    )
    return Reply(Receipt(**receipt_fields(receipt)))


def declare_lost(call: Call) -> Reply:
    body: wire.DeclareLost = call.body
    command = LostCommand(
        principal=call.principal,
        task_id=call.id("task_id"),
        idempotency_key=call.idempotency_key,
        expected_task_revision=int(body.expected_task_revision),
        reason=body.reason,
        evidence_ref=body.evidence_ref,
    )
    return Reply(Receipt(**receipt_fields(call.app.tasks.declare_lost(call.principal, command))))


def reviews(call: Call) -> Reply:
    found, cursor = call.app.recovery.reviews(call.principal, cursor=call.cursor, limit=call.limit)
    items = [review_item(one.instance, item) for one in found for item in one.items]
    return Reply(ReviewPage(items=items, cursor=cursor))


_COMMON = (
    "INSTANCE_NOT_FOUND",
    "QUEUE_ACCESS_DENIED",
    "DECLARATION_REQUIRED",
    "REVISION_CONFLICT",
    "INSTANCE_ENDED",
    "NOT_IN_REVIEW",
    "INBOX_PENDING",
    "INBOX_QUARANTINED",
)
_STEP = ("NOT_OWNED", "ACTIVATION_NOT_CURRENT", "STEP_REVISION_CONFLICT", "EXECUTION_UNSETTLED")

_OPERATIONS = (
    (
        "review-task",
        "ReviewTask: settle what an execution did, by evidence (REV-1)",
        review_task,
        wire.ReviewTask,
        ("NOT_OWNED", "TASK_REVISION_CONFLICT", "TASK_NOT_IN_REVIEW"),
    ),
    (
        "resolve-step",
        "ResolveStep: conclude a leaf; runs nothing again (RES-1)",
        resolve_step,
        wire.ResolveStep,
        (
            *_STEP,
            "STEP_NOT_RESOLVABLE",
            "CONTRACT_VIOLATION",
            "CLASSIFICATION_MISMATCH",
            "TIMER_NOT_DUE",
        ),
    ),
    (
        "retry-step",
        "RetryStep: a new activation inside the original budget and deadline (RET-1)",
        retry_step,
        wire.RetryStep,
        (
            *_STEP,
            "STOP_REQUESTED",
            "DEADLINE_PASSED",
            "STEP_NOT_RETRYABLE",
            "ROUND_PENDING",
            "INTEGRITY_MISMATCH",
            "BUDGET_EXHAUSTED",
            "QUOTA_EXCEEDED",
        ),
    ),
    (
        "continue-poll",
        "ContinuePoll: a poll verified PENDING waits for its next round (CPO-1)",
        continue_poll,
        wire.ContinuePoll,
        (*_STEP, "STOP_REQUESTED", "DEADLINE_PASSED", "POLL_NOT_PENDING", "ROUNDS_EXHAUSTED"),
    ),
    (
        "rearm-wait",
        "RearmWait: a signal or timer in review waits again (REA-1)",
        rearm_wait,
        wire.RearmWait,
        (
            "NOT_OWNED",
            "ACTIVATION_NOT_CURRENT",
            "STEP_REVISION_CONFLICT",
            "STOP_REQUESTED",
            "DEADLINE_PASSED",
            "WAIT_NOT_REARMABLE",
            "INTEGRITY_MISMATCH",
        ),
    ),
    (
        "continue",
        "Continue: leave review; opens the gate unless paused or stopping (CON-1)",
        continue_instance,
        wire.Continue,
        ("CONTRADICTED", "DEADLINE_PASSED", "EXECUTION_UNSETTLED", "UNRESOLVED_STEPS"),
    ),
)

ENDPOINTS = (
    *(
        Endpoint(
            method="POST",
            path=f"/instances/{{instance_id}}/recovery/{name}",
            summary=summary,
            permission=Permission.WORKFLOWS_RECOVER,
            handler=handler,
            body=body,
            answer=Receipt,
            query=_DRY,
            keyed=True,
            codes=(*_COMMON, *codes),
        )
        for name, summary, handler, body, codes in _OPERATIONS
    ),
    Endpoint(
        method="POST",
        path="/instances/{instance_id}/acknowledge-contradiction",
        summary="A person has seen that a late report contradicts (REC-13)",
        permission=Permission.WORKFLOWS_RECOVER,
        handler=acknowledge,
        body=wire.AcknowledgeContradiction,
        answer=Receipt,
        keyed=True,
        codes=("INSTANCE_NOT_FOUND", "QUEUE_ACCESS_DENIED", "REVISION_CONFLICT", "NOT_IN_REVIEW"),
    ),
    Endpoint(
        method="POST",
        path="/tasks/{task_id}/declare-lost",
        summary="Declare a running task's lease lost: its outcome becomes unknown (REC-17)",
        permission=Permission.WORKFLOWS_RECOVER,
        handler=declare_lost,
        body=wire.DeclareLost,
        answer=Receipt,
        keyed=True,
        codes=("TASK_NOT_FOUND", "QUEUE_ACCESS_DENIED", "TASK_REVISION_CONFLICT", "NOT_STARTED"),
    ),
    Endpoint(
        method="GET",
        path="/reviews",
        summary="What needs a person, the longest waiting first, with ready commands (REC-15)",
        permission=Permission.WORKFLOWS_READ,
        handler=reviews,
        answer=ReviewPage,
        query=PAGED,
    ),
)
