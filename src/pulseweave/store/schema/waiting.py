"""What leaves wait for and how far composite steps are: scopes, rounds, waits, signals."""

from sqlalchemy import (
    Column,
    Index,
    Integer,
    Table,
)

from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.states import (
    CloseReason,
    ScopeKind,
    WaitKind,
    WaitState,
)
from pulseweave.store.schema.base import metadata
from pulseweave.store.types import Id, Key, Micros, Payload, checked

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
