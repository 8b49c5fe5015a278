"""The doctor: proves over a whole database what must hold between its rows.

WEA-4: replaying each instance's journal gives its rows, without a gap in revisions. WEA-14: every
open instance has something that will move it. REC-9: activations and tasks name each other. WEA-6:
the gate and the hold bits are what the instance's state says. Reads only, a page at a time, each
page from one snapshot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pulseweave.core.pulse.task import Holds
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import Conclusion, Fact, journal_values, replay
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import InstanceState
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical
from pulseweave.store.engine import Database
from pulseweave.store.rows_waits import query_from_row, scope_from_row, wait_from_row
from pulseweave.store.rows_weave import instance_from_row, leaf_from_row
from pulseweave.store.tx import Tx
from pulseweave.store.views import doctor as views
from pulseweave.txn.unit import read
from pulseweave.txn.weave.catalogue import definitions_of

PAGE = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not hold, where, by which rule."""

    rule: str
    instance_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Examined:
    instances: int
    last_id: str
    findings: list[Finding]


def examine(database: Database) -> Iterator[Examined]:
    """Pages of the whole database, with what was found; for progress and for the end."""
    after = ""
    while True:
        page = read(database, partial(_page, after=after))
        if page is None:
            return
        yield page
        after = page.last_id


def _page(tx: Tx, after: str) -> Examined | None:
    rows = views.instances_page(tx, after, PAGE)
    if not rows:
        return None
    instances = [instance_from_row(row) for row in rows]
    ids = [instance.id for instance in instances]
    definitions = definitions_of(tx, {instance.definition_id for instance in instances})
    journals, tasks = views.journals(tx, ids), views.task_rows(tx, ids)
    leaves = {
        key: [leaf_from_row(row) for row in found]
        for key, found in views.activation_rows(tx, ids).items()
    }
    conclusions = {
        key: [Conclusion(**row._asdict()) for row in found]
        for key, found in views.conclusion_rows(tx, ids).items()
    }
    waits = {
        key: [wait_from_row(row) for row in found]
        for key, found in views.wait_rows(tx, ids).items()
    }
    scopes = {
        key: [scope_from_row(row) for row in found]
        for key, found in views.scope_rows(tx, ids).items()
    }
    queries = {
        key: [query_from_row(row) for row in found]
        for key, found in views.query_rows(tx, ids).items()
    }
    gates, moved = views.gate_rows(tx, ids), views.with_waiting_events(tx, ids)
    findings: list[Finding] = []
    for instance in instances:
        known = leaves.get(instance.id, [])
        mine = tasks.get(instance.id, [])
        facts: list[Fact] = [instance, *known, *conclusions.get(instance.id, [])]
        facts += [*waits.get(instance.id, []), *scopes.get(instance.id, [])]
        facts += queries.get(instance.id, [])
        findings += _journal(instance, facts, journals.get(instance.id, []))
        asked = {query.task_id: query.activation_id for query in queries.get(instance.id, [])}
        queues = definitions[instance.definition_id].queues
        findings += _ownership(instance, known, mine, queues=queues, asked=asked)
        findings += _gate(instance, gates.get(instance.id, []), mine)
        armed = any(wait.armed for wait in waits.get(instance.id, []))
        findings += _mover(instance, mine, events=armed or instance.id in moved)
    return Examined(len(instances), ids[-1], findings)


_ROWS: dict[type[Fact], str] = {
    Instance: "instance",
    Leaf: "leaf",
    Conclusion: "conclusion",
    Wait: "wait",
    ScopeState: "scope",
    Query: "query",
}


def _journal(instance: Instance, known: list[Fact], entries: list[Any]) -> Iterator[Finding]:
    revisions = [entry.revision for entry in entries]
    if revisions != list(range(1, instance.revision + 1)):
        yield Finding(
            "WEA-4",
            instance.id,
            f"journal revisions {revisions[-3:]}, instance {instance.revision}",
        )
        return
    rebuilt: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        replay(rebuilt, canonical.parse(entry.changes))
    facts = {(_ROWS[type(fact)], fact.id): fact for fact in known}
    if rebuilt.keys() != facts.keys():
        yield Finding("WEA-4", instance.id, "the journal tells of other rows than there are")
        return
    for key, fact in facts.items():
        values = canonical.parse(canonical.encode(journal_values(fact)))
        differing = sorted(name for name in values if values[name] != rebuilt[key].get(name))
        if differing:
            yield Finding(
                "WEA-4", instance.id, f"{key[0]} {key[1]} differs in {', '.join(differing)}"
            )


def _ownership(
    instance: Instance,
    leaves: list[Leaf],
    tasks: list[Any],
    *,
    queues: tuple[str, ...],
    asked: Mapping[str, str],
) -> Iterator[Finding]:
    by_id = {task.id: task for task in tasks}
    by_activation = {leaf.id: leaf for leaf in leaves}
    for leaf in leaves:
        if leaf.task_id is not None and (
            leaf.task_id not in by_id or by_id[leaf.task_id].activation_id != leaf.id
        ):
            yield Finding(
                "REC-9", instance.id, f"activation {leaf.id} and task {leaf.task_id} disagree"
            )
    for task in tasks:
        owner = by_activation.get(task.activation_id)
        names = owner is not None and (owner.task_id == task.id or asked.get(task.id) == owner.id)
        if not names or task.namespace != instance.namespace:
            yield Finding("REC-9", instance.id, f"task {task.id} has no owner")
        elif task.queue not in queues:
            yield Finding(
                "REC-9", instance.id, f"task {task.id} is in a queue that the definition lacks"
            )


def _gate(instance: Instance, gates: list[Any], tasks: list[Any]) -> Iterator[Finding]:
    if len(gates) != 1 or bool(gates[0].open) != instance.gate_open:
        yield Finding("WEA-6", instance.id, "the gate is not what the state says")
    for task in tasks:
        held = bool(task.holds & Holds.GATE)
        if task.state not in views.SETTLED_STATES and held == instance.gate_open:
            yield Finding(
                "PUL-10", instance.id, f"task {task.id}: hold GATE is not what the gate says"
            )


def _mover(instance: Instance, tasks: list[Any], *, events: bool) -> Iterator[Finding]:
    """A continuation, an open task, an event on its way, or a person (WEA-14)."""
    if instance.ended:
        if any(task.state not in views.SETTLED_STATES for task in tasks):
            yield Finding("WEA-15", instance.id, "it has ended with unsettled tasks")
        return
    moved = (
        events
        or instance.paused
        or instance.state is InstanceState.NEEDS_REVIEW
        or instance.wake_at is not None
        or any(task.state not in views.SETTLED_STATES for task in tasks)
    )
    if not moved:
        yield Finding("WEA-14", instance.id, "nothing will ever move it")
