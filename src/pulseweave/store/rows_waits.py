"""Rows of waits, signals, scopes and poll rounds, and their facts."""

from typing import Any

from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import CloseReason, ScopeKind, WaitKind, WaitState
from pulseweave.core.weave.wait import KeptSignal, Wait
from pulseweave.kernel import canonical


def wait_from_row(row: Any) -> Wait:
    return Wait(
        id=row.id,
        namespace=row.namespace,
        instance_id=row.instance_id,
        activation_id=row.activation_id,
        step_key=row.step_key,
        kind=WaitKind(row.kind),
        generation=row.generation,
        name=row.name,
        correlation=text_of(row.correlation),
        due_at=row.due_at,
        deadline_at=row.deadline_at,
        armed_at=row.armed_at,
        state=WaitState(row.state),
        reason=CloseReason(row.reason) if row.reason is not None else None,
        closed_at=row.closed_at,
        signal_id=row.signal_id,
    )


WAIT_MOVING = ("state", "reason", "closed_at", "signal_id")


def wait_moving(wait: Wait) -> dict[str, Any]:
    return {
        "state": wait.state.value,
        "reason": wait.reason.value if wait.reason is not None else None,
        "closed_at": wait.closed_at,
        "signal_id": wait.signal_id,
    }


def wait_row(wait: Wait) -> dict[str, Any]:
    return {
        "id": wait.id,
        "namespace": wait.namespace,
        "instance_id": wait.instance_id,
        "activation_id": wait.activation_id,
        "step_key": wait.step_key,
        "kind": wait.kind.value,
        "generation": wait.generation,
        "name": wait.name,
        "correlation": text_row(wait.correlation),
        "due_at": wait.due_at,
        "deadline_at": wait.deadline_at,
        "armed_at": wait.armed_at,
        **wait_moving(wait),
    }


def scope_from_row(row: Any) -> ScopeState:
    return ScopeState(
        id=row.id,
        namespace=row.namespace,
        instance_id=row.instance_id,
        scope_key=row.scope_key,
        node_key=row.node_key,
        within=row.within,
        kind=ScopeKind(row.kind),
        entered_at=row.entered_at,
        taken=row.taken,
        count=row.item_count,
        entered=row.entered_items,
        open=tuple(canonical.parse(row.open_items)),
        revision=row.revision,
    ).check()


SCOPE_MOVING = ("entered_items", "open_items", "revision")


def scope_moving(scope: ScopeState) -> dict[str, Any]:
    return {
        "entered_items": scope.entered,
        "open_items": canonical.encode(list(scope.open)),
        "revision": scope.revision,
    }


def scope_row(scope: ScopeState) -> dict[str, Any]:
    return {
        "id": scope.id,
        "namespace": scope.namespace,
        "instance_id": scope.instance_id,
        "scope_key": scope.scope_key,
        "node_key": scope.node_key,
        "within": scope.within,
        "kind": scope.kind.value,
        "taken": scope.taken,
        "item_count": scope.count,
        "entered_at": scope.entered_at,
        **scope_moving(scope),
    }


def query_from_row(row: Any) -> Query:
    told = row.classification
    return Query(
        task_id=row.task_id,
        namespace=row.namespace,
        instance_id=row.instance_id,
        activation_id=row.activation_id,
        step_key=row.step_key,
        round=row.round,
        opened_at=row.opened_at,
        answered_at=row.answered_at,
        classification=Classification(told) if told is not None else None,
    )


QUERY_MOVING = ("answered_at", "classification")


def query_moving(query: Query) -> dict[str, Any]:
    told = query.classification
    return {
        "answered_at": query.answered_at,
        "classification": told.value if told is not None else None,
    }


def query_row(query: Query) -> dict[str, Any]:
    return {
        "task_id": query.task_id,
        "namespace": query.namespace,
        "instance_id": query.instance_id,
        "activation_id": query.activation_id,
        "step_key": query.step_key,
        "round": query.round,
        "opened_at": query.opened_at,
        **query_moving(query),
    }


def kept_from_row(row: Any) -> KeptSignal:
    return KeptSignal(
        id=row.id,
        name=row.name,
        correlation=text_of(row.correlation),
        digest=row.payload_digest,
        accepted_at=row.accepted_at,
    )


def text_of(stored: str | None) -> str | None:
    return None if stored is None else str(canonical.parse(stored))


def text_row(text: str | None) -> str | None:
    return None if text is None else canonical.encode(text)
