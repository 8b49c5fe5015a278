"""What a decision about an instance may ask the shell to write: the closed list, in writing order.

The shell applies a plan as it is and derives nothing. Journal entries are made from the same values
that are written (``journal_of``), so replaying the journal rebuilds the rows (WEA-4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypedDict

from pulseweave.core.pulse.change import TaskCreated
from pulseweave.core.weave.instance import Instance, Stop
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import Disposition, InboxState, QuarantineCause
from pulseweave.core.weave.wait import SignalTaken, Wait
from pulseweave.kernel import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafChange:
    """One activation before (None: new) and after."""

    before: Leaf | None
    after: Leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChange:
    before: Wait | None
    after: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChange:
    before: ScopeState | None
    after: ScopeState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChange:
    before: Query | None
    after: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A person's verdict on a leaf, kept beside what execution reported (RES-3). Written once."""

    id: str
    namespace: str
    instance_id: str
    activation_id: str
    operation_id: str
    verdict: str
    result: str
    result_digest: str
    actor: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRecord:
    """The record of one result event. ``state`` PENDING waits behind a quarantined one (WEA-5).

    ``again``: the record is there already and waits; it is closed now, or goes on waiting (REC-16).
    """

    partition_id: int
    seq: int
    state: InboxState
    disposition: Disposition | None
    cause: QuarantineCause | None = None
    cause_detail: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    instance_id: str
    revision: int
    namespace: str
    at: int
    actor: str
    cause: str
    changes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan:
    """Everything that one transaction changes about one instance.

    ``gate``: True opens, False closes, None leaves it. ``cancel_tasks``: every unsettled task of
    the instance, new ones included, is cancelled (unstarted) or asked to cancel (running);
    ``cancel_task_ids`` names single ones. ``payloads``: texts to keep by name, like the input and
    the items of a map. ``journal`` is None exactly when nothing changed.
    """

    before: Instance | None
    after: Instance
    leaves: tuple[LeafChange, ...] = ()
    waits: tuple[WaitChange, ...] = ()
    scopes: tuple[ScopeChange, ...] = ()
    queries: tuple[QueryChange, ...] = ()
    signals: tuple[SignalTaken, ...] = ()
    tasks: tuple[TaskCreated, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    gate: bool | None = None
    cancel_tasks: bool = False
    cancel_task_ids: frozenset[str] = frozenset()
    payloads: Mapping[str, str] = field(default_factory=dict)
    journal: JournalEntry | None = None

    @property
    def touches_tasks(self) -> bool:
        """Whether existing tasks of the instance must be locked before this plan is applied."""
        return self.before is not None and (
            self.gate is not None or self.cancel_tasks or bool(self.cancel_task_ids)
        )

    def cancels(self, task_id: str) -> bool:
        return self.cancel_tasks or task_id in self.cancel_task_ids


#: Fields whose text is a payload: the journal keeps its digest (WEA-4).
_PAYLOADS = frozenset({"error", "result", "input"})


def _journal_value(name: str, value: object) -> object:
    match value:
        case Stop(kind=kind, error=error):
            return {"kind": kind.value, "error": canonical.digest(error)}
        case OutputRef(source=source, id=ref_id, digest=digest):
            return {"source": source.value, "id": ref_id, "digest": digest}
        case StrEnum():
            return value.value
        case tuple():
            return list(value)
        case str() if name in _PAYLOADS:
            return canonical.digest(value)
        case _:
            return value


Fact = Instance | Leaf | Conclusion | Wait | ScopeState | Query


def journal_values(fact: Fact) -> dict[str, object]:
    """A fact as the journal tells it: every field, payloads by digest."""
    return {name: _journal_value(name, getattr(fact, name)) for name in _NAMES[type(fact)]}


_NAMES: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (Instance, Leaf, Conclusion, Wait, ScopeState, Query)
}


def journal_change(kind: str, before: Fact | None, after: Fact) -> Mapping[str, object]:
    """One typed change: which row, whether it is new, and the fields that differ."""
    if before is None:
        return {"row": kind, "id": after.id, "new": True, "set": journal_values(after)}
    return {
        "row": kind,
        "id": after.id,
        "set": {
            name: _journal_value(name, value)
            for name in _NAMES[type(after)]
            if (value := getattr(after, name)) != getattr(before, name)
        },
    }


class JournalChange(TypedDict, total=False):
    """One typed change as the journal tells it."""

    row: str
    id: str
    new: bool
    set: dict[str, object]


def replay(
    rows: dict[tuple[str, str], dict[str, object]], changes: Sequence[JournalChange]
) -> None:
    """Apply one journal entry's changes to rows rebuilt so far; ``doctor`` compares the end with
    the tables.
    """
    for change in changes:
        key = (change["row"], change["id"])
        if change.get("new"):
            rows[key] = dict(change["set"])
        else:
            rows[key].update(change["set"])
