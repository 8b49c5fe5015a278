"""Every table, once, for all three databases.

Conventions: ids are UUIDv7 text with a binary collation; instants are integer microseconds UTC
ending in ``_at``; payloads and free text are canonical JSON text with ASCII escapes (a NUL or a
lone surrogate in a message must never make a row unwritable); flags are 0 or 1. There are no
foreign keys: ownership is checked both ways by the code that relies on it (REC-9).

Three kinds of rows. *Facts* (result events, journal, audits, receipts, conclusions, late reports,
task specs, instance payloads, definitions) are inserted and never updated. Attempts and inbox rows
are closed once. The rest (tasks, gates, instances, activations, limits) is current state, each
write conditional.

A partial index serves only statements that say its condition themselves, in these very words:
SQLite proves nothing, and PostgreSQL nothing about parameters. ``UNSETTLED`` is such a condition.
"""

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    Table,
    literal_column,
    text,
)

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import SETTLED, EventKind, Outcome, SettledBy, TaskState
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.states import (
    CloseReason,
    Disposition,
    InboxState,
    InstanceState,
    LeafKind,
    LeafState,
    OutputSource,
    ReviewCause,
    ScopeKind,
    StopKind,
    WaitKind,
    WaitState,
    WakeReason,
)
from pulseweave.store.types import Id, Key, Micros, Payload, checked, flag

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# --- identity -------------------------------------------------------------------------------------

namespaces = Table(
    "namespaces",
    metadata,
    Column("name", Key(64), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),  # partition ids are number * 256 + n
    Column("partitions", Integer, nullable=False),
    Column("created_at", Micros, nullable=False),
)

applications = Table(
    "applications",
    metadata,
    Column("namespace", Key(64), primary_key=True),
    Column("name", Key(64), primary_key=True),
    Column("max_open_tasks", Integer),
    Column("max_open_instances", Integer),
    Column("revision", Integer, nullable=False),
    Column("created_at", Micros, nullable=False),
)

queues = Table(
    "queues",
    metadata,
    Column("namespace", Key(64), primary_key=True),
    Column("name", Key(128), primary_key=True),
    *flag("paused"),
    Column("max_running", Integer),
    Column("max_open", Integer),
    *flag("reviews_hold_slots"),
    Column("revision", Integer, nullable=False),
    Column("created_at", Micros, nullable=False),
)

credentials = Table(
    "credentials",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("application", Key(64), nullable=False),
    Column("name", Key(200), nullable=False),
    Column("token_hash", Key(64), nullable=False, unique=True),
    Column("permissions", Payload, nullable=False),  # sorted JSON array of permission names
    *flag("all_queues"),
    Column("expires_at", Micros),
    Column("revoked_at", Micros),
    Column("created_at", Micros, nullable=False),
    Column("created_by", Key(200), nullable=False),
    Index("ix_credentials_namespace", "namespace", "id"),
)

credential_queues = Table(
    "credential_queues",
    metadata,
    Column("credential_id", Id, primary_key=True),
    Column("queue", Key(128), primary_key=True),
)

#: Rows to lock for keys that have no row yet: operation and start keys (OPERATION), concurrency
#: keys (KEY).
stripes = Table(
    "stripes",
    metadata,
    Column("kind", Key(16), primary_key=True),
    Column("number", Integer, primary_key=True),
)

# --- Pulse ----------------------------------------------------------------------------------------

_UNSETTLED_STATES = tuple(state.value for state in TaskState if state not in SETTLED)
_UNSETTLED = f"state IN ({', '.join(repr(state) for state in _UNSETTLED_STATES)})"

