"""Collect: how a result event reaches its instance, once (WEA-5, WEA-16, WEA-17, PUL-17).

The answer of ``consume`` is the record's disposition. A fact that can't be trusted is set aside as
QUARANTINED, with a cause from a closed list; the instance then waits for a person and for the cause
to be mended. Nothing here guesses: a mismatch is never waved through.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import assert_never

from pulseweave.core.pulse.task import SETTLED, EventKind, Outcome, TaskState
from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.definition.model import PollNode
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import fail, stop_at_deadline
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.plan import InboxRecord
from pulseweave.core.weave.poll import classify_result, exhausted
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.settle import settle_stop
from pulseweave.core.weave.states import (
    CloseReason,
    Disposition,
    InboxState,
    LeafKind,
    LeafState,
    OutputSource,
    QuarantineCause,
    ReviewCause,
)
from pulseweave.kernel import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """A result event with its place in the stream, as read. ``late_outcome``: what a LATE event's
    report told.
    """

    partition_id: int
    seq: int
    namespace: str
    task_id: str
    task_revision: int
    instance_id: str
    activation_id: str
    kind: EventKind
    code: str | None
    late_outcome: Outcome | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What Pulse knows of the event's task now. ``result`` and ``error`` are canonical
    JSON texts.
    """

    task_id: str
    namespace: str
    instance_id: str | None
    activation_id: str | None
    state: TaskState
    revision: int
    result: str | None
    result_digest: str | None
    error: str | None


class Quarantined(Exception):
    """A pure decision over loaded facts that must not be made (WEA-5)."""

    def __init__(self, cause: QuarantineCause, detail: Mapping[str, object]) -> None:
        super().__init__(cause.value)
        self.cause = cause
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Events of one instance in stream order, with what they need to be judged.

    ``historical``: activations of the instance, by id, that its facts don't have: superseded ones,
    and those in items that are done. ``queries``: the polls' queries that the events are about.
    ``blocked``: an earlier record of the instance is quarantined or pending, so these wait in
    order.
    """

    events: tuple[StreamEvent, ...]
    tasks: Mapping[str, TaskFacts]
    historical: Mapping[str, Leaf]
    queries: Mapping[str, Query] = field(default_factory=dict)
    blocked: bool = False


def consume_all(
    make: Callable[[], Draft], delivery: Delivery, *, actor: str, cause: str
) -> tuple[Draft, list[InboxRecord]]:
    """Consume a batch exactly as one by one (WEA-16). A record that can't be judged is set aside
    alone.

    ``make`` gives a fresh draft: after a failed decision the batch is taken again up to the
    culprit, so that nothing half decided remains. The plan is part of the decision: where it can't
    be finished the last event is the culprit, then the one before, until it can; facts that give no
    plan even without events are nobody's record's fault, and raise. With ``draft.missing`` set the
    records mean nothing yet.
    """
    if delivery.blocked:
        draft = make()
        draft.touch()
        return draft, [_pending(event) for event in delivery.events]
    culprit: Quarantined | None = None
    good = len(delivery.events)
    while True:
        draft = make()
        records: list[InboxRecord] = []
        try:
            for event in delivery.events[:good]:
                records.append(consume(draft, event, delivery))
                if draft.missing:
                    return draft, []
            if culprit is not None:
                records.append(_quarantine(draft, delivery.events[good], culprit))
                records += [_pending(event) for event in delivery.events[good + 1 :]]
            draft.finish(actor=actor, cause=cause)
        except Quarantined as error:
            culprit, good = error, len(records)
        except Exception as error:
            good = min(len(records), good - 1)
            if good < 0:
                raise
            detail = {"error": type(error).__name__, "message": str(error)[:500]}
            culprit = Quarantined(QuarantineCause.DECISION_FAILED, detail)
        else:
            return draft, records


def _pending(event: StreamEvent) -> InboxRecord:
    return InboxRecord(
        partition_id=event.partition_id, seq=event.seq, state=InboxState.PENDING, disposition=None
    )


def _quarantine(draft: Draft, event: StreamEvent, culprit: Quarantined) -> InboxRecord:
    """Flag the instance; an open one waits for a person, an ended one is only flagged (WEA-5)."""
    draft.instance = replace(draft.instance, quarantined=True)
    if not draft.instance.ended:
        draft.enter_review()
    return InboxRecord(
        partition_id=event.partition_id,
        seq=event.seq,
        state=InboxState.QUARANTINED,
        disposition=None,
        cause=culprit.cause,
        cause_detail=canonical.encode(dict(culprit.detail)),
    )


def consume(draft: Draft, event: StreamEvent, delivery: Delivery) -> InboxRecord:
    """Collect one event and everything that follows from it for this instance."""
    told = _owner(draft, event, delivery)
    _check_told(event, told.task)
    draft.know(told.leaf)
    disposition = _collect(draft, event, told)
    if disposition in (Disposition.APPLIED, Disposition.SUPERSEDED):
        advance(draft)
        settle_stop(draft)
    return InboxRecord(
        partition_id=event.partition_id,
        seq=event.seq,
        state=InboxState.PROCESSED,
        disposition=disposition,
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What an event is about: the task, the activation that owns it, and for a poll the query."""

    task: TaskFacts
    leaf: Leaf
    query: Query | None


