"""Instances: start, list, read, history, audit, control."""

from pulseweave.api.convert import payload_text
from pulseweave.api.endpoint import PAGED, Call, Endpoint, Query, Reply, flag, named
from pulseweave.app.encode import (
    activation_view,
    at,
    instance_fields,
    instance_summary,
    raw,
    receipt_fields,
    review_item,
    round_view,
    wait_view,
)
from pulseweave.app.encode_tasks import audit_entry, journal_entry, task_view
from pulseweave.app.steps import step_tree
from pulseweave.core.identity import Permission
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InstanceState
from pulseweave.kernel import limits
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.instant import format_at
from pulseweave.store.views.instances import InstanceFilter
from pulseweave.txn.form import check_name
from pulseweave.txn.weave.signal import SignalRequest
from pulseweave.txn.weave.start import Started, StartRequest
from pulseweave.wire.recovery import AuditPage, Blocking, Control, Receipt
from pulseweave.wire.workflows import (
    HistoryPage,
    InstanceDetail,
    InstancePage,
    InstanceSummary,
    SendSignal,
    SignalAccepted,
    StartBatch,
    StartBatchResult,
    StartInstance,
    StartOutcome,
)


def _request(body: StartInstance, place: str) -> StartRequest:
    return StartRequest(
        definition=check_name(
            body.definition, f"{place}/definition", chars_max=limits.NAME_CHARS_MAX
        ),
        version=body.version,
        instance_key=check_name(
            body.instance_key, f"{place}/instance_key", chars_max=limits.INSTANCE_KEY_CHARS_MAX
        ),
        input=payload_text(body.input, f"{place}/input"),
    )


def start(call: Call) -> Reply:
    outcome = call.app.workflows.start(call.principal, [_request(call.body, "")])[0]
    if isinstance(outcome, Rejected):
        raise outcome
    status = 201 if outcome.created else 200
    return Reply(instance_summary(outcome.instance, created=outcome.created), status)


def start_batch(call: Call) -> Reply:
    requests = [_request(body, f"/instances/{n}") for n, body in enumerate(call.body.instances)]
    outcomes = call.app.workflows.start(call.principal, requests)
    items = [
        StartOutcome(
            instance_key=request.instance_key,
            instance=instance_summary(outcome.instance, created=outcome.created)
            if isinstance(outcome, Started)
            else None,
            code=outcome.code if isinstance(outcome, Rejected) else None,
            message=outcome.message if isinstance(outcome, Rejected) else None,
        )
        for request, outcome in zip(requests, outcomes, strict=True)
    ]
    return Reply(StartBatchResult(items=items))


def listing(call: Call) -> Reply:
    state = call.query.get("state")
    if state is not None and state not in InstanceState.__members__:
        raise reject(
            "INVALID_COMMAND", f"state is one of {', '.join(InstanceState)}", pointer="/state"
        )
    wanted = InstanceFilter(
        state=state,
        definition=call.filter("definition", chars_max=limits.NAME_CHARS_MAX),
        key=call.filter("instance_key", chars_max=limits.INSTANCE_KEY_CHARS_MAX),
        in_review=call.flag("in_review"),
        paused=call.flag("paused") if "paused" in call.query else None,
    )
    page = call.app.workflows.instances(
        call.principal, wanted, cursor=call.cursor, limit=call.limit
    )
    return Reply(InstancePage(items=[instance_summary(i) for i in page.items], cursor=page.cursor))


def get(call: Call) -> Reply:
    detail = call.app.workflows.detail(call.principal, call.id("instance_id"))
    instance = detail.instance
    return Reply(
        InstanceDetail(
            **instance_fields(instance),
            application=instance.application,
            definition_digest=detail.definition.digest,
            gate="OPEN" if instance.gate_open else "CLOSED",
            wake_at=at(instance.wake_at),
            wake_reason=instance.wake_reason.value if instance.wake_reason is not None else None,
            input=raw(detail.input),
            output=raw(detail.output),
            steps=step_tree(detail),
            activations=[activation_view(leaf, detail.outputs) for leaf in detail.activations],
            tasks=[task_view(task) for task in detail.tasks],
            waits=[wait_view(wait) for wait in detail.waits],
            rounds=[round_view(query) for query in detail.queries],
            reviews=[review_item(instance, item) for item in detail.items],
            blocking=[
                Blocking(
                    what=blocker.what,
                    who=blocker.who,
                    step_key=blocker.step_key,
                    task_id=blocker.task_id,
                    detail=blocker.detail,
                )
                for blocker in detail.blocking
            ],
        )
    )


def history(call: Call) -> Reply:
    page = call.app.workflows.history(
        call.principal, call.id("instance_id"), cursor=call.cursor, limit=call.limit
    )
    return Reply(HistoryPage(items=[journal_entry(row) for row in page.items], cursor=page.cursor))


def _audit(call: Call, instance_id: str | None) -> Reply:
    page = call.app.workflows.audit(
        call.principal,
        instance_id=instance_id,
        task_id=call.id_filter("task_id"),
        cursor=call.cursor,
        limit=call.limit,
    )
    return Reply(AuditPage(items=[audit_entry(row) for row in page.items], cursor=page.cursor))


def audit_of_instance(call: Call) -> Reply:
    return _audit(call, call.id("instance_id"))


def audit(call: Call) -> Reply:
    return _audit(call, None)


