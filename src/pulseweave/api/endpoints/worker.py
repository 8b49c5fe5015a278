"""The worker's turn, and its parts one by one for other languages: all take lists, one transaction
a call.
"""

from typing import Any

from pulseweave.api.convert import payload_text
from pulseweave.api.endpoint import Call, Endpoint, Reply
from pulseweave.app.encode import at, raw, raw_of
from pulseweave.core.identity import Permission
from pulseweave.core.pulse.answer import Answer as CoreAnswer
from pulseweave.core.pulse.change import TaskSpec
from pulseweave.core.pulse.error_text import code_of, failure_text, unknown_text
from pulseweave.core.pulse.report import Report
from pulseweave.core.pulse.task import Leased, Outcome, Task
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.errors import reject
from pulseweave.txn.form import check_name
from pulseweave.txn.pulse.turn import ClaimOrder, Named, Reported, TurnAnswer, TurnCommand
from pulseweave.wire.worker import (
    Answer,
    Cancelled,
    Claim,
    ClaimedTask,
    Failed,
    HeartbeatAnswer,
    StartAnswer,
    Succeeded,
    TurnRequest,
    TurnResponse,
    Unknown,
)
from pulseweave.wire.worker import Report as WireReport


def turn(call: Call) -> Reply:
    body: TurnRequest = call.body
    entries = len(body.reports) + len(body.releases) + len(body.heartbeats) + len(body.starts)
    if entries > limits.TURN_ENTRIES_MAX:
        raise reject(
            "INVALID_COMMAND",
            f"a turn has at most {limits.TURN_ENTRIES_MAX} entries, not {entries}",
        )
    command = TurnCommand(
        worker=body.worker[: limits.WORKER_CHARS_MAX],
        reports=[_reported(told, n) for n, told in enumerate(body.reports)],
        releases=[Named(named.task_id, named.token) for named in body.releases],
        heartbeats=[Named(named.task_id, named.token) for named in body.heartbeats],
        starts=[Named(named.task_id, named.token) for named in body.starts],
        claim=_claim_order(body.claim) if body.claim is not None else None,
    )
    return Reply(_response(body, call.app.tasks.turn(call.principal, command)))


def _claim_order(claim: Claim) -> ClaimOrder:
    queues = [
        check_name(queue, f"/claim/queues/{n}", chars_max=limits.NAME_CHARS_MAX)
        for n, queue in enumerate(claim.queues)
    ]
    return ClaimOrder(tuple(dict.fromkeys(queues)), claim.limit)


def _reported(told: WireReport, index: int) -> Reported:
    return Reported(told.task_id, told.token, _report(told, f"/reports/{index}"))


def _report(told: WireReport, place: str) -> Report:
    """Nothing that a handler says can make a report unwritable: texts are cut and kept as JSON
    (B088).
    """
    match told:
        case Succeeded(result=result):
            text = payload_text(result, f"{place}/result")
            return Report(
                outcome=Outcome.SUCCEEDED,
                digest=canonical.digest_of(["SUCCEEDED", text]),
                result=text,
                result_digest=canonical.digest(text),
            )
        case Failed(code=code, message=message, details=details, retryable=retryable):
            text = failure_text(message, details)
            digest = canonical.digest_of(["FAILED", code_of(code), text, retryable])
            return Report(
                outcome=Outcome.FAILED,
                digest=digest,
                code=code_of(code),
                error=text,
                retryable=retryable,
            )
        case Unknown(detail=detail, ended=ended):
            text = unknown_text(detail, ended=ended)
            return Report(
                outcome=Outcome.UNKNOWN,
                digest=canonical.digest_of(["UNKNOWN", text]),
                code="OUTCOME_UNKNOWN",
                error=text,
            )
        case Cancelled():
            digest = canonical.digest_of(["CANCELLED"])
            return Report(outcome=Outcome.CANCELLED, digest=digest, code="CANCELLED")


def _response(body: TurnRequest, answer: TurnAnswer) -> TurnResponse:
    return TurnResponse(
        reports=[_answer(e.task_id, a) for e, a in zip(body.reports, answer.reports, strict=True)],
        releases=[
            _answer(e.task_id, a) for e, a in zip(body.releases, answer.releases, strict=True)
        ],
        heartbeats=[
            _heartbeat(e.task_id, a)
            for e, a in zip(body.heartbeats, answer.heartbeats, strict=True)
        ],
        starts=[
            _start(e.task_id, a, answer.now)
            for e, a in zip(body.starts, answer.starts, strict=True)
        ],
        claimed=[_claimed(task, spec, answer.now) for task, spec in answer.claimed],
    )


def _refusal(answer: CoreAnswer) -> dict[str, Any]:
    if answer.rejected is None:
        return {"accepted": True}
    return {
        "accepted": False,
        "code": answer.rejected.code,
        "message": answer.rejected.message,
    }


def _answer(task_id: str, answer: CoreAnswer) -> Answer:
    return Answer(
        task_id=task_id,
        state=answer.state,
        late_report_id=answer.late_report_id,
        **_refusal(answer),
    )


def _heartbeat(task_id: str, answer: CoreAnswer) -> HeartbeatAnswer:
    return HeartbeatAnswer(
        task_id=task_id, cancel=answer.cancel, lease_ms=answer.lease_ms, **_refusal(answer)
    )


def _start(task_id: str, answer: CoreAnswer, now: int) -> StartAnswer:
    stop_in_ms = None if answer.stop_at is None else max(0, (answer.stop_at - now) // 1000)
    return StartAnswer(
        task_id=task_id,
        attempt=answer.attempt,
        lease_ms=answer.lease_ms,
        stop_in_ms=stop_in_ms,
        **_refusal(answer),
    )


def _claimed(task: Task, spec: TaskSpec, now: int) -> ClaimedTask:
    phase = task.phase
    left_us = phase.expires_at - now if isinstance(phase, Leased) else 0
    return ClaimedTask(
        task_id=task.id,
        token=task.token or "",
        queue=task.queue,
        handler=spec.handler,
        input=raw(spec.input),
        attempt=task.attempt_count + 1,
        max_attempts=task.max_attempts,
        effect=task.effect.value,
        start_within_ms=left_us // 1000,
        lease_ms=task.lease_ms,
        deadline_at=at(task.deadline_at),
        start_by=at(task.start_by),
        instance_id=task.instance_id,
        business_key=raw_of(spec.business_key),
        revision=str(task.revision),
    )


_PARTS = (
    ("turn", "Reports, releases, heartbeats, starts and a claim in one transaction; may wait"),
    ("claim", "Claim tasks (PUL-2)"),
    ("start", "Authorise executions just before their effect (PUL-2)"),
    ("report", "Tell what became of executions (PUL-4)"),
    ("heartbeat", "Renew leases (PUL-7)"),
    ("release", "Give unstarted leases back (PUL-14)"),
)

ENDPOINTS = tuple(
    Endpoint(
        method="POST",
        path=f"/worker/{name}",
        summary=summary,
        permission=Permission.TASKS_WORK,
        handler=turn,
        body=TurnRequest,
        answer=TurnResponse,
        codes=("QUEUE_ACCESS_DENIED",),
        bytes_max=limits.BODY_BYTES_MAX,
    )
    for name, summary in _PARTS
)