tasks = Table(
    "tasks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("application", Key(64), nullable=False),
    Column("queue", Key(128), nullable=False),
    Column("partition_id", Integer, nullable=False),
    Column("instance_id", Id),
    Column("activation_id", Id),
    *checked("effect", Effect),
    Column("priority_order", Integer, nullable=False),  # minus the priority: small goes first
    Column("max_attempts", Integer, nullable=False),
    Column("lease_ms", Integer, nullable=False),
    Column("attempt_timeout_ms", Micros),
    Column("deadline_at", Micros),
    Column("start_by", Micros),
    Column("key_hash", Key(64)),  # digest of the concurrency key
    # what moves
    *checked("state", TaskState),
    Column("revision", Integer, nullable=False),
    Column("holds", Integer, nullable=False),
    Column("due_at", Micros),
    Column("sweep_at", Micros),  # when a sweeper must look next; NULL: never
    Column("attempt_count", Integer, nullable=False),
    Column("unstarted_losses", Integer, nullable=False),
    *flag("tainted"),
    Column("cancel_requested_at", Micros),
    Column("lease_token", Key(64)),
    Column("lease_expires_at", Micros),
    Column("stop_at", Micros),
    *flag("holds_key"),  # its row in held_keys is this task's
    Column("waiting_key", Key(64)),  # key_hash while hold KEY is set
    *checked("settled_by", SettledBy, nullable=True),
    Column("settled_code", Key(64)),
    Column("settled_at", Micros),
    CheckConstraint(
        "attempt_count >= 0 AND attempt_count <= max_attempts", name="attempts_in_budget"
    ),
    CheckConstraint(
        "(lease_token IS NOT NULL) = (state IN ('LEASED', 'RUNNING'))", name="lease_in_its_states"
    ),
    CheckConstraint(
        "(lease_expires_at IS NOT NULL) = (lease_token IS NOT NULL)", name="lease_is_limited"
    ),
    CheckConstraint("holds >= 0 AND holds <= 7", name="holds_known"),
    CheckConstraint("(waiting_key IS NOT NULL) = (holds IN (2, 3, 6, 7))", name="key_with_its_bit"),
    CheckConstraint("(due_at IS NOT NULL) = (holds IN (4, 5, 6, 7))", name="delay_with_its_bit"),
    CheckConstraint("holds_key = 0 OR key_hash IS NOT NULL", name="holds_key_of_its_own"),
    CheckConstraint(
        "(settled_at IS NOT NULL) = (state IN ('SUCCEEDED', 'FAILED', 'CANCELLED'))",
        name="settled_at_in_its_states",
    ),
    Index(
        "ix_tasks_claim",
        "state",  # first: what is open of a namespace is counted by it, whatever the queue
        "namespace",
        "queue",
        "holds",
        "priority_order",
        "id",
        postgresql_where=text(_UNSETTLED),
        sqlite_where=text(_UNSETTLED),
    ),
    Index(
        "ix_tasks_sweep_at",
        "sweep_at",
        postgresql_where=text("sweep_at IS NOT NULL"),
        sqlite_where=text("sweep_at IS NOT NULL"),
    ),
    Index("ix_tasks_instance_id", "instance_id", "id"),
    Index(
        "ix_tasks_waiting_key",
        "waiting_key",
        "priority_order",
        "id",
        postgresql_where=text("waiting_key IS NOT NULL"),
        sqlite_where=text("waiting_key IS NOT NULL"),
    ),
)

#: Who holds a concurrency key: one task, by the primary key (PUL-10). A table of its own, for in
#: InnoDB the check of a unique secondary index locks the key's neighbours too, and deadlocks.
held_keys = Table(
    "held_keys",
    metadata,
    Column("key_hash", Key(64), primary_key=True),
    Column("task_id", Id, nullable=False),
)

#: The condition of the claim index, for every statement that should use it.
UNSETTLED: ColumnElement[Any] = tasks.c.state.in_(
    [literal_column(repr(state)) for state in _UNSETTLED_STATES]
)

