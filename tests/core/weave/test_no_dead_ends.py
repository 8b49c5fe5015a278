"""From every open state with intact sources some sequence of allowed commands reaches an end
(REC-18).

A small world is searched whole: every state that workers, time, mishaps and people can bring about.
Then it is gone through backwards from the ends, over what honest workers, the engine and people do
of their own accord; no open state may be left over.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from pulseweave.core.pulse.report import Report
from pulseweave.core.pulse.task import Running
from pulseweave.core.recovery.command import Continue, ResolveStep, RetryStep, ReviewTask
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import InstanceState
from pulseweave.kernel.errors import Rejected
from tests.core.pulse.tasks import cancelled, failed, succeeded, unknown
from tests.core.weave.definition.documents import compiled, task
from tests.core.weave.machine import NOW, SECOND, Machine

HOUR = 3600 * SECOND
ERROR = '{"code":"VERIFIED","message":"it failed"}'
Move = Callable[[Machine], object]

#: What people, honest workers and the engine do; each alone must be enough to get out of anything.
HELPS = frozenset(
    {
        "start",
        "succeeded",
        "failed",
        "cancelled",
        "consume",
        "wake",
        "end delays",
        "RESUME",
        "CANCEL",
        "acknowledge",
        ReviewTask.OPERATION,
        ResolveStep.OPERATION,
        RetryStep.OPERATION,
        Continue.OPERATION,
    }
)


def moves(machine: "World") -> Iterator[tuple[str, Move]]:
    """Everything that may happen now, by name; a refused command changes nothing."""
    yield from _workers(machine)
    yield "consume", lambda m: m.consume(1)
    yield "wake", lambda m: m.wake()
    yield "end delays", lambda m: m.end_delays()
    if machine.now < NOW + HOUR:
        yield "time passes", lambda m: setattr(m, "now", NOW + HOUR)
    for verb in ControlVerb:
        yield verb.value, partial(_control, verb)
    if machine.instance.contradicted:
        yield "acknowledge", lambda m: m.acknowledge()
    yield Continue.OPERATION, partial(_ask, Continue.OPERATION, None, {})
    for key in sorted(machine.leaves):
        yield RetryStep.OPERATION, partial(_ask, RetryStep.OPERATION, key, {})
        for verdict, result in ((True, '{"ok":true}'), (False, ERROR)):
            told = {"succeeded": verdict, "result": result}
            for operation in (ReviewTask.OPERATION, ResolveStep.OPERATION):
                yield operation, partial(_ask, operation, key, told)


def _workers(machine: "World") -> Iterator[tuple[str, Move]]:
    for row in machine.startable():
        yield "start", partial(_start, row.task.id)
    for task_id, row in machine.rows.items():
        if isinstance(row.task.phase, Running):
            for name, told in TOLD.items():
                yield name, partial(_report, task_id, told, None)
            if row.task.cancel_requested_at is not None:
                yield "cancelled", partial(_report, task_id, cancelled(), None)
        elif row.attempts and not machine.late:
            yield "late", partial(_report, task_id, succeeded('"late"'), 1)
        if not row.task.settled:
            yield "cancel alone", partial(_cancel, task_id)


TOLD = {
    "succeeded": succeeded(),
    "failed": failed(retryable=False),
    "busy": failed(retryable=True),
    "unknown": unknown(),
}


def _start(task_id: str, machine: Machine) -> None:
    machine.start(machine.rows[task_id])


def _report(task_id: str, told: Report, attempt: int | None, machine: Machine) -> None:
    machine.report(machine.rows[task_id], told, attempt=attempt)  # a late one is refused, and kept


def _cancel(task_id: str, machine: Machine) -> None:
    machine.cancel_task(machine.rows[task_id])


def _control(verb: ControlVerb, machine: Machine) -> object:
    return machine.control(verb)


def _ask(operation: str, step_key: str | None, told: Mapping[str, Any], machine: Machine) -> object:
    return machine.ask(operation, step_key, **told)


#: What goes wrong, or is asked for needlessly.
MISHAPS = frozenset({"busy", "unknown", "late", "cancel alone", "time passes", "PAUSE"})


class World(Machine):
    """A machine that counts its mishaps. Journals are replayed by other tests."""

    mishaps = 0

    def fork(self) -> "World":
        other = super().fork()
        assert isinstance(other, World)
        return other

    def check(self) -> None:
        assert self.instance.check().ended or self.mover(), "WEA-14"


def key_of(machine: World) -> tuple[Any, ...]:
    """What is so, without how often it was decided: equal keys have equal futures."""
    at = machine.instance
    leaves = tuple(
        (
            leaf.step_key,
            leaf.sequence,
            leaf.current,
            leaf.state,
            leaf.ignored,
            leaf.conclusion_id is not None,
            leaf.task_state,
        )
        for leaf in machine.activations.values()
    )
    tasks = tuple(
        (
            row.task.state,
            row.task.holds,
            row.task.tainted,
            row.task.attempt_count,
            row.task.cancel_requested_at is not None,
            tuple((attempt.outcome, attempt.reviewed) for attempt in row.attempts),
        )
        for row in machine.rows.values()
    )
    unread = tuple((event.kind, event.task_id) for event in machine.unconsumed)
    due = at.wake_reason, at.wake_at is not None and at.wake_at <= machine.now
    return (
        (at.state, at.paused, at.stop and at.stop.kind, at.contradicted, at.quarantined, due),
        (machine.now, len(machine.late), machine.mishaps),
        leaves,
        tasks,
        unread,
    )


def explore(first: World, *, mishaps_max: int) -> tuple[dict[Any, World], dict[Any, set[Any]]]:
    """Every reachable state, and from where each is reached by what helps."""
    found = {key_of(first): first}
    reached_from: dict[Any, set[Any]] = {}
    todo = [first]
    while todo:
        machine = todo.pop()
        here = key_of(machine)
        if machine.instance.ended:
            continue
        for name, move in moves(machine):
            after = machine.fork()
            after.mishaps += name in MISHAPS
            if after.mishaps > mishaps_max:
                continue
            if isinstance(move(after), Rejected):
                continue
            there = key_of(after)
            if there == here:
                continue
            if name in HELPS:
                reached_from.setdefault(there, set()).add(here)
            if there not in found:
                found[there] = after
                todo.append(after)
    return found, reached_from


def dead_ends(found: dict[Any, World], reached_from: dict[Any, set[Any]]) -> list[World]:
    """Open states from which no end is reached."""
    led = [key for key, machine in found.items() if machine.instance.ended]
    out = set(led)
    while led:
        for before in reached_from.get(led.pop(), ()):
            if before not in out:
                out.add(before)
                led.append(before)
    return [machine for key, machine in found.items() if key not in out]


@pytest.mark.exhaustive
@pytest.mark.rule("REC-18", "WEA-14")
@pytest.mark.parametrize(
    ("policy", "effect", "mishaps_max"),
    [
        ("fail", "at_most_once", 2),
        ("ignore", "at_most_once", 2),
        ("review", "at_most_once", 1),
        ("fail", "idempotent", 1),
        ("review", "idempotent", 1),
        ("ignore", "none", 1),
    ],
)
def test_no_state_is_a_dead_end(policy: str, effect: str, mishaps_max: int) -> None:
    """Mishaps happen in any order and at any moment, so many of them at most."""
    definition = compiled(
        task("charge", on_failure=policy, effect=effect, max_attempts=2), deadline="1h"
    )
    found, reached_from = explore(World(definition), mishaps_max=mishaps_max)
    states = {machine.instance.state for machine in found.values()}
    assert states == set(InstanceState), "the search has come everywhere"
    stuck = dead_ends(found, reached_from)
    assert not stuck, key_of(stuck[0])


@pytest.mark.rule("REC-18")
def test_a_dead_end_would_be_seen() -> None:
    """If no command led on from a review the search would say so."""
    found, reached_from = explore(World(compiled(task("charge"))), mishaps_max=1)
    without = {
        there: {here for here in before if found[here].state() is not InstanceState.NEEDS_REVIEW}
        for there, before in reached_from.items()
    }
    stuck = dead_ends(found, without)
    assert InstanceState.NEEDS_REVIEW in {machine.state() for machine in stuck}
