"""One task's life under any order of claims, starts, reports, losses, cancels and verdicts.

The machine is the shell: it keeps attempt rows, late reports and events as the store would, calls
the decisions with tokens old and new, and checks after each change what must hold in any order.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pulseweave.core.pulse.answer import Answer
from pulseweave.core.pulse.cancel import cancel
from pulseweave.core.pulse.change import TaskChange
from pulseweave.core.pulse.expire import expired_code
from pulseweave.core.pulse.hold import promote, set_gate, sweep_at, wait_for_key
from pulseweave.core.pulse.lease import claim, give_back, heartbeat, start
from pulseweave.core.pulse.outcome import Chance
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.report import Report, ReportedAttempt, report
from pulseweave.core.pulse.review import declare_lost, verdict
from pulseweave.core.pulse.sweep import sweep
from pulseweave.core.pulse.task import (
    EventKind,
    Holds,
    InReview,
    Leased,
    Outcome,
    Queued,
    ResultEvent,
    Running,
    Settled,
    SettledBy,
    Task,
    TaskState,
)
from pulseweave.kernel.errors import Rejected
from tests.core.pulse.tasks import (
    BACKOFF,
    KEY,
    NOW,
    SECOND,
    assert_fixed,
    cancelled,
    failed,
    succeeded,
    task,
    unknown,
)

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.rule("PUL-1", "PUL-2", "PUL-3", "PUL-6", "PUL-8", "PUL-17"),
]

INSTANT = st.none() | st.none() | st.integers(1, 900).map(lambda s: NOW + s * SECOND)
#: Which token is used: the newest most of the time, else an older one.
AGE = st.sampled_from([0, 0, 0, 0, 1, 2])
TOLD = st.sampled_from(
    [
        succeeded("1"),
        succeeded("2"),
        failed("BUSY"),
        failed("BROKEN", retryable=False),
        unknown(),
        cancelled(),
    ]
)


@dataclass
class Row:
    """An attempt as the store keeps it."""

    token: str
    outcome: Outcome | None = None
    report_digest: str | None = None
    led_to: TaskState | None = None


class Life(RuleBasedStateMachine):
    task: Task
    now = NOW

    def __init__(self) -> None:
        super().__init__()
        self.tokens = ["nobody's"]
        self.attempts: list[Row] = []
        self.events: list[ResultEvent] = []
        self.kept: dict[tuple[int | None, str], str] = {}
        self.answered: dict[tuple[str, str], tuple[str | None, str | None]] = {}

    @initialize(
        effect=st.sampled_from([*Effect, Effect.IDEMPOTENT]),
        max_attempts=st.sampled_from([1, 3, 6]),
        timeout_ms=st.none() | st.integers(1, 60_000),
        deadline_at=INSTANT,
        start_by=INSTANT,
        key=st.sampled_from([None, KEY]),
        holds=st.sampled_from([Holds.NONE, Holds.GATE]),
    )
    def create(self, timeout_ms: int | None, **facts: Any) -> None:
        self.task = task(revision=1, attempt_timeout_ms=timeout_ms, **facts)

    # --- the shell -------------------------------------------------------------------------------

    def write(self, change: TaskChange | None) -> None:
        if change is None:
            return
        before, after = change.before, change.after
        assert before == self.task
        assert_fixed(before, after)
        if before.settled:
            assert after == before, "what has settled never changes"
        self.check_revision(change)
        if change.opened is not None:
            self.open_attempt(change)
        if change.closed is not None:
            row = self.attempts[change.closed.number - 1]
            assert row.outcome is None, "an outcome is written once"
            assert change.closed.number == len(self.attempts)
            row.outcome, row.report_digest = change.closed.outcome, change.closed.report_digest
            row.led_to = after.state
        if change.late is not None:
            self.kept[change.late.attempt, change.late.report_digest] = change.late.id
        self.check_event(change)
        self.check_settlement(change)
        self.task = after.check()

    def check_revision(self, change: TaskChange) -> None:
        before, after = change.before, change.after
        counted = (
            before.state is not after.state
            or before.cancel_requested_at != after.cancel_requested_at
            or (change.late is not None and not before.settled)
        )
        assert after.revision == before.revision + counted

    def open_attempt(self, change: TaskChange) -> None:
        assert change.opened is not None
        assert change.opened.number == len(self.attempts) + 1
        assert change.opened.lease_token == change.before.token
        assert not change.before.holds & Holds.GATE, "a closed gate authorises nothing"
        assert expired_code(change.before, self.now) is None
        if change.before.effect is Effect.AT_MOST_ONCE:
            assert all(row.outcome is Outcome.FAILED for row in self.attempts)
        self.attempts.append(Row(token=change.opened.lease_token))

    def check_event(self, change: TaskChange) -> None:
        event, after = change.event, change.after
        entered = change.before.state is not after.state
        if entered and (after.settled or after.state is TaskState.NEEDS_REVIEW):
            assert event is not None
            assert event.kind.value == after.state.value
            assert event.task_revision == after.revision
        elif change.before.settled:
            assert (event is not None) == (change.late is not None)
            assert event is None or event.kind is EventKind.LATE
        else:
            assert event is None
        if event is not None:
            self.events.append(event)

    def check_settlement(self, change: TaskChange) -> None:
        """An unknown outcome is settled by a report of success, a final failure, or a person."""
        phase = change.after.phase
        if change.before.settled or not isinstance(phase, Settled) or not change.after.tainted:
            return
        final = phase.code == "BROKEN"
        assert (
            phase.by is SettledBy.VERDICT
            or (phase.state is TaskState.SUCCEEDED and phase.by is SettledBy.ATTEMPT)
            or (phase.state is TaskState.FAILED and final)
        )

    def chance(self, uniform: float) -> Chance:
        return Chance(backoff=replace(BACKOFF, jitter=0.5), uniform=uniform)

    def take(self, answer: Answer) -> Answer:
        self.write(answer.change)
        return answer

    # --- what may happen, in any order -----------------------------------------------------------

    @rule(ms=st.sampled_from([1, 500, 1_000, 5_000, 10_000, 30_000, 300_000]))
    def pass_time(self, ms: int) -> None:
        self.now += ms * 1_000

    @precondition(lambda self: isinstance(self.task.phase, Queued))
    @rule()
    def get_going(self) -> None:
        """What must happen for another execution, in one step: chance alone seldom gets far."""
        if isinstance(self.task.phase, Queued) and self.task.phase.due_at is not None:
            self.now = max(self.now, self.task.phase.due_at)
        self.sweep(0.5)
        if isinstance(self.task.phase, Queued):
            self.flip_gate(closed=False)
            self.promote()
            self.claim()
            self.start(0)

    @precondition(
        lambda self: (
            self.task.state is TaskState.QUEUED
            and self.task.holds is Holds.NONE
            and expired_code(self.task, self.now) is None
        )
    )
    @rule()
    def claim(self) -> None:
        token = f"token-{len(self.tokens)}"
        self.tokens.append(token)
        self.write(claim(self.task, now=self.now, token=token))
        assert self.task.token == token

    @rule(n=AGE)
    def start(self, n: int) -> None:
        before, token = self.task, self.token(n)
        answer = self.take(start(before, token=token, worker='"w"', now=self.now))
        if answer.rejected is None:
            assert token == before.token
            assert self.task.state is TaskState.RUNNING
            assert answer.attempt == len(self.attempts)
            phase = self.task.phase
            assert isinstance(phase, Running)
            assert answer.lease_ms is not None
            assert self.now + answer.lease_ms * 1_000 <= phase.expires_at

    @precondition(lambda self: isinstance(self.task.phase, Running))
    @rule(told=TOLD | st.none())
    def end(self, told: Report | None) -> None:
        """What runs ends: by its report, or (None) by the end of its lease."""
        if told is not None:
            self.report(0, told, 0.5)
        elif isinstance(self.task.phase, Running):
            self.now = max(self.now, self.task.phase.expires_at)
            self.sweep(0.5)

    @rule(n=AGE)
    def heartbeat(self, n: int) -> None:
        before, token = self.task, self.token(n)
        answer = self.take(heartbeat(before, token=token, now=self.now))
        if answer.rejected is not None:
            assert self.task == before
            return
        assert token == before.token
        assert self.task.revision == before.revision
        if isinstance(before.phase, Running) and isinstance(self.task.phase, Running):
            assert self.task.phase.expires_at >= before.phase.expires_at
            assert before.cancel_requested_at is None or answer.cancel

    @rule(n=AGE)
    def give_back(self, n: int) -> None:
        before = self.task
        answer = self.take(give_back(before, token=self.token(n)))
        assert (answer.rejected is None) == (
            isinstance(before.phase, Leased) and before.token == self.token(n)
        )

    @rule(n=AGE, told=TOLD, uniform=st.floats(0, 1))
    def report(self, n: int, told: Report, uniform: float) -> None:
        before, token = self.task, self.token(n)
        number, attempt = self.attempt_of(token)
        answer = self.take(
            report(
                before,
                attempt if token != before.token else None,
                told,
                token=token,
                now=self.now,
                chance=self.chance(uniform),
                late_id=f"late-{len(self.kept)}",
                kept_id=self.kept.get((number, told.digest)),
            )
        )
        if token != before.token:
            assert self.task.phase == before.phase, "nobody else moves it"
        code = answer.rejected.code if answer.rejected is not None else None
        accepted = answer.change is not None and answer.change.closed is not None
        if accepted:
            self.answered[token, told.digest] = (code, answer.state)
        elif (token, told.digest) in self.answered:
            assert (code, answer.state) == self.answered[token, told.digest]
            assert answer.change is None, "the same report again, the same answer"

    @precondition(lambda self: self.attempts)
    @rule()
    def cancel(self) -> None:
        before = self.task
        self.write(cancel(before, now=self.now))
        if isinstance(before.phase, Queued | Leased):
            expected = TaskState.NEEDS_REVIEW if before.tainted else TaskState.CANCELLED
            assert self.task.state is expected

    @rule(uniform=st.floats(0, 1))
    def sweep(self, uniform: float) -> None:
        due_at = sweep_at(self.task)
        change = sweep(self.task, now=self.now, chance=self.chance(uniform))
        assert (change is not None) == (due_at is not None and due_at <= self.now)
        self.write(change)
        again = sweep_at(self.task)
        if isinstance(self.task.phase, Queued) and change is not None:
            assert again is None or again > self.now or expired_code(self.task, self.now)
        elif change is not None:
            assert again is None

    @precondition(lambda self: not self.task.settled)
    @rule(closed=st.booleans())
    def flip_gate(self, closed: bool) -> None:
        self.write(set_gate(self.task, closed=closed))
        assert bool(self.task.holds & Holds.GATE) == closed

    @precondition(
        lambda self: (
            isinstance(self.task.phase, Queued)
            and self.task.key is not None
            and not self.task.holds_key
        )
    )
    @rule()
    def find_the_key_held(self) -> None:
        self.write(wait_for_key(self.task))

    @rule()
    def promote(self) -> None:
        self.write(promote(self.task))
        assert not self.task.holds & Holds.KEY

    @rule(expected=st.sampled_from([-1, 0]), uniform=st.floats(0, 1))
    def declare_lost(self, expected: int, uniform: float) -> None:
        before = self.task
        answer = declare_lost(
            before,
            expected_revision=before.revision + expected,
            now=self.now,
            chance=self.chance(uniform),
        )
        accepted = expected == 0 and isinstance(before.phase, Running)
        assert isinstance(answer, TaskChange) == accepted
        if not isinstance(answer, Rejected):
            self.write(answer)

    @precondition(lambda self: isinstance(self.task.phase, InReview))
    @rule(yes=st.booleans())
    def review(self, yes: bool) -> None:
        self.write(verdict(self.task, succeeded=yes, now=self.now, audit_id="audit-1"))
        assert self.task.state is (TaskState.SUCCEEDED if yes else TaskState.FAILED)

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def the_row_and_the_attempts_agree(self) -> None:
        if not hasattr(self, "task"):
            return
        now = self.task.check()
        assert now.attempt_count == len(self.attempts) <= now.max_attempts
        open_rows = [row for row in self.attempts if row.outcome is None]
        assert len(open_rows) == (now.state is TaskState.RUNNING)
        assert all(row.token == now.token for row in open_rows)
        assert now.tainted == any(row.outcome is Outcome.UNKNOWN for row in self.attempts)

    @invariant()
    def each_settlement_was_told_once(self) -> None:
        if not hasattr(self, "task"):
            return
        settlements = [
            e for e in self.events if e.kind.value in {"SUCCEEDED", "FAILED", "CANCELLED"}
        ]
        assert len(settlements) == self.task.settled
        reviews = [e for e in self.events if e.kind is EventKind.NEEDS_REVIEW]
        assert len(reviews) <= 1, "only a verdict leads out of a review"
        assert [e.task_revision for e in self.events] == sorted(
            e.task_revision for e in self.events
        )

    def teardown(self) -> None:
        """From anywhere a cancel, the end of its lease and a person lead to an end."""
        if not hasattr(self, "task"):
            return
        self.cancel()
        if isinstance(self.task.phase, Running):
            self.now = self.task.phase.expires_at
            self.sweep(0.5)
        if isinstance(self.task.phase, InReview):
            self.review(yes=True)
        assert self.task.settled

    # --- names -----------------------------------------------------------------------------------

    def token(self, n: int) -> str:
        """The newest token, or an older one."""
        return self.tokens[-1 - min(n, len(self.tokens) - 1)]

    def attempt_of(self, token: str) -> tuple[int | None, ReportedAttempt | None]:
        for number, row in enumerate(self.attempts, 1):
            if row.token == token:
                reported = ReportedAttempt(
                    number=number,
                    report_digest=row.report_digest,
                    outcome=row.outcome,
                    task_state=row.led_to,
                )
                return number, reported
        return None, None


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=250, stateful_step_count=40)
