"""Reads of Weave's rows for decisions. None of them locks; whoever decides holds the instance
(locks.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, or_, select

from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import WAITING, InboxState, OutputSource
from pulseweave.kernel import canonical
from pulseweave.kernel.instant import format_at
from pulseweave.store import schema as t
from pulseweave.store.facts.tasks import task_results
from pulseweave.store.facts.waits import signal_payloads
from pulseweave.store.rows_weave import instance_from_row, leaf_from_row
from pulseweave.store.setwise import SetRead, in_keys
from pulseweave.store.tx import Tx
from pulseweave.store.types import one_of


@dataclass(frozen=True, slots=True)
class Identity:
    """What never changes about an instance: enough to know which locks a decision needs."""

    id: str
    namespace: str
    application: str
    definition_id: str
    partition_id: int


_i = t.instances.c
_IDENTITIES = select(_i.id, _i.namespace, _i.application, _i.definition_id, _i.partition_id).where(
    in_keys(_i.id, "ids")
)


def identities(tx: Tx, instance_ids: Iterable[str]) -> dict[str, Identity]:
    rows = tx.rows(_IDENTITIES, {"ids": sorted(set(instance_ids))})
    return {
        row.id: Identity(
            row.id, row.namespace, row.application, row.definition_id, row.partition_id
        )
        for row in rows
    }


_a = t.activations.c
_LEAVES_WITHIN = SetRead(
    t.activations,
    keys=("instance_id", "within"),
    index="uq_activations_current",
    where="activations.current IS NOT NULL",
)


def current_leaves(
    tx: Tx, scopes: Mapping[str, Mapping[str, ScopeState]]
) -> dict[str, dict[str, Leaf]]:
    """instance id → step key → the leaf's current activation: of the leaves outside of maps, and of
    those in open items, which the instance's scopes tell.
    """
    found: dict[str, dict[str, Leaf]] = {instance_id: {} for instance_id in scopes}
    places = [
        {"instance_id": instance_id, "within": within}
        for instance_id, known in sorted(scopes.items())
        for within in ("", *(item for scope in known.values() for item in scope.open_items))
    ]
    for row in tx.rows_of(_LEAVES_WITHIN, places):
        found[row.instance_id][row.step_key] = leaf_from_row(row)
    return found


_HISTORICAL = select(t.activations).where(
    in_keys(_a.id, "ids"), or_(_a.current.is_(None), _a.within != "")
)
_ALL_ACTIVATIONS = (
    select(t.activations)
    .where(_a.instance_id == bindparam("instance_id"))
    .order_by(_a.entered_at, _a.step_key, _a.sequence)
)


def historical_activations(tx: Tx, activation_ids: Iterable[str]) -> dict[str, Leaf]:
    """Those among the activations that are not their leaf's current one any more, or stand in an
    item of a map, which may be done; by id.
    """
    rows = tx.rows(_HISTORICAL, {"ids": sorted(set(activation_ids))})
    return {row.id: leaf_from_row(row) for row in rows}


def all_activations(tx: Tx, instance_id: str) -> tuple[Leaf, ...]:
    rows = tx.rows(_ALL_ACTIVATIONS, {"instance_id": instance_id})
    return tuple(leaf_from_row(row) for row in rows)


_KEPT = SetRead(t.instance_payloads, keys=("instance_id", "name"), index="PRIMARY")
_CONCLUSIONS = select(t.conclusions.c.id, t.conclusions.c.result).where(
    in_keys(t.conclusions.c.id, "ids")
)


def kept_payloads(tx: Tx, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """(instance id, name) → the value kept under that name: the input, a page of items."""
    keys = [{"instance_id": instance_id, "name": name} for instance_id, name in wanted]
    return {
        (row.instance_id, row.name): canonical.parse(row.body) for row in tx.rows_of(_KEPT, keys)
    }


def outputs(tx: Tx, leaves: Iterable[Leaf]) -> dict[str, Any]:
    """activation id → its output's value."""
    known = list(leaves)
    refs = [leaf.output for leaf in known if leaf.output is not None and not leaf.ignored]
    texts = output_texts(tx, refs)
    found: dict[str, Any] = {}
    for leaf in known:
        if leaf.ignored:
            found[leaf.id] = canonical.parse(leaf.error or "null")
        elif leaf.output is not None:
            found[leaf.id] = canonical.parse(texts[leaf.output.id])
    return found


_OUTPUT_LEAVES = select(t.activations).where(
    _a.instance_id == bindparam("instance_id"),
    _a.current.is_not(None),
    in_keys(_a.node_key, "node_keys"),
)


def leaves_of_nodes(tx: Tx, instance_id: str, node_keys: Iterable[str]) -> list[Leaf]:
    """Current activations of all leaves of these nodes, in whatever item they stand."""
    params = {"instance_id": instance_id, "node_keys": sorted(node_keys)}
    return [leaf_from_row(row) for row in tx.rows(_OUTPUT_LEAVES, params)]


