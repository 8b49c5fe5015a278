"""Everything that a recovery decision is made from, read after the locks were taken (REC-4, REC-9,
RET-2).
"""

from collections.abc import Sequence

from sqlalchemy import case, func, select

from pulseweave.core.pulse.change import LateReport
from pulseweave.core.pulse.task import Outcome
from pulseweave.core.recovery.facts import RecoveryFacts, Sources, TaskHistory
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.draft import InstanceFacts
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.states import InboxState
from pulseweave.store import schema as t
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.tasks import tasks_of_instance
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


def load_recovery_facts(tx: Tx, instance: Instance, definition: Definition) -> RecoveryFacts:
    """The instance with its whole history. Its row is held; its unsettled tasks are too."""
    activations = facts.all_activations(tx, instance.id)
    leaves = {leaf.step_key: leaf for leaf in activations if leaf.current}
    tasks = tasks_of_instance(tx, instance.id)
    ids = sorted(task.id for task, _ in tasks)
    counts = {row.task_id: row for row in tx.rows(_ATTEMPTS, {"ids": ids})} if ids else {}
    consumed = facts.consumed_revisions(tx, instance.id)
    histories = {}
    for task, spec in tasks:
        row = counts.get(task.id)
        histories[task.id] = TaskHistory(
            task=task,
            spec=spec,
            attempt_rows=int(row.attempt_rows) if row is not None else 0,
            live_attempts=int(row.live) if row is not None else 0,
            unknown_attempts=int(row.unknown) if row is not None else 0,
            consumed_revision=consumed.get(task.id),
        )
    records = facts.open_records(tx, instance.id)
    return RecoveryFacts(
        base=InstanceFacts(definition=definition, instance=instance, leaves=leaves),
        activations=activations,
        histories=histories,
        sources=Sources(
            pending=records.get(InboxState.PENDING.value, 0),
            quarantined=records.get(InboxState.QUARANTINED.value, 0),
            unconsumed=facts.has_unconsumed(tx, instance.id, instance.partition_id),
        ),
        late_reports=late_reports_of(tx, ids),
    )


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
