"""One step in review, and everything that can be wrong around it.

``Scene`` has the facts that a command needs to be accepted; a test changes what it wants and asks.
``Situation`` is one row of the table "State in review" (REC-4): what holds of the instance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from pulseweave.core.pulse.change import LateReport
from pulseweave.core.pulse.task import Phase, SettledBy, TaskState
from pulseweave.core.recovery.command import Continue, ResolveStep, RetryStep, ReviewTask
from pulseweave.core.recovery.facts import RecoveryFacts, Sources
from pulseweave.core.weave.states import ENDED, InstanceState, LeafState
from pulseweave.kernel.errors import Rejected
from tests.core.weave.facts import (
    CANCEL,
    FAIL,
    NOW,
    SECOND,
    charge,
    history,
    instance,
    known,
    leaf,
    settled,
)

REVISION = 9
VERIFIED_FAILED = settled(TaskState.FAILED, SettledBy.VERDICT)
VERIFIED_SUCCEEDED = settled(TaskState.SUCCEEDED, SettledBy.VERDICT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What holds of an instance. ``pending``: whose record or event still waits."""

    state: InstanceState
    paused: bool
    expired: bool
    stop: str | None
    quarantined: bool
    pending: str | None
    contradicted: bool

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def situations() -> Iterator[Situation]:
    """Every lawful combination."""
    flags = (False, True)
    choices = product(
        InstanceState,
        flags,
        flags,
        (None, "CANCEL", "FAIL"),
        flags,
        (None, "record", "event"),
        flags,
    )
    for state, paused, expired, stop, quarantined, pending, contradicted in choices:
        stopped = state in (
            InstanceState.CANCELLING,
            InstanceState.FAILED,
            InstanceState.CANCELLED,
        )
        running_on = stop is not None and state is InstanceState.RUNNING
        if running_on or (stopped and stop is None):
            continue
        yield Situation(
            state=state,
            paused=paused,
            expired=expired,
            stop=stop,
            quarantined=quarantined,
            pending=pending,
            contradicted=contradicted,
        )


Table = Sequence[tuple[Mapping[str, object], str | None]]


def answer_of(table: Table, situation: Situation) -> str | None:
    """The answer of the first row whose conditions all hold."""
    for conditions, answer in table:
        if all(_holds(situation, name, value) for name, value in conditions.items()):
            return answer
    raise AssertionError(f"the table has no row for {situation}")


def _holds(situation: Situation, name: str, value: object) -> bool:
    actual = getattr(situation, name)
    return bool(actual) is value if isinstance(value, bool) else actual == value


@dataclass(slots=True, kw_only=True)
class Scene:
    """Facts and a command, still to be changed. ``build`` gives the facts."""

    step: LeafState = LeafState.NEEDS_REVIEW
    phase: Phase = VERIFIED_FAILED
    state: InstanceState = InstanceState.NEEDS_REVIEW
    definition: dict[str, Any] = field(default_factory=dict)
    at: dict[str, Any] = field(default_factory=dict)
    leaf: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    command: dict[str, Any] = field(default_factory=dict)
    late_reports: tuple[LateReport, ...] = ()
    now: int = NOW

    def within(self, situation: Situation) -> "Scene":
        """The same step in an instance of which something else holds."""
        stops = {None: None, "CANCEL": CANCEL, "FAIL": FAIL}
        self.state = situation.state
        self.at = {
            "paused": situation.paused,
            "stop": stops[situation.stop],
            "quarantined": situation.quarantined,
            "contradicted": situation.contradicted,
            "deadline_at": NOW - SECOND if situation.expired else NOW + SECOND,
        }
        self.sources = {
            "quarantined": int(situation.quarantined),
            "pending": int(situation.pending == "record"),
            "unconsumed": situation.pending == "event",
        }
        return self

    def build(self) -> RecoveryFacts:
        activation = leaf(self.step, **self.leaf)
        histories = []
        if activation.task_id is not None:
            told = history(activation, self.phase, spec=self.spec, rows=self.rows, **self.task)
            histories = [told]
        return known(
            instance(self.state, **self.at),
            charge(**self.definition),
            [activation],
            histories,
            sources=Sources(**self.sources),
            late_reports=self.late_reports,
            **self.known,
        )

    @property
    def _evidence(self) -> dict[str, Any]:
        return {
            "expected_revision": REVISION,
            "reason": "looked at the provider",
            "evidence_ref": "provider:1",
            "declared": True,
        }

    @property
    def _of_step(self) -> dict[str, Any]:
        return {
            **self._evidence,
            "step_key": "charge",
            "activation_id": "charge-1",
            "expected_step_revision": 3,
        }

    def review_task(self) -> ReviewTask:
        plain = {
            **self._evidence,
            "task_id": "task-charge-1",
            "expected_task_revision": 5,
            "succeeded": True,
            "result": '{"ok":true}',
            "late_report_id": None,
        }
        return ReviewTask(**{**plain, **self.command})

    def resolve_step(self) -> ResolveStep:
        plain = {**self._of_step, "succeeded": True, "result": '{"ok":true}'}
        return ResolveStep(**{**plain, **self.command})

    def retry_step(self) -> RetryStep:
        return RetryStep(**{**self._of_step, **self.command})

    def go_on(self) -> Continue:
        return Continue(**{**self._evidence, **self.command})


Break = tuple[str, Callable[[Scene], None]]


def check_order(
    breaks: Sequence[Break], make: Callable[[], Scene], ask: Callable[[Scene], object]
) -> None:
    """However many of the checks are violated at once, the first in order answers: any three, and
    each with all that come behind it. Where two breaks set the same fact the earlier one has it.
    """
    few = (some for count in range(4) for some in combinations(breaks, count))
    for violated in [*few, *(tuple(breaks[at:]) for at in range(len(breaks)))]:
        scene = make()
        for _, violate in reversed(violated):
            violate(scene)
        answer = ask(scene)
        expected = violated[0][0] if violated else None
        assert code_of(answer) == expected, ([code for code, _ in violated], answer)


def code_of(answer: object) -> str | None:
    return answer.code if isinstance(answer, Rejected) else None


def refused(answer: object) -> Rejected:
    """The refusal that must be there."""
    assert isinstance(answer, Rejected), answer
    return answer


def undeclared(scene: Scene) -> None:
    scene.command["declared"] = False


def old_revision(scene: Scene) -> None:
    scene.command["expected_revision"] = REVISION - 1


def ended(scene: Scene) -> None:
    scene.state = InstanceState.SUCCEEDED


def running(scene: Scene) -> None:
    scene.state = InstanceState.RUNNING


def quarantined(scene: Scene) -> None:
    scene.sources["quarantined"] = 1


def pending(scene: Scene) -> None:
    scene.sources["pending"] = 1


def stopped(scene: Scene) -> None:
    scene.at["stop"] = CANCEL


def expired(scene: Scene) -> None:
    scene.at["deadline_at"] = NOW


#: What every command checks first, in this order.
COMMON: tuple[Break, ...] = (
    ("DECLARATION_REQUIRED", undeclared),
    ("REVISION_CONFLICT", old_revision),
    ("INSTANCE_ENDED", ended),
    ("NOT_IN_REVIEW", running),
    ("INBOX_QUARANTINED", quarantined),
    ("INBOX_PENDING", pending),
)
