"""Facts as wire messages: stored canonical texts are embedded as they are, instants are written
out.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pulseweave.core.pulse.task import Holds
from pulseweave.core.recovery.operations import Item
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical
from pulseweave.kernel.instant import format_at
from pulseweave.store.facts.definitions import StoredDefinition
from pulseweave.wire.recovery import Blocking, Operation, ReviewItem
from pulseweave.wire.workflows import (
    ActivationView,
    DefinitionDetail,
    DefinitionSummary,
    InstanceSummary,
    RoundView,
    WaitView,
)


def raw(text: str | None) -> msgspec.Raw | None:
    """A stored payload, as it is."""
    return None if text is None else msgspec.Raw(text.encode("ascii"))


def raw_of(value: Any) -> msgspec.Raw:
    return msgspec.Raw(canonical.encode(value).encode("ascii"))


def at(instant: int | None) -> str | None:
    return None if instant is None else format_at(instant)


def holds(bits: int) -> list[str]:
    return [hold.name for hold in Holds if hold and hold & bits and hold.name is not None]


def definition_summary(
    stored: StoredDefinition, *, created: bool | None = None
) -> DefinitionSummary:
    return DefinitionSummary(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        digest=stored.digest,
        queues=list(stored.queues),
        created_at=format_at(stored.created_at),
        created=created,
    )


def definition_detail(stored: StoredDefinition) -> DefinitionDetail:
    return DefinitionDetail(
        id=stored.id,
        name=stored.name,
        version=stored.version,
        digest=stored.digest,
        queues=list(stored.queues),
        created_at=format_at(stored.created_at),
        document=raw(stored.document),
    )


def instance_fields(instance: Instance) -> dict[str, Any]:
    error = instance.error
    if error is None and instance.stop is not None:
        error = instance.stop.error
    return {
        "id": instance.id,
        "definition": instance.definition_name,
        "version": instance.definition_version,
        "instance_key": instance.instance_key,
        "state": instance.state.value,
        "paused": instance.paused,
        "stop_kind": instance.stop.kind.value if instance.stop is not None else None,
        "revision": str(instance.revision),
        "control_revision": str(instance.control_revision),
        "contradicted": instance.contradicted,
        "quarantined": instance.quarantined,
        "deadline_at": at(instance.deadline_at),
        "created_at": format_at(instance.created_at),
        "ended_at": at(instance.ended_at),
        "error": raw(error),
    }


def instance_summary(instance: Instance, *, created: bool | None = None) -> InstanceSummary:
    return InstanceSummary(**instance_fields(instance), created=created)


def activation_view(leaf: Leaf, outputs: Mapping[str, str]) -> ActivationView:
    """``outputs``: texts by the id of the row that holds them."""
    output = None
    if leaf.ignored:
        output = leaf.error
    elif leaf.output is not None:
        output = outputs.get(leaf.output.id)
    return ActivationView(
        id=leaf.id,
        step_key=leaf.step_key,
        sequence=leaf.sequence,
        kind=leaf.kind.value,
        state=leaf.state.value,
        revision=str(leaf.revision),
        task_id=leaf.task_id,
        round=leaf.round,
        deadline_at=at(leaf.deadline_at),
        retry_of=leaf.retry_of,
        current=leaf.current,
        ignored=leaf.ignored,
        review_cause=leaf.review_cause.value if leaf.review_cause is not None else None,
        review_at=at(leaf.review_at),
        entered_at=format_at(leaf.entered_at),
        settled_at=at(leaf.settled_at),
        error=raw(leaf.error),
        output=raw(output),
        output_source=leaf.output.source.value if leaf.output is not None else None,
        conclusion_id=leaf.conclusion_id,
    )


def wait_view(wait: Wait) -> WaitView:
    return WaitView(
        id=wait.id,
        step_key=wait.step_key,
        activation_id=wait.activation_id,
        kind=wait.kind.value,
        generation=wait.generation,
        name=wait.name,
        correlation=wait.correlation,
        due_at=at(wait.due_at),
        deadline_at=at(wait.deadline_at),
        armed_at=format_at(wait.armed_at),
        state=wait.state.value,
        reason=wait.reason.value if wait.reason is not None else None,
        closed_at=at(wait.closed_at),
        signal_id=wait.signal_id,
    )


def round_view(query: Query) -> RoundView:
    told = query.classification
    return RoundView(
        step_key=query.step_key,
        activation_id=query.activation_id,
        task_id=query.task_id,
        round=query.round,
        opened_at=format_at(query.opened_at),
        answered_at=at(query.answered_at),
        classification=told.value if told is not None else None,
    )


def review_item(instance: Instance, item: Item) -> ReviewItem:
    base = f"/v1/instances/{instance.id}/recovery"
    leaf = item.leaf
    return ReviewItem(
        instance_id=instance.id,
        instance_key=instance.instance_key,
        definition=instance.definition_name,
        definition_version=instance.definition_version,
        step_key=leaf.step_key if leaf is not None else None,
        activation_id=leaf.id if leaf is not None else None,
        task_id=leaf.task_id if leaf is not None else None,
        cause=item.cause,
        since=format_at(item.since),
        operations=[
            Operation(
                operation=operation.operation,
                applies=operation.refusal is None,
                code=operation.refusal.code if operation.refusal is not None else None,
                blocked_by=operation.refusal.message if operation.refusal is not None else None,
                path=f"{base}/{operation.path}",
                command=dict(operation.command),
                to_fill=list(operation.to_fill),
                note=operation.note,
            )
            for operation in item.operations
        ],
    )


def receipt_fields(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt for the wire: its instant written out, everything else as frozen.

    The first answer and every later one have the same bytes, though one comes from the decision and
    the others from its canonical text.
    """
    return {
        **receipt,
        "deadline_at": at(receipt.get("deadline_at")),
        "blocking": [Blocking(**blocker) for blocker in receipt["blocking"]],
        "details": raw_of(receipt["details"]),
    }
