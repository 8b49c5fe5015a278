"""Writes of Weave's plans, grouped by kind: one statement a kind however many instances there are.

Every update is conditional on the revision that the decision was made from and checks its row
count. Order within: instances, leaves (updates before inserts, so that a leaf never has two current
activations), conclusions, payloads, inbox, journal, gates, tasks; result events last of all
(PUL-11, REC-7).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pulseweave.core.pulse.cancel import cancel
from pulseweave.core.pulse.change import TaskChange, TaskCreated
from pulseweave.core.pulse.hold import set_gate
from pulseweave.core.pulse.task import ResultEvent, Task
from pulseweave.core.weave.inbox import StreamEvent
from pulseweave.core.weave.plan import InboxRecord, InstancePlan
from pulseweave.kernel.check import invariant
from pulseweave.store import locks
from pulseweave.store import schema as t
from pulseweave.store.changes.events import append_events
from pulseweave.store.changes.tasks import insert_tasks, write_task_changes
from pulseweave.store.changes.waiting import write_waiting
from pulseweave.store.facts.tasks import unsettled_task_ids
from pulseweave.store.rows_weave import (
    INSTANCE_MOVING,
    LEAF_MOVING,
    instance_moving,
    instance_row,
    leaf_moving,
    leaf_row,
)
from pulseweave.store.setwise import SetUpdate
from pulseweave.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Locked:
    """Instances whose gate and unsettled tasks this transaction holds, and those tasks."""

    instance_ids: frozenset[str] = frozenset()
    tasks: Mapping[str, Sequence[Task]] = field(default_factory=dict)

    @property
    def waited(self) -> bool:
        """Whether time may have passed: a gate is locked by nobody but the instance's holder, a
        task by workers too.
        """
        return any(self.tasks.values())


NOTHING_LOCKED = Locked()


def lock_for_plans(tx: Tx, plans: Sequence[InstancePlan]) -> Locked:
    """Lock what plans that flip a gate or cancel tasks need: gates, then tasks by key (PUL-10)."""
    return lock_gates_and_tasks(tx, sorted(plan.after.id for plan in plans if plan.touches_tasks))


def lock_gates_and_tasks(tx: Tx, instance_ids: Sequence[str]) -> Locked:
    if not instance_ids:
        return NOTHING_LOCKED
    locks.lock_gates(tx, instance_ids)
    tasks = locks.lock_tasks(tx, unsettled_task_ids(tx, instance_ids))
    by_instance: dict[str, list[Task]] = {instance_id: [] for instance_id in instance_ids}
    for task in tasks.values():
        if not task.settled:
            by_instance[task.instance_id or ""].append(task)
    return Locked(frozenset(instance_ids), by_instance)


def apply_plans(
    tx: Tx,
    plans: Sequence[InstancePlan],
    records: Sequence[tuple[StreamEvent, InboxRecord]],
    locked: Locked,
    *,
    extra: Iterable[TaskChange] = (),
) -> None:
    """Write everything; ``extra`` are task changes decided beside the plans (a review's
    verdict).
    """
    changed = [plan for plan in plans if plan.journal is not None]
    _write_instances(tx, changed)
    _write_leaves(tx, changed)
    write_waiting(tx, changed)
    _write_facts(tx, changed)
    _write_inbox(tx, records, {plan.after.id: plan for plan in plans})
    _write_gates(tx, changed)
    events = _write_tasks(tx, changed, locked, list(extra))
    append_events(tx, events)


_INSTANCE = SetUpdate(t.instances, keys=("id",), expect=("revision", "state"), set=INSTANCE_MOVING)
_LEAF = SetUpdate(t.activations, keys=("id",), expect=("revision", "state"), set=LEAF_MOVING)
_GATE = SetUpdate(t.gates, keys=("instance_id",), expect=("open",), set=("open", "revision"))


_INBOX_MOVING = (
    "state",
    "disposition",
    "cause",
    "cause_detail",
    "processed_at",
    "instance_revision",
)
_TAKEN_AGAIN = SetUpdate(
    t.inbox, keys=("partition_id", "seq"), expect=("processed_at",), set=_INBOX_MOVING
)
_TAKEN_AGAIN_FIELDS = ("partition_id", "seq", *_INBOX_MOVING)


def _write_instances(tx: Tx, plans: Sequence[InstancePlan]) -> None:
    new = [instance_row(plan.after.check()) for plan in plans if plan.before is None]
    moved = [
        {
            "id": plan.after.id,
            "expect_revision": plan.before.revision,
            "expect_state": plan.before.state.value,
            **instance_moving(plan.after.check()),
        }
        for plan in plans
        if plan.before is not None
    ]
    tx.insert_many(t.instances, new)
    tx.update_many(_INSTANCE, moved)
    for plan in plans:
        if plan.after.wake_at is not None and plan.after.wake_at <= plan.after.journal_at:
            tx.hint("instance", plan.after.id)


def _write_leaves(tx: Tx, plans: Sequence[InstancePlan]) -> None:
    changes = [change for plan in plans for change in plan.leaves]
    moved = [
        {
            "id": change.after.id,
            "expect_revision": change.before.revision,
            "expect_state": change.before.state.value,
            **leaf_moving(change.after),
        }
        for change in changes
        if change.before is not None
    ]
    tx.update_many(_LEAF, moved)
    tx.insert_many(
        t.activations, [dict(leaf_row(change.after)) for change in changes if change.before is None]
    )


def _write_facts(tx: Tx, plans: Sequence[InstancePlan]) -> None:
    conclusions = [
        {
            "id": c.id,
            "namespace": c.namespace,
            "instance_id": c.instance_id,
            "activation_id": c.activation_id,
            "operation_id": c.operation_id,
            "verdict": c.verdict,
            "result": c.result,
            "result_digest": c.result_digest,
            "actor": c.actor,
            "at": c.at,
        }
        for plan in plans
        for c in plan.conclusions
    ]
    payloads = [
        {"instance_id": plan.after.id, "name": name, "body": body}
        for plan in plans
        for name, body in plan.payloads.items()
    ]
    entries = [
        {
            "instance_id": entry.instance_id,
            "revision": entry.revision,
            "namespace": entry.namespace,
            "at": entry.at,
            "actor": entry.actor,
            "cause": entry.cause,
            "changes": entry.changes,
        }
        for plan in plans
        if (entry := plan.journal) is not None
    ]
    tx.insert_many(t.conclusions, conclusions)
    tx.insert_many(t.instance_payloads, payloads)
    tx.insert_many(t.journal, entries)


def _write_inbox(
    tx: Tx,
    records: Sequence[tuple[StreamEvent, InboxRecord]],
    plans: Mapping[str, InstancePlan],
) -> None:
    now = tx.now() if records else 0
    rows = [
        {
            "partition_id": record.partition_id,
            "seq": record.seq,
            "namespace": event.namespace,
            "instance_id": event.instance_id,
            "activation_id": event.activation_id,
            "task_id": event.task_id,
            "task_revision": event.task_revision,
            "kind": event.kind.value,
            "state": record.state.value,
            "disposition": record.disposition.value if record.disposition is not None else None,
            "cause": record.cause.value if record.cause is not None else None,
            "cause_detail": record.cause_detail,
            "recorded_at": now,
            "processed_at": now if record.disposition is not None else None,
            "instance_revision": plans[event.instance_id].after.revision,
        }
        for event, record in records
    ]
    again = {(record.partition_id, record.seq) for _, record in records if record.again}
    tx.insert_many(t.inbox, [row for row in rows if (row["partition_id"], row["seq"]) not in again])
    tx.update_many(
        _TAKEN_AGAIN,
        [
            {"expect_processed_at": None, **{name: row[name] for name in _TAKEN_AGAIN_FIELDS}}
            for row in rows
            if (row["partition_id"], row["seq"]) in again
        ],
    )


def _write_gates(tx: Tx, plans: Sequence[InstancePlan]) -> None:
    new = [
        {
            "instance_id": plan.after.id,
            "namespace": plan.after.namespace,
            "open": int(plan.after.gate_open),
            "revision": plan.after.revision,
        }
        for plan in plans
        if plan.before is None
    ]
    flipped = [
        {
            "instance_id": plan.after.id,
            "expect_open": int(not plan.gate),
            "open": int(plan.gate),
            "revision": plan.after.revision,
        }
        for plan in plans
        if plan.before is not None and plan.gate is not None
    ]
    tx.insert_many(t.gates, new)
    tx.update_many(_GATE, flipped)


def _write_tasks(
    tx: Tx, plans: Sequence[InstancePlan], locked: Locked, extra: list[TaskChange]
) -> list[ResultEvent]:
    created: list[TaskCreated] = []
    changes: list[TaskChange] = list(extra)
    events: list[ResultEvent] = [c.event for c in extra if c.event is not None]
    reviewed = {change.before.id for change in extra}
    for plan in plans:
        for new in plan.tasks:
            task, event = _new_task(plan, new)
            created.append(replace(new, task=task))
            events += [event] if event is not None else []
        if not plan.touches_tasks:
            continue
        invariant(plan.after.id in locked.instance_ids, "tasks are locked before they are touched")
        for task in locked.tasks[plan.after.id]:
            if task.id in reviewed:
                continue
            for change in _moves(plan, task):
                changes.append(change)
                events += [change.event] if change.event is not None else []
    insert_tasks(tx, created)
    write_task_changes(tx, changes)
    return events


def _new_task(plan: InstancePlan, new: TaskCreated) -> tuple[Task, ResultEvent | None]:
    """A task that its own plan's stop cancels is born settled: it existed, and never
    could start.
    """
    if not plan.cancels(new.task.id):
        return new.task, None
    change = cancel(new.task, now=plan.after.journal_at)
    invariant(change is not None, "an unstarted task is cancelled at once", task_id=new.task.id)
    return (change.after, change.event) if change is not None else (new.task, None)


def _moves(plan: InstancePlan, task: Task) -> list[TaskChange]:
    """What the plan's gate and stop mean for one existing task, as one change."""
    change = cancel(task, now=plan.after.journal_at) if plan.cancels(task.id) else None
    if plan.gate is None:
        return [change] if change is not None else []
    after = change.after if change is not None else task
    gated = set_gate(after, closed=not plan.gate) if not after.settled else None
    if gated is None:
        return [change] if change is not None else []
    if change is None:
        return [gated]
    return [replace(change, after=gated.after)]


_CURSOR = SetUpdate(t.cursors, keys=("partition_id", "consumer"), expect=("seq",), set=("seq",))


def advance_cursors(
    tx: Tx, consumer: str, *, before: Mapping[int, int], after: Mapping[int, int]
) -> None:
    """Everything up to ``after`` is in the inbox; the caller holds the cursors."""
    rows = [
        {
            "partition_id": partition_id,
            "consumer": consumer,
            "expect_seq": before[partition_id],
            "seq": seq,
        }
        for partition_id, seq in sorted(after.items())
    ]
    tx.update_many(_CURSOR, rows)
