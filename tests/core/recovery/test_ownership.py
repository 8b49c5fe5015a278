"""Ownership is checked both ways, over the whole history, by every command (REC-9)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pulseweave.core.recovery import continue_instance, resolve_step, retry_step, review_task
from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.states import InstanceState, LeafState
from tests.core.recovery.scenes import VERIFIED_FAILED, Scene, code_of, refused
from tests.core.weave.facts import (
    FAILED,
    IN_REVIEW,
    NOW,
    QUEUED,
    charge,
    history,
    instance,
    known,
    leaf,
)


class History:
    """Two activations of ``charge`` with their tasks, to be damaged."""

    def __init__(self, phase: Any = VERIFIED_FAILED) -> None:
        self.first = leaf(LeafState.FAILED, current=False)
        self.second = leaf(LeafState.NEEDS_REVIEW, sequence=2)
        self.one: TaskHistory | None = history(self.first, FAILED)
        self.two: TaskHistory | None = history(self.second, phase, max_attempts=2)
        self.more: list[TaskHistory] = []
        self.others: list[Leaf] = []
        self.foreign: list[Leaf] = []

    def facts(self) -> RecoveryFacts:
        told = [told for told in (self.one, self.two) if told is not None]
        return known(
            instance(InstanceState.NEEDS_REVIEW),
            charge(),
            [self.first, self.second, *self.others],
            [*told, *self.more],
            foreign=self.foreign,
        )


OF_SECOND = {"activation_id": "charge-2"}
REVIEW = Scene(command={"task_id": "task-charge-2"}).review_task()
ASK: dict[str, Callable[[RecoveryFacts], object]] = {
    "ReviewTask": lambda facts: review_task.applies(facts, REVIEW),
    "ResolveStep": lambda facts: resolve_step.applies(
        facts, Scene(command=OF_SECOND).resolve_step()
    ),
    "RetryStep": lambda facts: retry_step.applies(
        facts, Scene(command=OF_SECOND).retry_step(), now=NOW
    ),
    "Continue": lambda facts: continue_instance.applies(facts, Scene().go_on(), now=NOW),
}
#: What each answers while nothing is damaged.
SOUND = {
    "ReviewTask": None,
    "ResolveStep": None,
    "RetryStep": None,
    "Continue": "UNRESOLVED_STEPS",
}


def whole(command: str) -> History:
    return History(IN_REVIEW if command == "ReviewTask" else VERIFIED_FAILED)


def _task(told: TaskHistory | None, **fields: Any) -> TaskHistory:
    assert told is not None
    return replace(told, task=replace(told.task, **fields))


def _of_one(**fields: Any) -> Callable[[History], None]:
    def damage(made: History) -> None:
        made.one = _task(made.one, **fields)

    return damage


def _of_two(**fields: Any) -> Callable[[History], None]:
    def damage(made: History) -> None:
        made.two = _task(made.two, **fields)

    return damage


def _first(**fields: Any) -> Callable[[History], None]:
    def damage(made: History) -> None:
        made.first = replace(made.first, **fields)

    return damage


def _second(**fields: Any) -> Callable[[History], None]:
    def damage(made: History) -> None:
        made.second = replace(made.second, **fields)

    return damage


def _gone(made: History) -> None:
    made.one = None


def _claimed(made: History) -> None:
    claimant = history(leaf(step_key="ship"), QUEUED)
    made.more.append(_task(claimant, id="task-x", activation_id="charge-1"))


def _claimed_now(made: History) -> None:
    claimant = history(leaf(step_key="ship"), QUEUED)
    made.more.append(_task(claimant, id="task-x", activation_id="charge-2"))


def _succeeded_elsewhere(made: History) -> None:
    stranger = history(leaf(step_key="ship"), QUEUED, spec={"retry_of": "task-charge-1"})
    made.more.append(_task(stranger, id="task-x", instance_id="instance-2", activation_id="x"))


def _named_elsewhere(made: History) -> None:
    made.foreign.append(leaf(task_id="task-charge-1", instance_id="instance-2", id="x"))


DAMAGES: dict[str, Callable[[History], None]] = {
    "an earlier task names another activation": _of_one(activation_id="ship-1"),
    "an earlier task names none": _of_one(activation_id=None),
    "an earlier task is of another instance": _of_one(instance_id="instance-2"),
    "an earlier task is of another namespace": _of_one(namespace="other"),
    "an earlier task is in a queue of nobody's": _of_one(queue="elsewhere"),
    "the task names another activation": _of_two(activation_id="charge-1"),
    "the task is of another instance": _of_two(instance_id="instance-2"),
    "the task is of another namespace": _of_two(namespace="other"),
    "the task is in a queue of nobody's": _of_two(queue="elsewhere"),
    "an earlier activation is of another namespace": _first(namespace="other"),
    "an earlier activation is of another instance": _first(instance_id="instance-2"),
    "the activation is of another namespace": _second(namespace="other"),
    "the activation is of no node": _second(node_key="gone"),
    "two activations name one task": _first(task_id="task-charge-2"),
    "an earlier activation names what is not there": _gone,
    "a task claims an earlier activation": _claimed,
    "a task claims the activation": _claimed_now,
    "a stranger is the retry of an earlier task": _succeeded_elsewhere,
    "an activation of another instance names an earlier task": _named_elsewhere,
}


@pytest.mark.parametrize("command", ASK)
def test_a_sound_history_is_no_reason_to_refuse(command: str) -> None:
    assert code_of(ASK[command](whole(command).facts())) == SOUND[command]


@pytest.mark.rule("REC-9")
@pytest.mark.parametrize("command", ASK)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_foreign_task_or_claim_anywhere_in_the_history_refuses(command: str, damage: str) -> None:
    made = whole(command)
    DAMAGES[damage](made)
    answer = refused(ASK[command](made.facts()))
    assert (answer.code, answer.rule) == ("NOT_OWNED", "REC-9"), answer


@pytest.mark.rule("REC-9")
def test_another_steps_damage_stops_only_continue() -> None:
    for command, ask in ASK.items():
        made = whole(command)
        other = leaf(LeafState.ACTIVE, step_key="ship")
        made.others.append(other)
        made.more.append(_task(history(other, QUEUED), namespace="other"))
        made.foreign.append(leaf(task_id="task-ship-1", instance_id="instance-2", id="x"))
        expected = "NOT_OWNED" if command == "Continue" else SOUND[command]
        assert code_of(ask(made.facts())) == expected, command


def test_an_activation_of_another_instance_without_a_task_claims_nothing() -> None:
    made = whole("ResolveStep")
    made.foreign.append(leaf(LeafState.FAILED, task_id=None, instance_id="instance-2", id="x"))
    assert code_of(ASK["ResolveStep"](made.facts())) is None
