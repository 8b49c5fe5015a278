"""Stand-alone tasks and the result stream."""

from pulseweave.api.convert import payload_text
from pulseweave.api.endpoint import LIMITED, WHOLE_MAX, Call, Endpoint, Reply, whole
from pulseweave.app.encode import receipt_fields
from pulseweave.app.encode_tasks import event_view, task_view
from pulseweave.core.identity import Permission
from pulseweave.core.pulse.policy import DEFAULT_BACKOFF, Backoff, Effect, RetryPolicy
from pulseweave.core.weave.definition.kinds.task import FACTOR_MAX
from pulseweave.kernel import duration, limits
from pulseweave.kernel.errors import reject
from pulseweave.txn.form import check_name
from pulseweave.txn.pulse.create import TaskOrder
from pulseweave.txn.pulse.review import ReviewOwnTask as OwnReview
from pulseweave.wire.base import Json
from pulseweave.wire.recovery import CancelTask, Receipt, ReviewOwnTask
from pulseweave.wire.workflows import CreateTask, TaskEventPage, TaskView

#: The last position that a stream can have: eight bytes in every database.
AFTER_MAX = 2**63 - 1


def create(call: Call) -> Reply:
    body: CreateTask = call.body
    order = TaskOrder(
        queue=check_name(body.queue, "/queue", chars_max=limits.NAME_CHARS_MAX),
        handler=check_name(body.handler, "/handler", chars_max=limits.HANDLER_CHARS_MAX),
        task_key=check_name(body.task_key, "/task_key", chars_max=limits.INSTANCE_KEY_CHARS_MAX),
        input=payload_text(body.input, "/input"),
        policy=_policy(body),
        priority=body.priority,
        deadline_ms=_ms(body.deadline, "deadline"),
        start_within_ms=_ms(body.start_within, "start_within"),
        concurrency_key=body.concurrency_key,
        business_key=body.business_key,
    )
    detail, created = call.app.tasks.create(call.principal, order)
    return Reply(task_view(detail), 201 if created else 200)


def _policy(body: CreateTask) -> RetryPolicy:
    if body.effect not in {effect.value for effect in Effect}:
        raise reject("INVALID_COMMAND", f"effect is one of {', '.join(Effect)}", pointer="/effect")
    lease_ms = _ms(body.lease, "lease") or limits.LEASE_DEFAULT_MS
    if not limits.LEASE_MS_MIN <= lease_ms <= limits.LEASE_MS_MAX:
        raise reject("INVALID_COMMAND", "a lease lasts from 1s to 24h", pointer="/lease")
    return RetryPolicy(
        max_attempts=body.max_attempts,
        backoff=_backoff(body.backoff),
        attempt_timeout_ms=_ms(body.attempt_timeout, "attempt_timeout"),
        lease_ms=lease_ms,
        effect=Effect(body.effect),
    )


def _backoff(given: Json) -> Backoff:
    if given is None:
        return DEFAULT_BACKOFF
    known = {"initial", "factor", "max", "jitter"}
    if not isinstance(given, dict) or not given.keys() <= known:
        raise reject(
            "INVALID_COMMAND", "backoff has initial, factor, max and jitter", pointer="/backoff"
        )
    factor, jitter = given.get("factor", DEFAULT_BACKOFF.factor), given.get("jitter", 0.2)
    for name, number, low, high in (("factor", factor, 1, FACTOR_MAX), ("jitter", jitter, 0, 1)):
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not low <= number <= high
        ):
            raise reject(
                "INVALID_COMMAND",
                f"{name} is a number from {low} to {high}",
                pointer=f"/backoff/{name}",
            )
    initial_ms = _ms(given.get("initial"), "backoff/initial", zero=True)
    max_ms = _ms(given.get("max"), "backoff/max", zero=True)
    backoff = Backoff(
        initial_ms=DEFAULT_BACKOFF.initial_ms if initial_ms is None else initial_ms,
        factor=float(factor),
        max_ms=DEFAULT_BACKOFF.max_ms if max_ms is None else max_ms,
        jitter=float(jitter),
    )
    if backoff.max_ms < backoff.initial_ms:
        message = "the longest delay (max) is not shorter than the first (initial)"
        raise reject("INVALID_COMMAND", message, pointer="/backoff/max")
    return backoff


def _ms(text: object, name: str, *, zero: bool = False) -> int | None:
    if text is None:
        return None
    try:
        return duration.parse(text, zero=zero)
    except duration.InvalidDuration as error:
        raise reject("INVALID_COMMAND", str(error), pointer=f"/{name}") from None


def get(call: Call) -> Reply:
    return Reply(task_view(call.app.tasks.get(call.principal, call.id("task_id"))))