def _owner(draft: Draft, event: StreamEvent, delivery: Delivery) -> _Told:
    """The activation that the event is about, and its task; ownership holds both ways or the record
    is set aside (REC-9). A poll's activation owns the queries of all its rounds.
    """
    task = delivery.tasks.get(event.task_id)
    leaf = draft.leaf_by_id(event.activation_id) or delivery.historical.get(event.activation_id)
    query = delivery.queries.get(event.task_id)
    asked = query is not None and query.activation_id == event.activation_id
    claims = {
        "activation": event.activation_id,
        "task": event.task_id,
        "activation_task": leaf.task_id if leaf else None,
        "task_activation": task.activation_id if task else None,
    }
    if (
        leaf is None
        or task is None
        or not (leaf.task_id == event.task_id or asked)
        or task.activation_id != leaf.id
        or task.instance_id != draft.instance.id
        or task.namespace != draft.instance.namespace
        or event.namespace != draft.instance.namespace
    ):
        raise Quarantined(QuarantineCause.OWNERSHIP_MISMATCH, claims)
    if task.revision < event.task_revision:
        raise Quarantined(
            QuarantineCause.TASK_REVISION_MISMATCH,
            {**claims, "event": event.task_revision, "task_revision": task.revision},
        )
    return _Told(task, leaf, query)


#: What a task may have become since it told an event: settled for ever, or by a verdict (PUL-1).
_SINCE: Mapping[EventKind, frozenset[TaskState]] = MappingProxyType(
    {
        EventKind.SUCCEEDED: frozenset({TaskState.SUCCEEDED}),
        EventKind.FAILED: frozenset({TaskState.FAILED}),
        EventKind.CANCELLED: frozenset({TaskState.CANCELLED}),
        EventKind.NEEDS_REVIEW: frozenset(
            {TaskState.NEEDS_REVIEW, TaskState.SUCCEEDED, TaskState.FAILED}
        ),
        EventKind.LATE: SETTLED,
    }
)


def _check_told(event: StreamEvent, task: TaskFacts) -> None:
    """The task is what the event says, or what may have become of it since; a missing result is
    never taken for null.
    """
    possible = _SINCE[event.kind]
    if event.kind is EventKind.NEEDS_REVIEW and task.revision == event.task_revision:
        possible = frozenset({TaskState.NEEDS_REVIEW})
    if task.state not in possible:
        raise Quarantined(
            QuarantineCause.TASK_STATE_MISMATCH,
            {"task": task.task_id, "event": event.kind.value, "task_state": task.state.value},
        )
    told = {EventKind.SUCCEEDED: task.result, EventKind.FAILED: task.error}
    if told.get(event.kind, "") is None:
        raise Quarantined(
            QuarantineCause.RESULT_MISSING, {"task": task.task_id, "event": event.kind.value}
        )


