"""One instance run in memory: plans are applied as the store does, tasks move as Pulse does.

Everything here goes through the decisions themselves. After each step ``check`` proves what must
hold between steps: the journal replays to the facts, the gate is what the state says, something
will move what is open, and nothing that reported is rewritten.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.cancel import cancel
from pulseweave.core.pulse.change import LateReport, TaskChange, TaskCreated, TaskSpec
from pulseweave.core.pulse.hold import end_delay, set_gate
from pulseweave.core.pulse.lease import claim, start
from pulseweave.core.pulse.outcome import Chance
from pulseweave.core.pulse.report import Report, ReportedAttempt, report
from pulseweave.core.pulse.task import EventKind, Holds, Outcome, Running, Task, TaskState
from pulseweave.core.recovery import continue_instance, resolve_step, retry_step, review_task
from pulseweave.core.recovery.command import (
    Command,
    Continue,
    ContinuePoll,
    RearmWait,
    ResolveStep,
    RetryStep,
    ReviewTask,
)
from pulseweave.core.recovery.facts import Missing, RecoveryFacts, Sources, TaskHistory
from pulseweave.core.recovery.operations import items
from pulseweave.core.recovery.review_task import TaskReviewed
from pulseweave.core.weave.control import ControlVerb, control
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.draft import Draft, InstanceFacts
from pulseweave.core.weave.inbox import Delivery, StreamEvent, TaskFacts, consume_all
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.plan import (
    Conclusion,
    InboxRecord,
    InstancePlan,
    JournalEntry,
    journal_values,
    replay,
)
from pulseweave.core.weave.start import StartCommand
from pulseweave.core.weave.start import start as start_instance
from pulseweave.core.weave.states import (
    Disposition,
    InboxState,
    InstanceState,
    LeafState,
    OutputSource,
    WakeReason,
)
from pulseweave.core.weave.wake import wake
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
Make = Callable[[], Draft]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt:
    token: str
    outcome: Outcome | None = None
    digest: str | None = None
    led_to: TaskState | None = None
    reviewed: bool = False


@dataclass(slots=True)
class Row:
    """What Pulse keeps of one task."""

    task: Task
    spec: TaskSpec
    attempts: list[Attempt] = field(default_factory=list)
    result: str | None = None
    error: str | None = None

    def fork(self) -> "Row":
        return Row(self.task, self.spec, list(self.attempts), self.result, self.error)


class Machine:
    """See the module. ``room``: how many more tasks quotas allow, None for any number."""

    def __init__(self, definition: Definition, value: object = None, *, now: int = NOW) -> None:
        self.definition = definition
        self.now = now
        self.activations: dict[str, Leaf] = {}
        self.rows: dict[str, Row] = {}
        self.stream: list[StreamEvent] = []
        self.inbox: dict[int, InboxRecord] = {}
        self.cursor = 0
        self.conclusions: dict[str, Conclusion] = {}
        self.late: dict[str, LateReport] = {}
        self.journal: list[JournalEntry] = []
        self.input = canonical.encode({} if value is None else value)
        self.output: str | None = None
        self.room: int | None = None
        self._last = 0
        command = StartCommand(
            namespace="acme",
            application="shop",
            instance_key="k",
            input=self.input,
            partition_id=3,
            actor="someone",
        )
        plan = start_instance(definition, "definition-1", command, now=now, new_id=self.new_id)
        self.instance: Instance = plan.after
        self.apply(plan)

    def new_id(self) -> str:
        self._last += 1
        return f"id-{self._last:04}"

    def fork(self) -> "Machine":
        """The same facts, to be moved another way."""
        other = copy(self)
        other.activations = dict(self.activations)
        other.rows = {task_id: row.fork() for task_id, row in self.rows.items()}
        other.stream = list(self.stream)
        other.inbox = dict(self.inbox)
        other.conclusions = dict(self.conclusions)
        other.late = dict(self.late)
        other.journal = list(self.journal)
        return other

    # --- facts ------------------------------------------------------------------------------------

    @property
    def leaves(self) -> dict[str, Leaf]:
        """Current activations by step key."""
        return {leaf.step_key: leaf for leaf in self.activations.values() if leaf.current}

    def row(self, step_key: str) -> Row:
        """The task of the step's current activation."""
        return self.rows[self.leaves[step_key].task_id or ""]

    @property
    def unsettled(self) -> list[Row]:
        return [row for row in self.rows.values() if not row.task.settled]

    @property
    def unconsumed(self) -> list[StreamEvent]:
        return self.stream[self.cursor :]

    @property
    def waiting(self) -> list[StreamEvent]:
        """Events whose record is quarantined, or pending behind one that is."""
        return [
            event
            for event in self.stream[: self.cursor]
            if self.inbox[event.seq].state is not InboxState.PROCESSED
        ]

    def facts(self) -> RecoveryFacts:
        base = InstanceFacts(definition=self.definition, instance=self.instance, leaves=self.leaves)
        states = [record.state for record in self.inbox.values()]
        return RecoveryFacts(
            base=base,
            activations=tuple(self.activations.values()),
            histories={task_id: self._history(row) for task_id, row in self.rows.items()},
            sources=Sources(
                pending=states.count(InboxState.PENDING),
                quarantined=states.count(InboxState.QUARANTINED),
                unconsumed=bool(self.unconsumed),
            ),
            late_reports=dict(self.late),
        )

    def _history(self, row: Row) -> TaskHistory:
        consumed = [
            event.task_revision
            for event in self.stream[: self.cursor]
            if event.task_id == row.task.id and self.inbox[event.seq].state is InboxState.PROCESSED
        ]
        return TaskHistory(
            task=row.task,
            spec=row.spec,
            attempt_rows=len(row.attempts),
            live_attempts=sum(attempt.outcome is None for attempt in row.attempts),
            unknown_attempts=sum(
                attempt.outcome is Outcome.UNKNOWN and not attempt.reviewed
                for attempt in row.attempts
            ),
            consumed_revision=max(consumed, default=None),
        )

    def _value(self, key: str) -> object:
        if key == "":
            return canonical.parse(self.input)
        leaf = self.leaves[key]
        assert leaf.output is not None, f"{key} is read before it is done"
        text: str | None = None
        match leaf.output.source:
            case OutputSource.TASK:
                text = self.rows[leaf.output.id].result
            case OutputSource.CONCLUSION:
                text = self.conclusions[leaf.output.id].result
            case OutputSource.ERROR:
                text = leaf.error
            case OutputSource.SIGNAL | OutputSource.NULL:
                raise AssertionError(f"{key} is no task")
        assert text is not None
        assert canonical.digest(text) == leaf.output.digest
        return canonical.parse(text)

    # --- decisions of Weave -----------------------------------------------------------------------

    def decide(
        self, ask: Callable[[Make], tuple[Draft, T]], *, actor: str, cause: str, by_person: bool
    ) -> tuple[InstancePlan, T]:
        """Ask until every value that is needed is loaded; defer what finds no room (PUL-12)."""
        payloads: dict[str, object] = {}
        deferred = False
        while True:
            facts = InstanceFacts(
                definition=self.definition,
                instance=self.instance,
                leaves=self.leaves,
                payloads=dict(payloads),
            )

            def make(facts: InstanceFacts = facts, *, deferred: bool = deferred) -> Draft:
                draft = Draft(facts, now=self.now, new_id=self.new_id)
                draft.deferred = deferred
                return draft

            draft, answer = ask(make)
            if draft.missing:
                payloads |= {key: self._value(key) for key in draft.missing}
            elif self.room is not None and len(draft.tasks) > self.room:
                deferred = True
            else:
                return draft.finish(actor=actor, cause=cause, control=by_person), answer

    def consume(self, limit: int | None = None) -> list[InboxRecord]:
        """Consume the next events of the stream in one transaction."""
        count = len(self.unconsumed) if limit is None else min(limit, len(self.unconsumed))
        if count == 0:
            return []
        events = self.unconsumed[:count]
        plan, records = self._consume(events, blocked=bool(self.waiting))
        self.cursor += count
        self.apply(plan, records=records)
        return records

    def requeue(self) -> list[InboxRecord]:
        """Verify and apply anew what was set aside (REC-16)."""
        events = self.waiting
        if not events:
            return []
        plan, records = self._consume(events, blocked=False, again=True)
        self.apply(plan, records=records)
        return records

    def _consume(
        self, events: Sequence[StreamEvent], *, blocked: bool, again: bool = False
    ) -> tuple[InstancePlan, list[InboxRecord]]:
        delivery = Delivery(
            events=tuple(events),
            tasks={task_id: self._told(row) for task_id, row in self.rows.items()},
            historical={a.id: a for a in self.activations.values() if not a.current},
            blocked=blocked,
        )

        def ask(make: Make) -> tuple[Draft, list[InboxRecord]]:
            def fresh() -> Draft:
                draft = make()
                if again:
                    draft.instance = replace(draft.instance, quarantined=False)
                return draft

            return consume_all(fresh, delivery, actor="engine", cause="RESULTS")

        cause = "INBOX_REQUEUE" if again else "RESULTS"
        return self.decide(ask, actor="engine", cause=cause, by_person=False)

    def _told(self, row: Row) -> TaskFacts:
        task = row.task
        result = row.result if task.state is TaskState.SUCCEEDED else None
        return TaskFacts(
            task_id=task.id,
            namespace=task.namespace,
            instance_id=task.instance_id,
            activation_id=task.activation_id,
            state=task.state,
            revision=task.revision,
            result=result,
            result_digest=canonical.digest(result) if result is not None else None,
            error=row.error if task.state is TaskState.FAILED else None,
        )

    def wake(self) -> bool:
        """What the waker does, when the continuation is due; whether it was."""
        if self.instance.wake_at is None or self.instance.wake_at > self.now:
            return False

        def ask(make: Make) -> tuple[Draft, None]:
            draft = make()
            wake(draft)
            return draft, None

        plan, _ = self.decide(ask, actor="engine", cause="WAKE", by_person=False)
        self.apply(plan)
        return True

    def control(self, verb: ControlVerb, *, expected: int | None = None) -> Rejected | None:
        at = self.instance.control_revision if expected is None else expected

        def ask(make: Make) -> tuple[Draft, Rejected | None]:
            draft = make()
            return draft, control(draft, verb, expected_control_revision=at, reason="because")

        plan, refusal = self.decide(ask, actor="someone", cause=verb.value, by_person=True)
        if refusal is None:
            self.apply(plan)
        return refusal

    def acknowledge(self) -> None:
        def ask(make: Make) -> tuple[Draft, None]:
            draft = make()
            draft.instance = replace(draft.instance, contradicted=False)
            return draft, None

        plan, _ = self.decide(ask, actor="someone", cause="ACKNOWLEDGE", by_person=False)
        self.apply(plan)

    def recover(self, command: Command) -> Rejected | None:
        """Execute a recovery command, or say why it is refused."""
        answer = self.decided(command)
        match answer:
            case Rejected():
                return answer
            case TaskReviewed(plan=plan, change=change, result=result):
                self.apply(plan, reviewed=(change, result))
            case InstancePlan():
                self.apply(answer)
            case retry_step.StepRetried(plan=plan):
                self.apply(plan)
        return None

    def decided(
        self, command: Command
    ) -> Rejected | TaskReviewed | InstancePlan | retry_step.StepRetried:
        facts = self.facts()
        asked: dict[str, Any] = {"now": self.now, "new_id": self.new_id, "actor": "someone"}
        match command:
            case ReviewTask():
                return review_task.decide(facts, command, execution_audit_id="audit", **asked)
            case ResolveStep():
                return resolve_step.decide(facts, command, operation_id="operation", **asked)
            case RetryStep():
                answer = retry_step.decide(facts, command, **asked)
                assert not isinstance(answer, Missing)
                return answer
            case ContinuePoll() | RearmWait():
                raise AssertionError("this machine has tasks alone")
            case Continue():
                return continue_instance.decide(facts, command, **asked)

    # --- Pulse ------------------------------------------------------------------------------------

    def startable(self) -> list[Row]:
        return [
            row
            for row in self.unsettled
            if row.task.state is TaskState.QUEUED and row.task.holds is Holds.NONE
        ]

    def running(self) -> list[Row]:
        return [row for row in self.unsettled if isinstance(row.task.phase, Running)]

    def start(self, row: Row) -> None:
        """Claim and start."""
        token = f"token-{self.new_id()}"
        row.task = claim(row.task, now=self.now, token=token).after
        answer = start(row.task, token=token, worker='"w"', now=self.now)
        self._move(row, answer.change)
        if answer.rejected is None:
            row.attempts.append(Attempt(token))

    def report(self, row: Row, told: Report, *, attempt: int | None = None) -> Answer:
        """A report of the latest attempt, or, late, of an earlier one (from 1)."""
        number = len(row.attempts) if attempt is None else attempt
        entry = row.attempts[number - 1]
        known = ReportedAttempt(
            number=number,
            report_digest=entry.digest,
            outcome=entry.outcome,
            task_state=entry.led_to,
        )
        answer = report(
            row.task,
            known,
            told,
            token=entry.token,
            now=self.now,
            chance=Chance(backoff=row.spec.backoff, uniform=0.5),
            late_id=self.new_id(),
        )
        self._move(row, answer.change)
        return answer

    def cancel_task(self, row: Row) -> None:
        """Cancel one task alone (PUL-18)."""
        self._move(row, cancel(row.task, now=self.now))

    def end_delays(self) -> None:
        for row in self.unsettled:
            self._move(row, end_delay(row.task, now=self.now))

    def _move(self, row: Row, change: TaskChange | None) -> None:
        if change is None:
            return
        assert change.before == row.task
        row.task = change.after.check()
        if change.late is not None:
            self.late[change.late.id] = change.late
        if change.closed is not None:
            closed = change.closed
            row.attempts[closed.number - 1] = replace(
                row.attempts[closed.number - 1],
                outcome=closed.outcome,
                digest=closed.report_digest,
                led_to=change.after.state,
            )
            row.result, row.error = closed.result, closed.error
        if change.after.state is TaskState.FAILED and not change.before.settled:
            code = change.event.code if change.event is not None else None
            row.error = canonical.encode({"code": code, "message": ""})
        if change.event is not None:
            event = change.event
            outcome = change.late.outcome if change.late is not None else None
            self.stream.append(
                StreamEvent(
                    partition_id=event.partition_id,
                    seq=len(self.stream) + 1,
                    namespace=event.namespace,
                    task_id=event.task_id,
                    task_revision=event.task_revision,
                    instance_id=event.instance_id or "",
                    activation_id=event.activation_id or "",
                    kind=event.kind,
                    code=event.code,
                    late_outcome=outcome if event.kind is EventKind.LATE else None,
                    at=event.at,
                )
            )

    # --- applying ---------------------------------------------------------------------------------

    def apply(
        self,
        plan: InstancePlan,
        *,
        records: Sequence[InboxRecord] = (),
        reviewed: tuple[TaskChange, str] | None = None,
    ) -> None:
        """Write a plan as the store does: rows, gate, tasks, and events last of all."""
        for record in records:
            known = self.inbox.get(record.seq)
            assert known is None or known.state is not InboxState.PROCESSED
            self.inbox[record.seq] = record
        if plan.journal is None:
            assert plan.after == plan.before == self.instance
            return
        if plan.before is not None:
            assert plan.before == self.instance
            assert plan.after.revision == plan.before.revision + 1
        self.instance = plan.after
        for change in plan.leaves:
            assert change.before == self.activations.get(change.after.id)
            self.activations[change.after.id] = change.after
        self.conclusions |= {conclusion.id: conclusion for conclusion in plan.conclusions}
        self.output = plan.payloads.get("output", self.output)
        self.journal.append(plan.journal)
        if reviewed is not None:
            verdict, result = reviewed
            row = self.rows[verdict.before.id]
            row.attempts = [
                replace(a, reviewed=True) if a.outcome is Outcome.UNKNOWN else a
                for a in row.attempts
            ]
            self._move(row, verdict)
            row.result = result
        self._apply_to_tasks(plan)
        self.check()

    def _apply_to_tasks(self, plan: InstancePlan) -> None:
        for created in plan.tasks:
            self._create(created)
        existing = [row for row in self.unsettled if plan.touches_tasks or plan.cancel_tasks]
        for row in existing:
            if plan.cancel_tasks:
                self._move(row, cancel(row.task, now=plan.after.journal_at))
            if plan.gate is not None and not row.task.settled:
                self._move(row, set_gate(row.task, closed=not plan.gate))

    def _create(self, created: TaskCreated) -> None:
        assert created.task.id not in self.rows
        self.rows[created.task.id] = Row(created.task.check(), created.spec)

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        """Everything that the rules say of an instance between two transactions."""
        instance = self.instance.check()
        assert instance.revision == len(self.journal), "WEA-4: one entry a revision"
        assert self.rebuilt() == self.told(), "WEA-4: the journal rebuilds the rows"
        for row in self.unsettled:
            gated = bool(row.task.holds & Holds.GATE)
            assert gated != instance.gate_open, "PUL-10: every unsettled task has the gate's bit"
        open_gate = instance.state is InstanceState.RUNNING and not instance.paused
        assert instance.gate_open == open_gate, "WEA-6"
        for activation in self.activations.values():
            if activation.task_id is not None:
                assert self.rows[activation.task_id].task.activation_id == activation.id, "REC-9"
        if instance.ended:
            assert not self.unsettled, "WEA-15: every task is settled"
            late = all(event.kind is EventKind.LATE for event in [*self.unconsumed, *self.waiting])
            assert late, "WEA-15: every event is consumed"
        else:
            assert self.mover(), "WEA-14: something will move an open instance"

    def mover(self) -> str | None:
        """What will move the instance, besides its deadline."""
        instance = self.instance
        if instance.wake_reason in (WakeReason.ADVANCE, WakeReason.QUOTA):
            return instance.wake_reason.value
        if instance.state is InstanceState.NEEDS_REVIEW:
            return "REVIEW"
        if instance.paused:
            return "PAUSED"
        if self.unconsumed:
            return "EVENT"
        return "TASK" if self.unsettled else None

    def told(self) -> dict[tuple[str, str], Any]:
        """The facts as the journal would tell them."""
        facts: dict[tuple[str, str], Any] = {("instance", self.instance.id): self.instance}
        facts |= {("leaf", leaf.id): leaf for leaf in self.activations.values()}
        facts |= {("conclusion", known.id): known for known in self.conclusions.values()}
        return {
            key: canonical.parse(canonical.encode(journal_values(fact)))
            for key, fact in facts.items()
        }

    def rebuilt(self) -> dict[tuple[str, str], Any]:
        """The same from the journal alone."""
        rows: dict[tuple[str, str], dict[str, object]] = {}
        for at, entry in enumerate(self.journal, start=1):
            assert entry.revision == at
            replay(rows, canonical.parse(entry.changes))
        return rows

    # --- going on by oneself ----------------------------------------------------------------------

    def settle(self) -> None:
        """What the engine does without anybody: consume and wake until nothing is due."""
        while self.consume() or self.wake():
            pass

    def dispositions(self) -> list[Disposition | None]:
        return [self.inbox[seq].disposition for seq in sorted(self.inbox)]

    def next_command(self) -> Command | None:
        """The first operation that the system says applies, with what only a person gives."""
        for item in items(self.facts(), now=self.now):
            for operation in item.operations:
                if operation.refusal is None:
                    return self.filled(operation.operation, item.leaf)
        return None

    def filled(self, operation: str, leaf: Leaf | None, **more: Any) -> Command:
        """A command at the revisions of this moment."""
        evidence: dict[str, Any] = {
            "expected_revision": self.instance.revision,
            "reason": "looked at the provider",
            "evidence_ref": "provider:1",
            "declared": True,
        }
        if operation == Continue.OPERATION:
            return Continue(**{**evidence, **more})
        assert leaf is not None
        if operation == ReviewTask.OPERATION:
            asked: dict[str, Any] = {
                "task_id": leaf.task_id,
                "expected_task_revision": self.rows[leaf.task_id or ""].task.revision,
                "succeeded": True,
                "result": '{"ok":true}',
                "late_report_id": None,
            }
            return ReviewTask(**{**evidence, **asked, **more})
        step: dict[str, Any] = {
            "step_key": leaf.step_key,
            "activation_id": leaf.id,
            "expected_step_revision": leaf.revision,
        }
        if operation == RetryStep.OPERATION:
            return RetryStep(**{**evidence, **step, **more})
        concluded: dict[str, Any] = {"succeeded": True, "result": '{"ok":true}'}
        return ResolveStep(**{**evidence, **step, **concluded, **more})

    def ask(self, operation: str, step_key: str | None = None, **more: Any) -> Rejected | None:
        """Fill in a command for a step's current activation and execute it."""
        leaf = self.leaves[step_key] if step_key is not None else None
        return self.recover(self.filled(operation, leaf, **more))

    def state(self) -> InstanceState:
        return self.instance.state

    def states(self) -> dict[str, LeafState]:
        return {key: leaf.state for key, leaf in sorted(self.leaves.items())}
