"""Everything that a recovery decision is made from, read after the locks were taken (REC-4, REC-9,
RET-2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import case, func, select

from pulseweave.core.pulse.change import LateReport
from pulseweave.core.pulse.task import Outcome
from pulseweave.core.recovery.facts import RecoveryFacts, Scope, Sources, TaskHistory
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.draft import InstanceFacts
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import InboxState, LeafKind
from pulseweave.core.weave.values import SIGNAL, SIGNALS
from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.tasks import (
    specs,
    task_results,
    tasks_by_id,
    tasks_of_instance,
)
from pulseweave.store.facts.waits import (
    all_queries,
    all_scopes,
    all_waits,
    kept_signals,
    signal_payloads,
)
from pulseweave.store.rows_weave import leaf_from_row
from pulseweave.store.setwise import in_keys
from pulseweave.store.tx import Tx

_at = t.attempts.c
_ATTEMPTS = (
    select(
        _at.task_id,
        func.count().label("attempt_rows"),
        func.sum(case((_at.outcome.is_(None), 1), else_=0)).label("live"),
        func.sum(
            case(
                (
                    _at.outcome == Outcome.UNKNOWN.value,
                    case((_at.reviewed_by.is_(None), 1), else_=0),
                ),
                else_=0,
            )
        ).label("unknown"),
    )
    .where(in_keys(_at.task_id, "ids"))
    .group_by(_at.task_id)
)
_LATE = select(t.late_reports).where(in_keys(t.late_reports.c.task_id, "ids"))


_NAMING = select(t.activations).where(in_keys(t.activations.c.task_id, "ids"))
_SUCCESSORS = select(t.task_specs.c.task_id).where(in_keys(t.task_specs.c.retry_of, "ids"))


def load_recovery_facts(
    tx: Tx, instance: Instance, definition: Definition, *, room: Mapping[Scope, int]
) -> RecoveryFacts:
    """The instance with its whole history. Its row is held; its unsettled tasks are too.

    ``room``: what quotas allow, counted by whoever holds their locks or only looks (PUL-12).
    """
    activations = facts.all_activations(tx, instance.id)
    leaves = {leaf.step_key: leaf for leaf in activations if leaf.current}
    histories = _histories(tx, instance, activations)
    records = facts.open_records(tx, instance.id)
    waits = all_waits(tx, instance.id) if definition.waits else ()
    asked = [leaf.task_id for leaf in leaves.values() if leaf.kind is LeafKind.POLL]
    results = task_results(tx, sorted(task_id for task_id in asked if task_id)) if asked else {}
    return RecoveryFacts(
        base=InstanceFacts(
            definition=definition,
            instance=instance,
            leaves=leaves,
            waits={wait.id: wait for wait in waits if wait.armed},
            scopes=all_scopes(tx, [instance.id])[instance.id] if definition.scoped else {},
        ),
        activations=activations,
        foreign=_foreign(tx, instance, histories),
        queries=all_queries(tx, instance.id) if definition.waits else (),
        waits=waits,
        results={task_id: text for task_id, (text, _) in results.items() if text is not None},
        histories=histories,
        sources=Sources(
            pending=records.get(InboxState.PENDING.value, 0),
            quarantined=records.get(InboxState.QUARANTINED.value, 0),
            unconsumed=facts.has_unconsumed(tx, instance.id, instance.partition_id),
        ),
        late_reports=late_reports_of(tx, sorted(histories)),
        room=room,
    )


def with_values(tx: Tx, facts: RecoveryFacts, names: Iterable[str]) -> RecoveryFacts:
    """The same facts with kept signals, and payloads of them, that a decision asked for."""
    instance_id = facts.base.instance.id
    wanted = sorted(names)
    kept = kept_signals(
        tx, {instance_id: [n.removeprefix(SIGNALS) for n in wanted if n.startswith(SIGNALS)]}
    )
    values: dict[str, object] = {
        SIGNALS + name: signals for name, signals in kept.get(instance_id, {}).items()
    }
    texts = signal_payloads(
        tx, [name.removeprefix(SIGNAL) for name in wanted if name.startswith(SIGNAL)]
    )
    values |= {SIGNAL + signal_id: canonical.parse(text) for signal_id, text in texts.items()}
    base = replace(facts.base, payloads={**facts.base.payloads, **values})
    return replace(facts, base=base)


def _histories(tx: Tx, instance: Instance, activations: Iterable[Leaf]) -> dict[str, TaskHistory]:
    """Tasks of the instance, tasks that its activations name, and successors of all these, in order
    of creation: ownership is looked at from both sides (REC-9).
    """
    tasks = {task.id: (task, spec) for task, spec in tasks_of_instance(tx, instance.id)}
    named = {a.task_id for a in activations if a.task_id is not None} | tasks.keys()
    if named:
        successors = {row.task_id for row in tx.rows(_SUCCESSORS, {"ids": sorted(named)})}
        elsewhere = (named | successors) - tasks.keys()
        if elsewhere:
            known = specs(tx, elsewhere)
            tasks |= {id_: (task, known[id_]) for id_, task in tasks_by_id(tx, elsewhere).items()}
    counts = (
        {row.task_id: row for row in tx.rows(_ATTEMPTS, {"ids": sorted(tasks)})} if tasks else {}
    )
    consumed = facts.consumed_revisions(tx, instance.id)
    histories = {}
    for task_id, (task, spec) in sorted(tasks.items()):
        row = counts.get(task_id)
        histories[task_id] = TaskHistory(
            task=task,
            spec=spec,
            attempt_rows=int(row.attempt_rows) if row is not None else 0,
            live_attempts=int(row.live) if row is not None else 0,
            unknown_attempts=int(row.unknown) if row is not None else 0,
            consumed_revision=consumed.get(task_id),
        )
    return histories


def _foreign(tx: Tx, instance: Instance, histories: Mapping[str, TaskHistory]) -> tuple[Leaf, ...]:
    """Activations of other instances that name one of these tasks."""
    if not histories:
        return ()
    naming = (leaf_from_row(row) for row in tx.rows(_NAMING, {"ids": sorted(histories)}))
    return tuple(leaf for leaf in naming if leaf.instance_id != instance.id)


def late_reports_of(tx: Tx, task_ids: Sequence[str]) -> dict[str, LateReport]:
    if not task_ids:
        return {}
    return {
        row.id: LateReport(
            id=row.id,
            namespace=row.namespace,
            task_id=row.task_id,
            attempt=row.attempt,
            report_digest=row.report_digest,
            outcome=Outcome(row.outcome),
            code=row.code,
            error=row.error,
            result=row.result,
            result_digest=row.result_digest,
            received_at=row.received_at,
        )
        for row in tx.rows(_LATE, {"ids": list(task_ids)})
    }
