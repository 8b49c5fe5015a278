"""Everything about one instance, read in one snapshot: list, detail and events never disagree
(B011).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pulseweave.core.recovery.facts import RecoveryFacts
from pulseweave.core.recovery.operations import Blocker, Item, blocking, items
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.wait import Wait
from pulseweave.store.facts.instances import output_texts
from pulseweave.store.facts.recovery import load_recovery_facts
from pulseweave.store.tx import Tx
from pulseweave.store.views import instances as views
from pulseweave.store.views.tasks import TaskDetail, task_details
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.quota import count_quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """An instance with its definition, its history and what needs whom. Texts are
    canonical JSON.
    """

    instance: Instance
    definition: Definition
    activations: tuple[Leaf, ...]
    scopes: Mapping[str, ScopeState]
    waits: tuple[Wait, ...]
    queries: tuple[Query, ...]
    tasks: list[TaskDetail]
    outputs: dict[str, str]
    input: str
    output: str | None
    items: list[Item]
    blocking: list[Blocker]


@dataclass(frozen=True, slots=True)
class ReviewedInstance:
    instance: Instance
    items: list[Item]


def instance_detail(tx: Tx, namespace: str, instance_id: str) -> Detail | None:
    instance = views.find(tx, namespace, instance_id)
    if instance is None:
        return None
    facts = _facts(tx, instance)
    payloads = views.payload_texts(tx, instance_id)
    now = tx.now()
    refs = [leaf.output for leaf in facts.activations if leaf.output is not None]
    return Detail(
        instance=instance,
        definition=facts.base.definition,
        activations=facts.activations,
        scopes=facts.base.scopes,
        waits=facts.waits,
        queries=facts.queries,
        tasks=task_details(tx, sorted(facts.histories)),
        outputs=output_texts(tx, refs),
        input=payloads.get("input", "null"),
        output=payloads.get("output"),
        items=items(facts, now=now),
        blocking=blocking(facts, now=now),
    )


def open_reviews(
    tx: Tx, namespace: str, *, cursor: str | None, limit: int
) -> tuple[list[ReviewedInstance], str | None]:
    """Instances in review with their items; the page counts instances."""
    page = views.in_review(tx, namespace, cursor=cursor, limit=limit)
    now = tx.now()
    found = [ReviewedInstance(i, items(_facts(tx, i), now=now)) for i in page.items]
    return found, page.cursor


def _facts(tx: Tx, instance: Instance) -> RecoveryFacts:
    """What the recovery commands would decide from, quotas included, seen without a lock
    (REC-15).
    """
    definition = definitions_of(tx, [instance.definition_id])[instance.definition_id]
    application = (instance.namespace, instance.application)
    queues = ((instance.namespace, queue) for queue in definition.queues)
    room = count_quotas(tx, [application], queues).counted
    return load_recovery_facts(tx, instance, definition, room=room)
