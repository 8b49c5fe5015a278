"""Start: idempotent by (definition name, instance key), quotas exact, first leaves at once (WEA-3,
PUL-12).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.start import StartCommand, check_input, start
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.weave import NOTHING_LOCKED, apply_plans
from pulseweave.store.engine import Database
from pulseweave.store.facts import definitions as definition_facts
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts import queues as queue_facts
from pulseweave.store.facts.tombstones import tombstones_by_key
from pulseweave.store.tx import Tx
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.held import pruned
from pulseweave.txn.weave.quota import lock_quotas, quota_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """``version`` None: the newest registered. ``input``: canonical JSON text."""

    definition: str
    version: int | None
    instance_key: str
    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    instance: Instance
    created: bool


Outcome = Started | Rejected


def start_instances(
    database: Database,
    requests: Sequence[StartRequest],
    *,
    namespace: str,
    application: str,
    actor: str,
    ids: IdSource,
) -> list[Outcome]:
    """Start a batch in one transaction; each entry is answered on its own."""
    return run(
        database,
        lambda tx: _start_all(
            tx, requests, namespace=namespace, application=application, actor=actor, ids=ids
        ),
    )


def _start_all(
    tx: Tx,
    requests: Sequence[StartRequest],
    *,
    namespace: str,
    application: str,
    actor: str,
    ids: IdSource,
) -> list[Outcome]:
    asked = {(request.definition, request.version) for request in requests}
    resolved = {pair: definition_facts.resolve(tx, namespace, *pair) for pair in asked}
    definitions = definitions_of(tx, [found for found in resolved.values() if found is not None])
    queues = {(namespace, queue) for d in definitions.values() for queue in d.queues}
    keys = sorted({f"{request.definition}\0{request.instance_key}" for request in requests})
    counted = queue_facts.open_instance_limit(tx, namespace, application) is not None
    quotas = lock_quotas(
        tx,
        [(namespace, application)],
        queues,
        between=lambda: locks.lock_start_stripes(tx, namespace, keys),
        also=[(namespace, application)] if counted else [],
    )
    instances_left = _instances_left(tx, namespace, application) if counted else None
    partitions = definition_facts.partitions_of(tx, namespace)
    room, plans, outcomes = quotas.room(), [], []
    known = facts.instances_by_key(
        tx, namespace, [(request.definition, request.instance_key) for request in requests]
    )
    gone = tombstones_by_key(tx, namespace, [(r.definition, r.instance_key) for r in requests])
    now = tx.now()
    for request in requests:
        key = (request.definition, request.instance_key)
        definition_id = resolved[request.definition, request.version]
        if key in known or key in gone or definition_id is None:
            there = known.get(key)
            outcomes.append(_found(there, request) if there else _refused(request, gone.get(key)))
            continue
        definition = definitions[definition_id]
        refusal = check_input(definition, request.input)
        if refusal is None and instances_left is not None and instances_left <= 0:
            refusal = reject(
                "QUOTA_EXCEEDED",
                f"application {application} has no room for another open instance",
                rule="PUL-12",
            )
        if refusal is not None:
            outcomes.append(refusal)
            continue
        command = StartCommand(
            namespace=namespace,
            application=application,
            instance_key=request.instance_key,
            input=request.input,
            partition_id=partition_for(partitions, namespace, *key),
            actor=actor,
        )
        plan = start(definition, definition_id, command, now=now, new_id=ids.next)
        if not room.take([created.task for created in plan.tasks]):
            outcomes.append(quota_refusal(room))
            continue
        if instances_left is not None:
            instances_left -= 1
        plans.append(plan)
        known[key] = plan.after
        outcomes.append(Started(instance=plan.after, created=True))
    apply_plans(tx, plans, [], NOTHING_LOCKED)
    return outcomes


def _instances_left(tx: Tx, namespace: str, application: str) -> int | None:
    limit = queue_facts.open_instance_limit(tx, namespace, application)
    if limit is None:
        return None
    return limit - queue_facts.open_instances(tx, namespace, application)


def partition_for(partitions: Sequence[int], namespace: str, name: str, key: str) -> int:
    """The instance's partition, by a hash that every process computes alike."""
    digest = canonical.digest_of([namespace, name, key]).removeprefix("sha256:")
    return partitions[int(digest[:8], 16) % len(partitions)]


def _found(instance: Instance, request: StartRequest) -> Outcome:
    """Same key and input: the same instance; another input or version conflicts (WEA-3)."""
    same_version = request.version in (None, instance.definition_version)
    if instance.input_digest == canonical.digest(request.input) and same_version:
        return Started(instance=instance, created=False)
    return reject(
        "INSTANCE_KEY_CONFLICT",
        f"instance {request.instance_key} of {request.definition} was started with "
        f"{'another input' if same_version else f'version {instance.definition_version}'}",
        rule="WEA-3",
        instance_id=instance.id,
    )


def _refused(request: StartRequest, pruned_id: str | None) -> Rejected:
    """Its key is that of a pruned instance, or there is no such definition."""
    if pruned_id is not None:
        return pruned(request.definition, request.instance_key, pruned_id)
    version = "" if request.version is None else f" version {request.version}"
    return reject("DEFINITION_NOT_FOUND", f"there is no definition {request.definition}{version}")
