"""Weave's rows and facts: the only place that knows how one becomes the other."""

from collections.abc import Mapping
from typing import Any

from pulseweave.core.pulse.task import TaskState
from pulseweave.core.weave.instance import Instance, Stop
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.states import (
    InstanceState,
    LeafKind,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
    WakeReason,
)

#: Columns of ``instances`` that a decision may move.
INSTANCE_MOVING = (
    "state",
    "revision",
    "control_revision",
    "paused",
    "stop_kind",
    "stop_error",
    "contradicted",
    "quarantined",
    "superseded",
    "review_at",
    "wake_at",
    "wake_reason",
    "error",
    "output_digest",
    "journal_at",
    "ended_at",
)

#: Columns of ``activations`` that a decision may move.
LEAF_MOVING = (
    "task_id",
    "round",
    "current",
    "state",
    "revision",
    "task_revision",
    "task_state",
    "review_cause",
    "review_at",
    "ignored",
    "error",
    "output_source",
    "output_id",
    "output_digest",
    "conclusion_id",
    "settled_at",
)


def instance_from_row(row: Any) -> Instance:
    stop = None
    if row.stop_kind is not None:
        stop = Stop(kind=StopKind(row.stop_kind), error=row.stop_error)
    return Instance(
        id=row.id,
        namespace=row.namespace,
        application=row.application,
        definition_id=row.definition_id,
        definition_name=row.definition_name,
        definition_version=row.definition_version,
        instance_key=row.instance_key,
        partition_id=row.partition_id,
        input_digest=row.input_digest,
        deadline_at=row.deadline_at,
        created_at=row.created_at,
        created_by=row.created_by,
        state=InstanceState(row.state),
        revision=row.revision,
        control_revision=row.control_revision,
        journal_at=row.journal_at,
        paused=bool(row.paused),
        stop=stop,
        contradicted=bool(row.contradicted),
        quarantined=bool(row.quarantined),
        superseded=row.superseded,
        review_at=row.review_at,
        wake_at=row.wake_at,
        wake_reason=WakeReason(row.wake_reason) if row.wake_reason is not None else None,
        error=row.error,
        output_digest=row.output_digest,
        ended_at=row.ended_at,
    ).check()


def instance_moving(instance: Instance) -> dict[str, Any]:
    """Values of the moving columns, as the set-based update wants them."""
    stop = instance.stop
    return {
        "state": instance.state.value,
        "revision": instance.revision,
        "control_revision": instance.control_revision,
        "paused": int(instance.paused),
        "stop_kind": stop.kind.value if stop is not None else None,
        "stop_error": stop.error if stop is not None else None,
        "contradicted": int(instance.contradicted),
        "quarantined": int(instance.quarantined),
        "superseded": instance.superseded,
        "review_at": instance.review_at,
        "wake_at": instance.wake_at,
        "wake_reason": instance.wake_reason.value if instance.wake_reason is not None else None,
        "error": instance.error,
        "output_digest": instance.output_digest,
        "journal_at": instance.journal_at,
        "ended_at": instance.ended_at,
    }


def instance_row(instance: Instance) -> dict[str, Any]:
    """A whole new row."""
    return {
        "id": instance.id,
        "namespace": instance.namespace,
        "application": instance.application,
        "definition_id": instance.definition_id,
        "definition_name": instance.definition_name,
        "definition_version": instance.definition_version,
        "instance_key": instance.instance_key,
        "partition_id": instance.partition_id,
        "input_digest": instance.input_digest,
        "deadline_at": instance.deadline_at,
        "created_at": instance.created_at,
        "created_by": instance.created_by,
        **instance_moving(instance),
    }


def leaf_from_row(row: Any) -> Leaf:
    output = None
    if row.output_source is not None:
        source = OutputSource(row.output_source)
        output = OutputRef(source=source, id=row.output_id, digest=row.output_digest)
    return Leaf(
        id=row.id,
        namespace=row.namespace,
        instance_id=row.instance_id,
        step_key=row.step_key,
        node_key=row.node_key,
        sequence=row.sequence,
        kind=LeafKind(row.kind),
        task_id=row.task_id,
        retry_of=row.retry_of,
        entered_at=row.entered_at,
        within=row.within,
        round=row.round,
        deadline_at=row.deadline_at,
        current=row.current is not None,
        state=LeafState(row.state),
        revision=row.revision,
        task_revision=row.task_revision,
        task_state=TaskState(row.task_state) if row.task_state is not None else None,
        review_cause=ReviewCause(row.review_cause) if row.review_cause is not None else None,
        review_at=row.review_at,
        ignored=bool(row.ignored),
        error=row.error,
        output=output,
        conclusion_id=row.conclusion_id,
        settled_at=row.settled_at,
    ).check()


def leaf_moving(leaf: Leaf) -> dict[str, Any]:
    """Values of the moving columns. ``current`` is 1 or NULL, so that one leaf has one current
    activation.
    """
    output = leaf.output
    return {
        "task_id": leaf.task_id,
        "round": leaf.round,
        "current": 1 if leaf.current else None,
        "state": leaf.state.value,
        "revision": leaf.revision,
        "task_revision": leaf.task_revision,
        "task_state": leaf.task_state.value if leaf.task_state is not None else None,
        "review_cause": leaf.review_cause.value if leaf.review_cause is not None else None,
        "review_at": leaf.review_at,
        "ignored": int(leaf.ignored),
        "error": leaf.error,
        "output_source": output.source.value if output is not None else None,
        "output_id": output.id if output is not None else None,
        "output_digest": output.digest if output is not None else None,
        "conclusion_id": leaf.conclusion_id,
        "settled_at": leaf.settled_at,
    }


def leaf_row(leaf: Leaf) -> Mapping[str, Any]:
    """A whole new row."""
    return {
        "id": leaf.id,
        "namespace": leaf.namespace,
        "instance_id": leaf.instance_id,
        "step_key": leaf.step_key,
        "node_key": leaf.node_key,
        "sequence": leaf.sequence,
        "within": leaf.within,
        "kind": leaf.kind.value,
        "retry_of": leaf.retry_of,
        "deadline_at": leaf.deadline_at,
        "entered_at": leaf.entered_at,
        **leaf_moving(leaf),
    }