def _control(call: Call, verb: ControlVerb) -> Reply:
    receipt = call.app.workflows.control(
        call.principal,
        verb,
        instance_id=call.id("instance_id"),
        key=call.idempotency_key,
        expected_control_revision=int(call.body.expected_control_revision),
        reason=call.body.reason,
    )
    return Reply(Receipt(**receipt_fields(receipt)))


def pause(call: Call) -> Reply:
    return _control(call, ControlVerb.PAUSE)


def resume(call: Call) -> Reply:
    return _control(call, ControlVerb.RESUME)


def cancel(call: Call) -> Reply:
    return _control(call, ControlVerb.CANCEL)


def signal(call: Call) -> Reply:
    body: SendSignal = call.body
    accepted = call.app.workflows.signal(
        SignalRequest(
            principal=call.principal,
            instance_id=call.id("instance_id"),
            signal_key=call.idempotency_key,
            name=check_name(body.name, "/name", chars_max=limits.NAME_CHARS_MAX),
            correlation=body.correlation,
            payload=payload_text(body.payload, "/payload"),
        )
    )
    return Reply(
        SignalAccepted(
            id=accepted.signal_id,
            accepted_at=format_at(accepted.accepted_at),
            taken_by=accepted.wait_id,
            created=accepted.created,
        ),
        status=201 if accepted.created else 200,
    )


_CONTROL_CODES = (
    "INSTANCE_NOT_FOUND",
    "CONTROL_REVISION_CONFLICT",
    "INSTANCE_ENDED",
    "STOP_REQUESTED",
)

ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/instances",
        summary="Start an instance, idempotent by (definition, instance_key) (WEA-3)",
        permission=Permission.WORKFLOWS_START,
        handler=start,
        body=StartInstance,
        answer=InstanceSummary,
        statuses=(200, 201),
        codes=(
            "DEFINITION_NOT_FOUND",
            "CONTRACT_VIOLATION",
            "INSTANCE_KEY_CONFLICT",
            "INSTANCE_PRUNED",
            "QUOTA_EXCEEDED",
        ),
    ),
    Endpoint(
        method="POST",
        path="/instances:batch",
        summary="Start up to 500 instances in one transaction; each is answered on its own",
        permission=Permission.WORKFLOWS_START,
        handler=start_batch,
        body=StartBatch,
        answer=StartBatchResult,
        bytes_max=limits.BODY_BYTES_MAX,
    ),
    Endpoint(
        method="GET",
        path="/instances",
        summary="Instances, newest first",
        permission=Permission.WORKFLOWS_READ,
        handler=listing,
        answer=InstancePage,
        query={
            **PAGED,
            "state": Query(
                meaning="only in this state",
                schema={"type": "string", "enum": [state.value for state in InstanceState]},
            ),
            "definition": named("only of this definition", limits.NAME_CHARS_MAX),
            "instance_key": named("only with this key, literally", limits.INSTANCE_KEY_CHARS_MAX),
            "in_review": flag("true: only those that need a person"),
            "paused": flag("only those that are paused, or only those that are not"),
        },
    ),
    Endpoint(
        method="GET",
        path="/instances/{instance_id}",
        summary="Everything about one instance, from one snapshot, with what needs whom",
        permission=Permission.WORKFLOWS_READ,
        handler=get,
        answer=InstanceDetail,
        codes=("INSTANCE_NOT_FOUND",),
    ),
    Endpoint(
        method="GET",
        path="/instances/{instance_id}/history",
        summary="The journal, oldest first (WEA-4)",
        permission=Permission.WORKFLOWS_READ,
        handler=history,
        answer=HistoryPage,
        query=PAGED,
        codes=("INSTANCE_NOT_FOUND",),
    ),
    Endpoint(
        method="GET",
        path="/instances/{instance_id}/audit",
        summary="Management commands on the instance and its tasks, newest first",
        permission=Permission.AUDIT_READ,
        handler=audit_of_instance,
        answer=AuditPage,
        query=PAGED,
        codes=("INSTANCE_NOT_FOUND",),
    ),
    Endpoint(
        method="GET",
        path="/audit",
        summary="All management commands of the namespace, newest first",
        permission=Permission.AUDIT_READ,
        handler=audit,
        answer=AuditPage,
        query={**PAGED, "task_id": Query(meaning="only on this task")},
    ),
    Endpoint(
        method="POST",
        path="/instances/{instance_id}/signals",
        summary="Tell an instance something it waits for, or will wait for (WEA-10)",
        permission=Permission.WORKFLOWS_SIGNAL,
        handler=signal,
        body=SendSignal,
        answer=SignalAccepted,
        keyed=True,
        statuses=(200, 201),
        codes=(
            "INSTANCE_NOT_FOUND",
            "CONTRACT_VIOLATION",
            "INSTANCE_ENDED",
            "STOP_REQUESTED",
            "QUOTA_EXCEEDED",
        ),
    ),
    *(
        Endpoint(
            method="POST",
            path=f"/instances/{{instance_id}}/{verb}",
            summary=summary,
            permission=Permission.WORKFLOWS_CONTROL,
            handler=handler,
            body=Control,
            answer=Receipt,
            keyed=True,
            codes=(*_CONTROL_CODES, *codes),
        )
        for verb, handler, summary, codes in (
            ("pause", pause, "Stop authorising and advancing; deadlines keep running (WEA-12)", ()),
            ("resume", resume, "Go on (WEA-12)", ("DEADLINE_PASSED",)),
            ("cancel", cancel, "Set the stop intent CANCEL, once (WEA-12)", ()),
        )
    ),
)