def _collect(draft: Draft, event: StreamEvent, told: _Told) -> Disposition:
    task, leaf = told.task, told.leaf
    if event.kind is EventKind.LATE:
        _collect_late(draft, event, task, leaf)
        return Disposition.LATE
    if leaf.current and leaf.awaits_superseded(event.task_id):
        _collect_superseded(draft, event, leaf)
        return Disposition.SUPERSEDED
    if not leaf.current or leaf.state not in (LeafState.ACTIVE, LeafState.NEEDS_REVIEW):
        return Disposition.STALE
    leaf = replace(leaf, task_revision=event.task_revision, task_state=TaskState(event.kind.value))
    if leaf.state is LeafState.NEEDS_REVIEW:
        draft.set_leaf(leaf)
        return Disposition.EVIDENCE
    stop_at_deadline(draft)
    match event.kind:
        case EventKind.SUCCEEDED:
            _collect_success(draft, event, replace(told, leaf=leaf))
        case EventKind.FAILED:
            _collect_failure(draft, event, task, leaf)
        case EventKind.CANCELLED if draft.instance.stop is not None:
            draft.close_waits(leaf, CloseReason.STOP)
            draft.set_leaf(replace(leaf, state=LeafState.CANCELLED, settled_at=draft.now))
        case EventKind.CANCELLED:
            draft.review(leaf, ReviewCause.CANCELLED)
        case EventKind.NEEDS_REVIEW:
            draft.review(leaf, ReviewCause.OUTCOME_UNKNOWN)
        case kind:
            assert_never(kind)
    return Disposition.APPLIED


def _collect_success(draft: Draft, event: StreamEvent, told: _Told) -> None:
    task, leaf = told.task, told.leaf
    text = task.result or ""  # a missing one has been set aside
    value = canonical.parse(text)
    digest = task.result_digest or canonical.digest(text)
    output = OutputRef(source=OutputSource.TASK, id=task.task_id, digest=digest)
    if leaf.kind is LeafKind.POLL:
        classify_result(draft, leaf, told.query, value, output=output, at=event.at)
        return
    contract = draft.definition.leaves[leaf.node_key].output_contract
    if contract is not None and contract.check(value):
        draft.review(leaf, ReviewCause.OUTPUT_CONTRACT)
        return
    draft.set_leaf(replace(leaf, state=LeafState.SUCCEEDED, output=output, settled_at=draft.now))
    draft.payloads = {**draft.payloads, leaf.step_key: value}


def _collect_failure(draft: Draft, event: StreamEvent, task: TaskFacts, leaf: Leaf) -> None:
    """A query that could not be asked in the poll's time has exhausted the poll (WEA-7)."""
    node = draft.definition.leaves[leaf.node_key]
    late = event.code in _TOO_LATE and leaf.deadline_at is not None and event.at >= leaf.deadline_at
    if isinstance(node, PollNode) and late:
        exhausted(draft, node, leaf, ReviewCause.QUERY_DEADLINE)
        return
    fail(draft, leaf, task.error)


#: Codes of tasks that were never started in time (PUL-7).
_TOO_LATE = frozenset({"DEADLINE_EXCEEDED", "START_EXPIRED"})


def _collect_superseded(draft: Draft, event: StreamEvent, leaf: Leaf) -> None:
    """What became of a query after a signal had ended its poll. An unknown outcome still needs a
    person; a known one is one thing less that the end waits for (WEA-15).
    """
    state = TaskState(event.kind.value)
    draft.set_leaf(replace(leaf, task_revision=event.task_revision, task_state=state))
    if state is TaskState.NEEDS_REVIEW:
        draft.enter_review()
        return
    draft.instance = replace(draft.instance, superseded=draft.instance.superseded - 1)


def _collect_late(draft: Draft, event: StreamEvent, task: TaskFacts, leaf: Leaf) -> None:
    """A late fact moves nothing; where it tells another outcome the instance is contradicted
    (PUL-17). UNKNOWN tells none.
    """
    if leaf.current:
        draft.set_leaf(replace(leaf))
    told = None if event.late_outcome is Outcome.UNKNOWN else event.late_outcome
    if told is not None and told.value != task.state.value:
        draft.instance = replace(draft.instance, contradicted=True)
    draft.touch()
