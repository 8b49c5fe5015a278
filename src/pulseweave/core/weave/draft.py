"""The working copy of one instance while a decision is made, and how it becomes a plan.

A decision builds a draft from facts, moves it, and finishes it. The draft holds the rules that bind
every decision: the gate follows the state, a new stop intent cancels tasks, exactly one revision
and one journal entry a transaction, a continuation for whoever may go on by himself (WEA-4, WEA-6,
WEA-14).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from pulseweave.core.pulse.change import TaskCreated
from pulseweave.core.pulse.task import Holds
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.instance import Instance, Stop
from pulseweave.core.weave.leaf import Leaf, check_move
from pulseweave.core.weave.plan import (
    Conclusion,
    InstancePlan,
    JournalEntry,
    LeafChange,
    QueryChange,
    ScopeChange,
    WaitChange,
    journal_change,
)
from pulseweave.core.weave.round import Query
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.states import (
    INSTANCE_TRANSITIONS,
    CloseReason,
    InstanceState,
    LeafKind,
    LeafState,
    ReviewCause,
    StopKind,
    WaitKind,
    WaitState,
    WakeReason,
)
from pulseweave.core.weave.wait import SignalTaken, Wait
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.check import invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """What a decision is made from. ``leaves``: current activations by step key, ``scopes`` by
    theirs: those outside of maps and in open items. ``waits``: the armed ones by id.

    ``payloads`` holds values loaded so far, by the names that ``core.weave.values`` gives them. A
    decision that needs more says so (``Draft.missing``) and is asked again.
    """

    definition: Definition
    instance: Instance
    leaves: Mapping[str, Leaf]
    waits: Mapping[str, Wait] = field(default_factory=dict)
    scopes: Mapping[str, ScopeState] = field(default_factory=dict)
    payloads: Mapping[str, object] = field(default_factory=dict)


#: Continuations that stand for work: evaluating the instance from its root.
_UNDONE = frozenset({WakeReason.ADVANCE, WakeReason.QUOTA})


#: Of two reasons for the same instant the first is told.
_ORDER = {reason: place for place, reason in enumerate(WakeReason)}


class _Continuation(TypedDict):
    wake_at: int | None
    wake_reason: WakeReason | None


class Draft:
    """Mutable while one decision runs; never shared."""

    def __init__(
        self, facts: InstanceFacts, *, now: int, new_id: Callable[[], str], created: bool = False
    ) -> None:
        self.definition = facts.definition
        self.before = None if created else facts.instance
        self.instance = facts.instance
        self.leaves: dict[str, Leaf] = dict(facts.leaves)
        self.waits: dict[str, Wait] = dict(facts.waits)
        self.scopes: dict[str, ScopeState] = dict(facts.scopes)
        self.payloads = facts.payloads
        self.missing: set[str] = set()
        self.tasks: list[TaskCreated] = []
        self.queries: dict[str, QueryChange] = {}
        self.signals: list[SignalTaken] = []
        self.cancelled: set[str] = set()
        self.conclusions: list[Conclusion] = []
        self.keep: dict[str, str] = {}
        self.deferred = False  # an advance that quotas did not let happen now (PUL-12)
        self.now = max(now, facts.instance.journal_at)  # PUL-15
        self.new_id = new_id
        self._was: dict[str, Leaf] = {leaf.id: leaf for leaf in facts.leaves.values()}
        self._under_way = sum(leaf.under_way for leaf in facts.leaves.values())
        #: Items of maps to look at in the next evaluation; None: all of them, as in the first one.
        self.touched_items: set[str] | None = None
        self._waits_before = facts.waits
        self._scopes_before = facts.scopes
        self._superseded: list[Leaf] = []
        self._ordered = False
        self._evaluated = False
        self._touched = False
        self._finished: tuple[tuple[str, str, bool], InstancePlan] | None = None

    # --- moves ---------------------------------------------------------------------------------

    def set_leaf(self, leaf: Leaf) -> None:
        """Store a changed leaf; its revision grows by one however often one decision touches it."""
        before = self._was.get(leaf.id)
        if before is not None:
            check_move(before, leaf)
            leaf = replace(leaf, revision=before.revision + 1)
        known = self.leaves.get(leaf.step_key)
        self._under_way += leaf.under_way - (known is not None and known.under_way)
        self.leaves[leaf.step_key] = leaf
        self.touch_item(leaf.within)

    def supersede(self, leaf: Leaf, successor: Leaf) -> None:
        """A retry: the old activation stays as it is, but is no longer the leaf (REC-10, RET-3)."""
        self._superseded.append(replace(leaf, current=False, review_at=None))
        self.leaves[successor.step_key] = successor

    def review(self, leaf: Leaf, cause: ReviewCause) -> None:
        """The leaf needs a person, and so does the instance; its gate closes with it (WEA-7). What
        it waited for is waited for no more (WEA-17).
        """
        self.set_leaf(
            replace(leaf, state=LeafState.NEEDS_REVIEW, review_cause=cause, review_at=self.now)
        )
        self.close_waits(leaf, CloseReason.REVIEW)
        self.enter_review()

    def enter_review(self) -> None:
        if self.instance.state in (InstanceState.RUNNING, InstanceState.CANCELLING):
            self.move(InstanceState.NEEDS_REVIEW)
            self.instance = replace(self.instance, review_at=self.now)

    def leave_review(self, state: InstanceState) -> None:
        """Only Continue leads out of review."""
        self.move(state)
        self.instance = replace(self.instance, review_at=None)

    def move(self, state: InstanceState) -> None:
        invariant(
            state in INSTANCE_TRANSITIONS[self.instance.state],
            "the instance's transition is in the table",
            instance_id=self.instance.id,
            before=self.instance.state,
            after=state,
        )
        self.instance = replace(self.instance, state=state)

    def set_stop(self, kind: StopKind, error: Mapping[str, object]) -> None:
        """Set the stop intent once; the first one stands for ever."""
        if self.instance.stop is not None:
            return
        stop = Stop(kind=kind, error=canonical.encode(dict(error)))
        self.instance = replace(self.instance, stop=stop)
        if self.instance.state is InstanceState.RUNNING:
            self.move(InstanceState.CANCELLING)
        self._cancel_what_waits()

    def _cancel_what_waits(self) -> None:
        """A stop closes all waits and cancels the leaves that have no task under way (WEA-12)."""
        waiting = {wait.activation_id for wait in self.armed() if wait.kind is not WaitKind.SIGNAL}
        for leaf in list(self.leaves.values()):
            if leaf.state is not LeafState.ACTIVE:
                continue
            self.close_waits(leaf, CloseReason.STOP)
            if leaf.kind is LeafKind.SIGNAL or leaf.id in waiting:
                self.set_leaf(replace(leaf, state=LeafState.CANCELLED, settled_at=self.now))

    @property
    def under_way(self) -> int:
        """Leaves that work or wait for a person, of those that are loaded (PUL-16)."""
        return self._under_way

    def touch_item(self, within: str) -> None:
        """Something in this item moved: it is looked at again, with the items around it. What
        stands in an item that is done is looked at no more; its scope need not be loaded.
        """
        while within and self.touched_items is not None:
            self.touched_items.add(within)
            around = self.scopes.get(within.rpartition("[")[0])
            within = around.within if around is not None else ""

    def leaf_by_id(self, activation_id: str) -> Leaf | None:
        """The current activation with this id, as it is by now."""
        before = self._was.get(activation_id)
        step_key = before.step_key if before is not None else None
        found = self.leaves.get(step_key) if step_key is not None else None
        if found is not None and found.id == activation_id:
            return found
        return next((leaf for leaf in self.leaves.values() if leaf.id == activation_id), None)

    def know(self, leaf: Leaf) -> None:
        """Take in a current activation that was not loaded: one in an item that is done."""
        if leaf.current and leaf.step_key not in self.leaves:
            self.leaves[leaf.step_key] = leaf
            self._was[leaf.id] = leaf
            self._under_way += leaf.under_way

    # --- waits, scopes, queries ----------------------------------------------------------------

    def armed(self) -> list[Wait]:
        """Armed waits, the earlier armed first (WEA-10)."""
        return sorted(
            (wait for wait in self.waits.values() if wait.armed),
            key=lambda wait: (wait.armed_at, wait.id),
        )

    def armed_of(self, leaf: Leaf) -> list[Wait]:
        return [wait for wait in self.armed() if wait.activation_id == leaf.id]

    def arm(
        self,
        leaf: Leaf,
        kind: WaitKind,
        *,
        generation: int = 1,
        name: str | None = None,
        correlation: str | None = None,
        due_at: int | None = None,
        deadline_at: int | None = None,
    ) -> Wait:
        wait = Wait(
            id=self.new_id(),
            namespace=leaf.namespace,
            instance_id=leaf.instance_id,
            activation_id=leaf.id,
            step_key=leaf.step_key,
            kind=kind,
            generation=generation,
            name=name,
            correlation=correlation,
            due_at=due_at,
            deadline_at=deadline_at,
            armed_at=self.now,
        )
        self.waits[wait.id] = wait
        return wait

    def close_wait(
        self,
        wait: Wait,
        state: WaitState,
        *,
        reason: CloseReason | None = None,
        signal_id: str | None = None,
    ) -> None:
        invariant(wait.armed, "a wait is closed once", wait_id=wait.id)
        self.waits[wait.id] = replace(
            wait, state=state, reason=reason, signal_id=signal_id, closed_at=self.now
        )

    def close_waits(self, leaf: Leaf, reason: CloseReason) -> None:
        for wait in self.armed_of(leaf):
            self.close_wait(wait, WaitState.CLOSED, reason=reason)

    def take_signal(self, wait: Wait, signal_id: str) -> None:
        """The wait takes the signal: both are consumed (WEA-10)."""
        self.close_wait(wait, WaitState.TAKEN, signal_id=signal_id)
        self.signals.append(SignalTaken(signal_id=signal_id, wait_id=wait.id, at=self.now))

    def taken_signals(self) -> set[str]:
        return {taken.signal_id for taken in self.signals}

    def set_scope(self, scope: ScopeState) -> None:
        """Store a scope; its revision grows by one however often one decision touches it."""
        before = self._scopes_before.get(scope.scope_key)
        if before is not None:
            scope = replace(scope, revision=before.revision + 1)
        self.scopes[scope.scope_key] = scope

    def open_query(self, query: Query) -> None:
        self.queries[query.task_id] = QueryChange(before=None, after=query)

    def answer_query(self, before: Query, after: Query) -> None:
        self.queries[after.task_id] = QueryChange(before=before, after=after)

    def touch(self) -> None:
        """Count a revision although no row but the inbox's changes: a LATE fact (PUL-17)."""
        self._touched = True

    def order_continuation(self) -> None:
        """Have the engine evaluate the instance again from its root as soon as it may."""
        self._ordered = True
        self._evaluated = False

    def evaluated(self) -> None:
        """The instance has gone as far as it may: what was ordered for it before is done."""
        self._ordered = False
        self._evaluated = True

    @property
    def may_advance(self) -> bool:
        return self.instance.gate_open and not self.deferred

    # --- the plan ------------------------------------------------------------------------------

    def finish(self, *, actor: str, cause: str, control: bool = False) -> InstancePlan:
        """The plan; asked again, the same one. ``control``: an accepted command of a person moves
        control_revision too (REC-5).
        """
        told = (actor, cause, control)
        if self._finished is None or self._finished[0] != told:
            self._finished = (told, self._finish(actor=actor, cause=cause, control=control))
        return self._finished[1]

    def _finish(self, *, actor: str, cause: str, control: bool) -> InstancePlan:
        invariant(not self.missing, "a decision is finished only on complete facts")
        changed = [*self._changed_leaves()]
        moved = replace(self.instance, **self._wake())
        unmoved = not (
            changed
            or self.conclusions
            or self.queries
            or control
            or self._touched
            or any(True for _ in self._changed_waits())
            or any(True for _ in self._changed_scopes())
        )
        if unmoved and moved == self.before:
            return InstancePlan(before=self.before, after=self.instance)
        before = self.before
        revision = moved.revision if before is None else before.revision + 1
        step = 1 if control else 0
        after = replace(
            moved,
            revision=revision,
            control_revision=moved.control_revision + step,
            journal_at=self.now,
        ).check()
        if before is not None:
            invariant(before.stop is None or before.stop == after.stop, "a stop is never withdrawn")
            invariant(before.deadline_at == after.deadline_at, "a deadline never moves")
        was_open = before is not None and before.gate_open
        gate = after.gate_open if after.gate_open != was_open or before is None else None
        held = Holds.NONE if after.gate_open else Holds.GATE
        return InstancePlan(
            before=before,
            after=after,
            leaves=tuple(changed),
            waits=tuple(self._changed_waits()),
            scopes=tuple(self._changed_scopes()),
            queries=tuple(self.queries.values()),
            signals=tuple(self.signals),
            tasks=tuple(
                replace(t, task=replace(t.task, holds=t.task.holds | held)) for t in self.tasks
            ),
            conclusions=tuple(self.conclusions),
            gate=gate,
            cancel_tasks=after.stop is not None and (before is None or before.stop is None),
            cancel_task_ids=frozenset(self.cancelled),
            payloads=dict(self.keep),
            journal=self._journal(changed, after, actor=actor, cause=cause),
        )

    def _changed_leaves(self) -> list[LeafChange]:
        changes = [
            LeafChange(before=self._was[leaf.id], after=leaf.check()) for leaf in self._superseded
        ]
        for leaf in self.leaves.values():
            before = self._was.get(leaf.id)
            if before != leaf:
                changes.append(LeafChange(before=before, after=leaf.check()))
        return changes

    def _changed_waits(self) -> Iterator[WaitChange]:
        for wait in self.waits.values():
            before = self._waits_before.get(wait.id)
            if before != wait:
                yield WaitChange(before=before, after=wait)

    def _changed_scopes(self) -> Iterator[ScopeChange]:
        for scope in self.scopes.values():
            before = self._scopes_before.get(scope.scope_key)
            if before != scope:
                yield ScopeChange(before=before, after=scope.check())

    def _journal(
        self, changed: list[LeafChange], after: Instance, *, actor: str, cause: str
    ) -> JournalEntry:
        changes = [journal_change("instance", self.before, after)]
        changes += [journal_change("leaf", change.before, change.after) for change in changed]
        for kind, moved in (
            ("wait", self._changed_waits()),
            ("scope", self._changed_scopes()),
            ("query", self.queries.values()),
        ):
            changes += [journal_change(kind, change.before, change.after) for change in moved]
        changes += [
            journal_change("conclusion", None, conclusion) for conclusion in self.conclusions
        ]
        return JournalEntry(
            instance_id=after.id,
            revision=after.revision,
            namespace=after.namespace,
            at=self.now,
            actor=actor,
            cause=cause,
            changes=canonical.encode(changes),
        )

    def _wake(self) -> _Continuation:
        """The continuation that these facts call for (WEA-14); a deadline counts while paused
        (WEA-13), a wait in review too (WEA-16). One that was ordered before stays until the
        instance was evaluated: a fact that moves nothing takes it from nobody.
        """
        instance = self.instance
        running = instance.state is InstanceState.RUNNING
        may_go_on = instance.state is InstanceState.CANCELLING or instance.gate_open
        due = [(wait.next_at, WakeReason.WAIT) for wait in self.armed() if self._is_timed(wait)]
        if running:
            due.append((instance.deadline_at, WakeReason.DEADLINE))
        if running and self.deferred:
            due.append((self.now + limits.DEFERRED_ADVANCE_MS * 1000, WakeReason.QUOTA))
        elif may_go_on and self._ordered:
            due.append((self.now, WakeReason.ADVANCE))
        elif may_go_on and instance.wake_reason in _UNDONE and not self._evaluated:
            due.append((instance.wake_at, instance.wake_reason))
        known = [(at, _ORDER[reason], reason) for at, reason in due if at is not None]
        if not known:
            return {"wake_at": None, "wake_reason": None}
        at, _, reason = min(known)
        # what was not done yet is done whenever the instance is woken, and must not be forgotten
        undone = [why for _, _, why in known if why in _UNDONE]
        return {"wake_at": at, "wake_reason": undone[0] if undone else reason}

    def _is_timed(self, wait: Wait) -> bool:
        """Whether a wait's time is waited for now: a round starts only where one may advance."""
        return wait.kind is not WaitKind.ROUND or self.instance.gate_open
