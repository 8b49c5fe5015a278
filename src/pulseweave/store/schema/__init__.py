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

from pulseweave.store.schema.base import metadata
from pulseweave.store.schema.identity import (
    applications,
    credential_queues,
    credentials,
    namespaces,
    queues,
    stripes,
)
from pulseweave.store.schema.pulse import (
    UNSETTLED,
    attempts,
    execution_audit,
    gates,
    held_keys,
    late_reports,
    result_events,
    result_partitions,
    task_specs,
    tasks,
)
from pulseweave.store.schema.waiting import (
    poll_rounds,
    scopes,
    signals,
    waits,
)
from pulseweave.store.schema.weave import (
    activations,
    conclusions,
    cursors,
    definitions,
    inbox,
    instance_payloads,
    instances,
    journal,
    operations,
    schema_info,
    tombstones,
    workflow_audit,
)

__all__ = [
    "UNSETTLED",
    "activations",
    "applications",
    "attempts",
    "conclusions",
    "credential_queues",
    "credentials",
    "cursors",
    "definitions",
    "execution_audit",
    "gates",
    "held_keys",
    "inbox",
    "instance_payloads",
    "instances",
    "journal",
    "late_reports",
    "metadata",
    "namespaces",
    "operations",
    "poll_rounds",
    "queues",
    "result_events",
    "result_partitions",
    "schema_info",
    "scopes",
    "signals",
    "stripes",
    "task_specs",
    "tasks",
    "tombstones",
    "waits",
    "workflow_audit",
]