def output_texts(tx: Tx, refs: Sequence[OutputRef]) -> dict[str, str]:
    """Id of the row that holds an output → its canonical text. Errors stand on the leaf itself."""
    found: dict[str, str] = {}
    tasks = sorted({ref.id for ref in refs if ref.source is OutputSource.TASK})
    if tasks:
        for task_id, result in task_results(tx, tasks).items():
            found[task_id] = result[0] if result[0] is not None else "null"
    signals = (ref.id for ref in refs if ref.source is OutputSource.SIGNAL)
    found |= signal_payloads(tx, signals)
    found |= {ref.id: "null" for ref in refs if ref.source is OutputSource.NULL}
    conclusions = sorted({ref.id for ref in refs if ref.source is OutputSource.CONCLUSION})
    if conclusions:
        found |= {row.id: row.result for row in tx.rows(_CONCLUSIONS, {"ids": conclusions})}
    return found


_x = t.inbox.c
_BLOCKED = (
    select(_x.instance_id)
    .where(
        in_keys(_x.instance_id, "ids"),
        one_of(_x.state, WAITING),
    )
    .distinct()
)


def blocked_instances(tx: Tx, instance_ids: Sequence[str]) -> set[str]:
    """Instances whose inbox holds a PENDING or QUARANTINED record: later events wait behind it."""
    return {row.instance_id for row in tx.rows(_BLOCKED, {"ids": sorted(instance_ids)})}


_OPEN_RECORDS = (
    select(_x.state, func.count().label("n"))
    .where(
        _x.instance_id == bindparam("instance_id"),
        one_of(_x.state, WAITING),
    )
    .group_by(_x.state)
)
_UNCONSUMED = (
    select(t.result_events.c.seq)
    .where(
        t.result_events.c.partition_id == bindparam("partition_id"),
        t.result_events.c.seq
        > func.coalesce(
            select(t.cursors.c.seq)
            .where(
                t.cursors.c.partition_id == bindparam("partition_id"),
                t.cursors.c.consumer == "weave",
            )
            .scalar_subquery(),
            0,
        ),
        t.result_events.c.instance_id == bindparam("instance_id"),
    )
    .limit(1)
)
_CONSUMED = (
    select(_x.task_id, func.max(_x.task_revision).label("revision"))
    .where(_x.instance_id == bindparam("instance_id"), _x.state == InboxState.PROCESSED.value)
    .group_by(_x.task_id)
)


def open_records(tx: Tx, instance_id: str) -> dict[str, int]:
    """PENDING and QUARANTINED records of the instance, counted."""
    rows = tx.rows(_OPEN_RECORDS, {"instance_id": instance_id})
    return {row.state: row.n for row in rows}


def has_unconsumed(tx: Tx, instance_id: str, partition_id: int) -> bool:
    """Whether the stream holds an event of the instance that the inbox hasn't recorded (REC-4)."""
    found = tx.rows(_UNCONSUMED, {"instance_id": instance_id, "partition_id": partition_id})
    return bool(found)


def consumed_revisions(tx: Tx, instance_id: str) -> dict[str, int]:
    """task id → newest task revision that the inbox has processed."""
    rows = tx.rows(_CONSUMED, {"instance_id": instance_id})
    return {row.task_id: row.revision for row in rows}


_DEFINITIONS = select(t.definitions.c.id, t.definitions.c.digest, t.definitions.c.document).where(
    in_keys(t.definitions.c.id, "ids")
)


def definition_documents(tx: Tx, definition_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """definition id → (digest, canonical document text)."""
    rows = tx.rows(_DEFINITIONS, {"ids": sorted(set(definition_ids))})
    return {row.id: (row.digest, row.document) for row in rows}


_DUE = (
    select(_i.id)
    .where(_i.wake_at <= bindparam("now"))
    .order_by(_i.wake_at)
    .limit(bindparam("limit"))
)


def due_instances(tx: Tx, now: int, limit: int) -> list[str]:
    """Instances whose continuation is due, most overdue first."""
    return [row.id for row in tx.rows(_DUE, {"now": now, "limit": limit})]


_BY_KEY = select(t.instances).where(
    _i.namespace == bindparam("namespace"),
    in_keys(_i.definition_name, "names"),
    in_keys(_i.instance_key, "keys"),
)


def instances_by_key(
    tx: Tx, namespace: str, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Instance]:
    """(definition name, instance key) → the instance, where there is one."""
    if not wanted:
        return {}
    params = {
        "namespace": namespace,
        "names": sorted({name for name, _ in wanted}),
        "keys": sorted({key for _, key in wanted}),
    }
    found = (instance_from_row(row) for row in tx.rows(_BY_KEY, params))
    pairs = set(wanted)
    return {
        (instance.definition_name, instance.instance_key): instance
        for instance in found
        if (instance.definition_name, instance.instance_key) in pairs
    }


_SINCE = (
    select(t.journal.c.revision, t.journal.c.at, t.journal.c.actor, t.journal.c.cause)
    .where(
        t.journal.c.instance_id == bindparam("instance_id"),
        t.journal.c.revision > bindparam("revision"),
    )
    .order_by(t.journal.c.revision)
    .limit(100)
)


def journal_since(tx: Tx, instance_id: str, revision: int) -> list[dict[str, Any]]:
    """What happened since a revision, for whoever decided on an old one (REC-12).

    ``revision``: what a client sent; it may have a digit more than a column of eight bytes.
    """
    known = min(revision, 2**63 - 1)
    rows = tx.rows(_SINCE, {"instance_id": instance_id, "revision": known})
    return [
        {
            "revision": str(row.revision),
            "at": format_at(row.at),
            "actor": row.actor,
            "cause": row.cause,
        }
        for row in rows
    ]