def _cancel(call: Call, instance_id: str | None) -> Reply:
    receipt = call.app.tasks.cancel(
        call.principal,
        task_id=call.id("task_id"),
        instance_id=instance_id,
        key=call.idempotency_key,
        expected_task_revision=int(call.body.expected_task_revision),
        reason=call.body.reason,
    )
    return Reply(Receipt(**receipt_fields(receipt)))


def cancel(call: Call) -> Reply:
    return _cancel(call, None)


def cancel_of_instance(call: Call) -> Reply:
    return _cancel(call, call.id("instance_id"))


def review(call: Call) -> Reply:
    body: ReviewOwnTask = call.body
    command = OwnReview(
        principal=call.principal,
        task_id=call.id("task_id"),
        idempotency_key=call.idempotency_key,
        reason=body.reason,
        evidence_ref=body.evidence_ref,
        expected_task_revision=int(body.expected_task_revision),
        declared=body.execution_settled is True,
        succeeded=body.verdict == "SUCCEEDED",
        result=None if body.result is None else payload_text(body.result, "/result"),
        late_report_id=body.late_report_id,
    )
    return Reply(Receipt(**receipt_fields(call.app.tasks.review(call.principal, command))))


def events(call: Call) -> Reply:
    after = call.number("after", 0, 0, AFTER_MAX)
    partition = call.number("partition", -1, 0, WHOLE_MAX)
    if partition < 0:
        raise reject(
            "INVALID_COMMAND",
            "name the partition to read; /me has those of the namespace",
            pointer="/partition",
        )
    rows = call.app.tasks.events(call.principal, partition=partition, after=after, limit=call.limit)
    last = str(rows[-1].seq) if rows else str(after)
    return Reply(TaskEventPage(items=[event_view(row) for row in rows], after=last))


_CANCEL_CODES = (
    "TASK_NOT_FOUND",
    "QUEUE_ACCESS_DENIED",
    "NOT_OWNED",
    "TASK_REVISION_CONFLICT",
    "TASK_SETTLED",
    "EXECUTION_UNSETTLED",
)

ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/tasks",
        summary="Create a task that no workflow owns, idempotent by task_key",
        permission=Permission.TASKS_CREATE,
        handler=create,
        body=CreateTask,
        answer=TaskView,
        statuses=(200, 201),
        codes=("QUEUE_ACCESS_DENIED", "IDEMPOTENCY_CONFLICT", "QUOTA_EXCEEDED"),
    ),
    Endpoint(
        method="GET",
        path="/tasks/events",
        summary="The result stream of one partition, in order, without gaps (PUL-11)",
        permission=Permission.TASKS_READ,
        handler=events,
        answer=TaskEventPage,
        query={
            **LIMITED,
            "partition": whole(
                "which partition, of those that /me has", 0, WHOLE_MAX, required=True
            ),
            "after": whole("position behind which to read", 0, AFTER_MAX),
        },
    ),
    Endpoint(
        method="GET",
        path="/tasks/{task_id}",
        summary="A task with its attempts and late reports",
        permission=Permission.TASKS_READ,
        handler=get,
        answer=TaskView,
        codes=("TASK_NOT_FOUND",),
    ),
    Endpoint(
        method="POST",
        path="/tasks/{task_id}/cancel",
        summary="Cancel a task that no workflow owns (PUL-8)",
        permission=Permission.TASKS_CONTROL,
        handler=cancel,
        body=CancelTask,
        answer=Receipt,
        keyed=True,
        codes=_CANCEL_CODES,
    ),
    Endpoint(
        method="POST",
        path="/instances/{instance_id}/tasks/{task_id}/cancel",
        summary="Cancel one task of a workflow alone (PUL-18)",
        permission=Permission.WORKFLOWS_CONTROL,
        handler=cancel_of_instance,
        body=CancelTask,
        answer=Receipt,
        keyed=True,
        codes=("INSTANCE_NOT_FOUND", *_CANCEL_CODES),
    ),
    Endpoint(
        method="POST",
        path="/tasks/{task_id}/review",
        summary="Settle what a stand-alone task's execution did, by evidence (PUL-13)",
        permission=Permission.TASKS_REVIEW,
        handler=review,
        body=ReviewOwnTask,
        answer=Receipt,
        keyed=True,
        codes=(
            "TASK_NOT_FOUND",
            "QUEUE_ACCESS_DENIED",
            "DECLARATION_REQUIRED",
            "NOT_OWNED",
            "TASK_REVISION_CONFLICT",
            "TASK_NOT_IN_REVIEW",
        ),
    ),
)
