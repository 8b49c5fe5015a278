"""Pulse: tasks, attempts, gates, result streams, and the audit of executions."""

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    Table,
    literal_column,
    text,
)

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import SETTLED, EventKind, Outcome, SettledBy, TaskState
from pulseweave.store.schema.base import metadata
from pulseweave.store.types import Id, Key, Micros, Payload, checked, flag

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
