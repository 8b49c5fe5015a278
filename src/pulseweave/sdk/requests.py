"""Every request of the API as a call, by subject. No I/O: ``client`` and ``async_client`` send
them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from pulseweave.sdk.calls import Call, segment
from pulseweave.wire import admin, recovery, worker, workflows
from pulseweave.wire.base import Wire

Verdict = Literal["SUCCEEDED", "FAILED"]


class Empty(Wire, frozen=True, kw_only=True):
    """A body without fields."""


class DefinitionBody(Wire, frozen=True, kw_only=True):
    document: Any


def put_definition(document: Mapping[str, Any]) -> Call[workflows.DefinitionSummary]:
    name, version = document.get("name"), document.get("version")
    return Call(
        method="PUT",
        path=f"/definitions/{segment(name)}/versions/{segment(version)}",
        body=DefinitionBody(document=document),
        answer=workflows.DefinitionSummary,
    )


def get_definition(name: str, version: int) -> Call[workflows.DefinitionDetail]:
    path = f"/definitions/{segment(name)}/versions/{version}"
    return Call(method="GET", path=path, answer=workflows.DefinitionDetail)


def list_definitions(
    *, limit: int | None = None, cursor: str | None = None
) -> Call[workflows.DefinitionPage]:
    return Call(
        method="GET",
        path="/definitions",
        query={"limit": limit, "cursor": cursor},
        answer=workflows.DefinitionPage,
    )


def start_instance(
    definition: str,
    *,
    key: str,
    input: Any,  # noqa: A002
    version: int | None = None,
) -> Call[workflows.InstanceSummary]:
    body = workflows.StartInstance(
        definition=definition, version=version, instance_key=key, input=input
    )
    return Call(method="POST", path="/instances", body=body, answer=workflows.InstanceSummary)


def start_instances(
    starts: Sequence[workflows.StartInstance],
) -> Call[workflows.StartBatchResult]:
    return Call(
        method="POST",
        path="/instances:batch",
        body=workflows.StartBatch(instances=list(starts)),
        answer=workflows.StartBatchResult,
        timeout_s=60,
    )


def get_instance(instance_id: str) -> Call[workflows.InstanceDetail]:
    path = f"/instances/{segment(instance_id)}"
    return Call(method="GET", path=path, answer=workflows.InstanceDetail)


def list_instances(**query: Any) -> Call[workflows.InstancePage]:
    return Call(method="GET", path="/instances", query=query, answer=workflows.InstancePage)


def history(
    instance_id: str, *, limit: int | None = None, cursor: str | None = None
) -> Call[workflows.HistoryPage]:
    return Call(
        method="GET",
        path=f"/instances/{segment(instance_id)}/history",
        query={"limit": limit, "cursor": cursor},
        answer=workflows.HistoryPage,
    )


def audit(
    instance_id: str | None = None,
    *,
    task_id: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[recovery.AuditPage]:
    path = "/audit" if instance_id is None else f"/instances/{segment(instance_id)}/audit"
    query = {"limit": limit, "cursor": cursor, "task_id": task_id}
    return Call(method="GET", path=path, query=query, answer=recovery.AuditPage)


def control(
    verb: Literal["pause", "resume", "cancel"],
    instance_id: str,
    *,
    key: str,
    expected_control_revision: str,
    reason: str,
) -> Call[recovery.Receipt]:
    return Call(
        method="POST",
        path=f"/instances/{segment(instance_id)}/{verb}",
        key=key,
        body=recovery.Control(expected_control_revision=expected_control_revision, reason=reason),
        answer=recovery.Receipt,
    )


def signal(
    instance_id: str, body: workflows.SendSignal, *, key: str
) -> Call[workflows.SignalAccepted]:
    return Call(
        method="POST",
        path=f"/instances/{segment(instance_id)}/signals",
        key=key,
        body=body,
        answer=workflows.SignalAccepted,
    )


def recover(
    operation: str, instance_id: str, command: msgspec.Struct, *, key: str, dry_run: bool
) -> Call[recovery.Receipt]:
    return Call(
        method="POST",
        path=f"/instances/{segment(instance_id)}/recovery/{operation}",
        query={"dry_run": True if dry_run else None},
        key=key,
        body=command,
        answer=recovery.Receipt,
    )


def acknowledge(
    instance_id: str, command: recovery.AcknowledgeContradiction, *, key: str
) -> Call[recovery.Receipt]:
    return Call(
        method="POST",
        path=f"/instances/{segment(instance_id)}/acknowledge-contradiction",
        key=key,
        body=command,
        answer=recovery.Receipt,
    )


def list_reviews(
    *, limit: int | None = None, cursor: str | None = None
) -> Call[recovery.ReviewPage]:
    query = {"limit": limit, "cursor": cursor}
    return Call(method="GET", path="/reviews", query=query, answer=recovery.ReviewPage)


def create_task(body: workflows.CreateTask) -> Call[workflows.TaskView]:
    return Call(method="POST", path="/tasks", body=body, answer=workflows.TaskView)


def get_task(task_id: str) -> Call[workflows.TaskView]:
    return Call(method="GET", path=f"/tasks/{segment(task_id)}", answer=workflows.TaskView)


def cancel_task(
    task_id: str, command: recovery.CancelTask, *, key: str, instance_id: str | None = None
) -> Call[recovery.Receipt]:
    owner = "" if instance_id is None else f"/instances/{segment(instance_id)}"
    return Call(
        method="POST",
        path=f"{owner}/tasks/{segment(task_id)}/cancel",
        key=key,
        body=command,
        answer=recovery.Receipt,
    )


def review_task(
    task_id: str, command: recovery.ReviewOwnTask, *, key: str
) -> Call[recovery.Receipt]:
    return Call(
        method="POST",
        path=f"/tasks/{segment(task_id)}/review",
        key=key,
        body=command,
        answer=recovery.Receipt,
    )


def declare_lost(
    task_id: str, command: recovery.DeclareLost, *, key: str
) -> Call[recovery.Receipt]:
    return Call(
        method="POST",
        path=f"/tasks/{segment(task_id)}/declare-lost",
        key=key,
        body=command,
        answer=recovery.Receipt,
    )


def task_events(
    partition: int, *, after: str = "0", limit: int | None = None
) -> Call[workflows.TaskEventPage]:
    return Call(
        method="GET",
        path="/tasks/events",
        query={"partition": partition, "after": after, "limit": limit},
        answer=workflows.TaskEventPage,
    )


def turn(request: worker.TurnRequest) -> Call[worker.TurnResponse]:
    """Reports are fenced by token and digest, so a turn is repeatable; a lost claim lapses by
    itself.
    """
    return Call(
        method="POST",
        path="/worker/turn",
        body=request,
        answer=worker.TurnResponse,
        timeout_s=request.wait_ms / 1000 + 30,
    )


def me() -> Call[admin.Me]:
    return Call(method="GET", path="/me", answer=admin.Me)


def list_queues() -> Call[admin.QueueList]:
    return Call(method="GET", path="/queues", answer=admin.QueueList)


def set_queue(name: str, settings: admin.QueueSettings) -> Call[admin.QueueSettings]:
    path = f"/queues/{segment(name)}"
    return Call(method="PUT", path=path, body=settings, answer=admin.QueueSettings)


def list_applications() -> Call[admin.ApplicationList]:
    return Call(method="GET", path="/applications", answer=admin.ApplicationList)


def set_application(
    name: str, settings: admin.ApplicationSettings
) -> Call[admin.ApplicationSettings]:
    path = f"/applications/{segment(name)}"
    return Call(method="PUT", path=path, body=settings, answer=admin.ApplicationSettings)


def list_tokens() -> Call[admin.TokenList]:
    return Call(method="GET", path="/tokens", answer=admin.TokenList)


def create_token(body: admin.CreateToken) -> Call[admin.TokenView]:
    """Not repeatable: a lost answer has lost the token, and another one is made."""
    return Call(method="POST", path="/tokens", body=body, answer=admin.TokenView, repeatable=False)


def revoke_token(token_id: str) -> Call[admin.TokenView]:
    path = f"/tokens/{segment(token_id)}/revoke"
    return Call(method="POST", path=path, answer=admin.TokenView)


def list_inbox(*, limit: int | None = None, cursor: str | None = None) -> Call[admin.InboxPage]:
    query = {"limit": limit, "cursor": cursor}
    return Call(method="GET", path="/inbox", query=query, answer=admin.InboxPage)
