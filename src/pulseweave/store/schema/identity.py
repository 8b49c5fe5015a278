"""Who may use what: namespaces, applications, queues, credentials; stripes that stand for keys."""

from sqlalchemy import (
    Column,
    Index,
    Integer,
    Table,
)

from pulseweave.store.schema.base import metadata
from pulseweave.store.types import Id, Key, Micros, Payload, flag

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