#: What was fixed when the task was made and is not needed on the hot row. Written once.
task_specs = Table(
    "task_specs",
    metadata,
    Column("task_id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("handler", Key(200), nullable=False),
    Column("input", Payload, nullable=False),
    Column("input_digest", Key(80), nullable=False),
    Column("policy", Payload, nullable=False),  # {"backoff": {...}}: fixed retry policy
    Column("business_key", Payload),  # JSON string
    Column("concurrency_key", Payload),  # JSON string, as given
    Column("retry_of", Id, unique=True),  # a task has at most one direct successor (RET-3)
    Column("task_key", Key(200)),  # idempotency key of a stand-alone task
    Column("created_at", Micros, nullable=False),
    Column("created_by", Key(200), nullable=False),
    Index(
        "uq_task_specs_task_key",
        "namespace",
        "task_key",
        unique=True,
        postgresql_where=text("task_key IS NOT NULL"),
        sqlite_where=text("task_key IS NOT NULL"),
    ),
)

attempts = Table(
    "attempts",
    metadata,
    Column("task_id", Id, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("lease_token", Key(64), nullable=False),
    Column("worker", Payload, nullable=False),  # JSON string: a label for people, never an identity
    Column("started_at", Micros, nullable=False),
    *checked("outcome", Outcome, nullable=True),  # NULL while it runs
    Column("ended_at", Micros),
    Column("closed_by", Key(32)),  # REPORT, LEASE_LOST, DECLARED_LOST
    Column("code", Key(64)),
    Column("error", Payload),  # {"message", "details"?} or an UNKNOWN's {"detail", "ended"}
    Column("result", Payload),
    Column("result_digest", Key(80)),
    Column("report_digest", Key(80)),  # to recognise the same report again (PUL-6)
    *checked("task_state", TaskState, nullable=True),  # where its end led: the report's answer
    Column("reviewed_by", Id),  # execution audit that settled this unknown execution
)

late_reports = Table(
    "late_reports",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("task_id", Id, nullable=False),
    Column("attempt", Integer),
    Column("report_digest", Key(80), nullable=False),
    *checked("outcome", Outcome),
    Column("code", Key(64)),
    Column("error", Payload),
    Column("result", Payload),
    Column("result_digest", Key(80)),
    Column("received_at", Micros, nullable=False),
    Index("ix_late_reports_task_id", "task_id", "id"),
)

gates = Table(
    "gates",
    metadata,
    Column("instance_id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    *flag("open"),
    Column("revision", Integer, nullable=False),
)

result_partitions = Table(
    "result_partitions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Key(64), nullable=False),
    Column("head_seq", Micros, nullable=False),
    Column("pruned_seq", Micros, nullable=False),
    Index("ix_result_partitions_namespace", "namespace", "id"),
)

result_events = Table(
    "result_events",
    metadata,
    Column("partition_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Micros, primary_key=True, autoincrement=False),
    Column("namespace", Key(64), nullable=False),
    Column("task_id", Id, nullable=False),
    Column("task_revision", Integer, nullable=False),
    Column("instance_id", Id),
    Column("activation_id", Id),
    *checked("kind", EventKind),
    Column("code", Key(64)),
    Column("attempt", Integer),
    Column("late_report_id", Id),
    Column("at", Micros, nullable=False),
)

execution_audit = Table(
    "execution_audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("task_id", Id, nullable=False),
    Column("operation", Key(40), nullable=False),
    Column("actor", Key(200), nullable=False),
    Column("at", Micros, nullable=False),
    Column("command_digest", Key(80), nullable=False),
    Column("reason", Payload, nullable=False),
    Column("evidence_ref", Payload, nullable=False),
    Column("prior", Payload, nullable=False),  # {"state", "revision", ...} before the decision
    Column("verdict", Key(16)),
    Column("result", Payload),  # a verdict's result: this row is its home for ever
    Column("result_digest", Key(80)),
    Column("late_report_id", Id),
    Index("ix_execution_audit_task_id", "task_id", "id"),
    Index("ix_execution_audit_namespace_id", "namespace", "id"),
)

# --- Weave ----------------------------------------------------------------------------------------

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
        "ix_instances_wake_at",
        "wake_at",
        postgresql_where=text("wake_at IS NOT NULL"),
        sqlite_where=text("wake_at IS NOT NULL"),
    ),
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

#: A choice that was taken, or a map with its counters (WEA-2).
scopes = Table(
    "scopes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("scope_key", Key(255), nullable=False),
    Column("node_key", Key(128), nullable=False),
    Column("within", Key(255), nullable=False),
    *checked("kind", ScopeKind),
    Column("taken", Integer),  # the branch that a choice took
    Column("item_count", Integer, nullable=False),
    Column("entered_at", Micros, nullable=False),
    # what moves
    Column("entered_items", Integer, nullable=False),
    Column("open_items", Payload, nullable=False),  # JSON array of indexes
    Column("revision", Integer, nullable=False),
    Index("uq_scopes_key", "instance_id", "within", "scope_key", unique=True),
)

#: A query of a poll: one task, in one business round (WEA-9). Closed once, when it is answered.
poll_rounds = Table(
    "poll_rounds",
    metadata,
    Column("task_id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("activation_id", Id, nullable=False),
    Column("step_key", Key(255), nullable=False),
    Column("round", Integer, nullable=False),
    Column("opened_at", Micros, nullable=False),
    Column("answered_at", Micros),
    *checked("classification", Classification, nullable=True),
    Index("ix_poll_rounds_instance_id", "instance_id", "step_key", "round"),
)

#: An armed signal, timer or pause between two rounds. Closed once; re-arming makes the next one.
waits = Table(
    "waits",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("activation_id", Id, nullable=False),
    Column("step_key", Key(255), nullable=False),
    *checked("kind", WaitKind),
    Column("generation", Integer, nullable=False),
    Column("name", Key(128)),
    Column("correlation", Payload),  # JSON string
    Column("due_at", Micros),
    Column("deadline_at", Micros),
    Column("armed_at", Micros, nullable=False),
    # closed once
    *checked("state", WaitState),
    *checked("reason", CloseReason, nullable=True),
    Column("closed_at", Micros),
    Column("signal_id", Id),
    Index("ix_waits_instance_id", "instance_id", "state"),
    Index("ix_waits_activation_id", "activation_id"),
)

#: Signals that were accepted: facts, but for the wait that took one (WEA-10).
signals = Table(
    "signals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("namespace", Key(64), nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("signal_key", Key(200), nullable=False),
    Column("command_digest", Key(80), nullable=False),
    Column("name", Key(128), nullable=False),
    Column("correlation", Payload),  # JSON string
    Column("payload", Payload, nullable=False),
    Column("payload_digest", Key(80), nullable=False),
    Column("accepted_at", Micros, nullable=False),
    Column("accepted_by", Key(200), nullable=False),
    # closed once
    Column("wait_id", Id),
    Column("taken_at", Micros),
    Index("uq_signals_key", "instance_id", "signal_key", unique=True),
    Index("ix_signals_kept", "instance_id", "wait_id"),
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
