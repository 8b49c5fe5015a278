"""Weave: definitions, instances, activations, inbox, journal, receipts and audit."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Index,
    Integer,
    Table,
    text,
)

from pulseweave.core.pulse.task import EventKind, TaskState
from pulseweave.core.weave.states import (
    Disposition,
    InboxState,
    InstanceState,
    LeafKind,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
    WakeReason,
)
from pulseweave.store.schema.base import metadata
from pulseweave.store.types import Id, Key, Micros, Payload, checked, flag

definitions = Table(
    "definitions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("name", Key(128), nullable=False),
    Column("version", Integer, nullable=False),
    Column("digest", Key(80), nullable=False),
    Column("document", Payload, nullable=False),
    Column("queues", Payload, nullable=False),  # sorted JSON array
    Column("created_at", Micros, nullable=False),
    Column("created_by", Key(200), nullable=False),
    Index("uq_definitions_name_version", "namespace", "name", "version", unique=True),
)

instances = Table(
    "instances",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("application", Key(64), nullable=False),
    Column("definition_id", Id, nullable=False),
    Column("definition_name", Key(128), nullable=False),
    Column("definition_version", Integer, nullable=False),
    Column("instance_key", Key(200), nullable=False),
    Column("partition_id", Integer, nullable=False),
    Column("input_digest", Key(80), nullable=False),
    Column("deadline_at", Micros),
    Column("created_at", Micros, nullable=False),
    Column("created_by", Key(200), nullable=False),
    # what moves
    *checked("state", InstanceState),
    Column("revision", Micros, nullable=False),
    Column("control_revision", Micros, nullable=False),
    *flag("paused"),
    *checked("stop_kind", StopKind, nullable=True),
    Column("stop_error", Payload),  # {"code", "message", "step"?}
    *flag("contradicted"),
    *flag("quarantined"),
    Column("superseded", Integer, nullable=False),  # queries that a final signal overtook
    Column("review_at", Micros),  # since when it needs a person
    Column("wake_at", Micros),  # the continuation: when the engine must look again
    *checked("wake_reason", WakeReason, nullable=True),
    Column("error", Payload),
    Column("output_digest", Key(80)),
    Column("journal_at", Micros, nullable=False),  # time of the last journal entry (PUL-15)
    Column("ended_at", Micros),
    CheckConstraint(
        "(ended_at IS NOT NULL) = (state IN ('SUCCEEDED', 'FAILED', 'CANCELLED'))",
        name="ended_at_in_its_states",
    ),
    CheckConstraint(
        "(stop_kind IS NOT NULL) OR (state NOT IN ('CANCELLING', 'FAILED', 'CANCELLED'))",
        name="stop_has_a_kind",
    ),
    Index("uq_instances_key", "namespace", "definition_name", "instance_key", unique=True),
    Index("ix_instances_state", "namespace", "state", "id"),
    Index(
        "ix_instances_review_at",
        "namespace",
        "review_at",
        "id",
        postgresql_where=text("review_at IS NOT NULL"),
        sqlite_where=text("review_at IS NOT NULL"),
    ),
    Index("ix_instances_listing", "namespace", "id"),
    Index(
        "ix_instances_ended_at",
        "ended_at",
        postgresql_where=text("ended_at IS NOT NULL"),
        sqlite_where=text("ended_at IS NOT NULL"),
    ),
    Index(
        "ix_instances_wake_at",
        "wake_at",
        postgresql_where=text("wake_at IS NOT NULL"),
        sqlite_where=text("wake_at IS NOT NULL"),
    ),
)

#: What is left of a pruned instance: its key never starts again (WEA-18).
tombstones = Table(
    "tombstones",
    metadata,
    Column("instance_id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("definition_name", Key(128), nullable=False),
    Column("definition_version", Integer, nullable=False),
    Column("instance_key", Key(200), nullable=False),
    *checked("state", InstanceState),
    Column("ended_at", Micros, nullable=False),
    Column("pruned_at", Micros, nullable=False),
    Index("uq_tombstones_key", "namespace", "definition_name", "instance_key", unique=True),
)

instance_payloads = Table(
    "instance_payloads",
    metadata,
    Column("instance_id", Id, primary_key=True),
    Column("name", Key(255), primary_key=True),  # input, output, items/<scope>/<page>
    Column("body", Payload, nullable=False),
)

#: One row per activation of a leaf; the leaf is its latest one (current = 1, else NULL).
activations = Table(
    "activations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("step_key", Key(255), nullable=False),  # leaf path, charge[17] inside a map
    Column("node_key", Key(128), nullable=False),  # step key in the definition
    Column("sequence", Integer, nullable=False),
    Column("within", Key(255), nullable=False),  # the item of a map in which it stands, or ''
    *checked("kind", LeafKind),
    Column("retry_of", Id),
    Column("deadline_at", Micros),  # until when a poll asks or a signal is waited for
    Column("entered_at", Micros, nullable=False),
    # what moves
    Column("task_id", Id),  # a poll has another one in each round
    Column("round", Integer),
    *flag("current", nullable=True),
    *checked("state", LeafState),
    Column("revision", Integer, nullable=False),
    Column("task_revision", Integer),  # revision of the newest task fact consumed
    *checked("task_state", TaskState, nullable=True),  # and the state that it told
    *checked("review_cause", ReviewCause, nullable=True),
    Column("review_at", Micros),
    *flag("ignored"),
    Column("error", Payload),
    *checked("output_source", OutputSource, nullable=True),
    Column("output_id", Id),  # id of the row that holds the output
    Column("output_digest", Key(80)),
    Column("conclusion_id", Id),
    Column("settled_at", Micros),
    Index("uq_activations_sequence", "instance_id", "step_key", "sequence", unique=True),
    Index("uq_activations_current", "instance_id", "within", "step_key", "current", unique=True),
    Index("ix_activations_task_id", "task_id"),
)

conclusions = Table(
    "conclusions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("activation_id", Id, nullable=False),
    Column("operation_id", Id, nullable=False),
    Column("verdict", Key(16), nullable=False),
    Column("result", Payload, nullable=False),  # the output, or the error of a FAILED conclusion
    Column("result_digest", Key(80), nullable=False),
    Column("actor", Key(200), nullable=False),
    Column("at", Micros, nullable=False),
    Index("ix_conclusions_instance_id", "instance_id", "id"),
)

inbox = Table(
    "inbox",
    metadata,
    Column("partition_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Micros, primary_key=True, autoincrement=False),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("activation_id", Id, nullable=False),
    Column("task_id", Id, nullable=False),
    Column("task_revision", Integer, nullable=False),
    *checked("kind", EventKind),
    *checked("state", InboxState),
    *checked("disposition", Disposition, nullable=True),
    Column("cause", Key(64)),  # why it is quarantined
    Column("cause_detail", Payload),
    Column("recorded_at", Micros, nullable=False),
    Column("processed_at", Micros),
    Column("instance_revision", Micros),  # revision of the instance that processed it
    Index("ix_inbox_instance_id", "instance_id", "state"),
)

cursors = Table(
    "cursors",
    metadata,
    Column("partition_id", Integer, primary_key=True, autoincrement=False),
    Column("consumer", Key(32), primary_key=True),
    Column("seq", Micros, nullable=False),  # everything up to here is in the inbox
)

journal = Table(
    "journal",
    metadata,
    Column("instance_id", Id, primary_key=True),
    Column("revision", Micros, primary_key=True, autoincrement=False),
    Column("namespace", Key(64), nullable=False),
    Column("at", Micros, nullable=False),
    Column("actor", Key(200), nullable=False),
    Column("cause", Key(64), nullable=False),
    Column("changes", Payload, nullable=False),
)

#: Receipts of management commands, found again by idempotency key (REC-3).
operations = Table(
    "operations",
    metadata,
    Column("namespace", Key(64), primary_key=True),
    Column("idempotency_key", Key(200), primary_key=True),
    Column("id", Id, nullable=False, unique=True),
    Column("operation", Key(40), nullable=False),
    Column("target_id", Id, nullable=False),
    Column("command_digest", Key(80), nullable=False),
    Column("receipt", Payload, nullable=False),
    Column("actor", Key(200), nullable=False),
    Column("at", Micros, nullable=False),
)

workflow_audit = Table(
    "workflow_audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id),
    Column("operation", Key(40), nullable=False),
    Column("idempotency_key", Key(200)),
    Column("outcome", Key(16), nullable=False),  # ACCEPTED | REFUSED
    Column("code", Key(64)),  # of a refusal
    Column("actor", Key(200), nullable=False),
    Column("at", Micros, nullable=False),
    Column("command_digest", Key(80), nullable=False),
    Column("reason", Payload),
    Column("evidence_ref", Payload),
    Column("prior", Payload),  # state before; the prior output as the id of its immutable row
    Column("next", Payload),  # state after; digest of what is new
    Column("execution_audit_id", Id),
    Index("ix_workflow_audit_namespace_id", "namespace", "id"),
    Index("ix_workflow_audit_instance_id", "instance_id", "id"),
)

schema_info = Table(
    "schema_info",
    metadata,
    Column("name", Key(64), primary_key=True),
    Column("value", Key(200), nullable=False),
)
