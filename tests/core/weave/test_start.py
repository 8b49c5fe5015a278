"""Start: a new instance with its first steps, in one plan; and how many tasks it may ever have."""

from typing import Any

import pytest

from pulseweave.core.pulse.task import Holds
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.start import StartCommand, check_input, start
from pulseweave.core.weave.states import InstanceState, LeafState, WakeReason
from pulseweave.kernel import canonical, limits
from tests.core.weave.definition.documents import compiled, document, problems_of, task
from tests.core.weave.facts import NOW, SECOND, ids

COMMAND = StartCommand(
    namespace="acme",
    application="shop",
    instance_key="k",
    input='{"amount":3}',
    partition_id=3,
    actor="someone",
)


def started(*steps: object, **fields: Any) -> InstancePlan:
    return start(compiled(*steps, **fields), "definition-1", COMMAND, now=NOW, new_id=ids())


@pytest.mark.rule("WEA-3", "WEA-4")
def test_a_start_is_one_plan_with_everything() -> None:
    plan = started(task("charge", input="${input}"), task("ship"), deadline="1m")
    after = plan.after
    assert (plan.before, after.state, after.revision, after.control_revision) == (
        None,
        InstanceState.RUNNING,
        1,
        1,
    )
    assert (after.deadline_at, after.created_at, after.created_by) == (
        NOW + 60 * SECOND,
        NOW,
        "someone",
    )
    assert (after.wake_at, after.wake_reason) == (NOW + 60 * SECOND, WakeReason.DEADLINE)
    assert plan.payloads == {"input": '{"amount":3}'}
    assert after.input_digest == canonical.digest('{"amount":3}')
    assert [change.before for change in plan.leaves] == [None]
    (created,) = plan.tasks
    assert (created.spec.input, created.task.holds) == ('{"amount":3}', Holds.NONE)
    assert plan.gate is True
    assert plan.journal is not None
    assert (plan.journal.revision, plan.journal.cause) == (1, "START")
    assert not plan.touches_tasks


@pytest.mark.rule("WEA-20", "WEA-8")
@pytest.mark.parametrize(
    ("policy", "state"),
    [("fail", InstanceState.FAILED), ("review", InstanceState.NEEDS_REVIEW)],
)
def test_a_start_may_end_or_wait_for_a_person_at_once(policy: str, state: InstanceState) -> None:
    plan = started(task("charge", input="${input.gone}", on_failure=policy))
    assert (plan.after.state, plan.gate, plan.tasks) == (state, False, ())
    assert plan.leaves[0].after.state in (LeafState.FAILED, LeafState.NEEDS_REVIEW)


@pytest.mark.rule("WEA-2")
def test_an_input_meets_its_contract_or_every_problem_is_told() -> None:
    contract = {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "integer"}, "who": {"type": "string"}},
    }
    definition = compiled(task("charge"), input=contract)
    assert check_input(definition, '{"amount":3}') is None
    assert check_input(compiled(task("charge")), "null") is None
    refusal = check_input(definition, '{"amount":"x","who":1}')
    assert refusal is not None
    assert refusal.code == "CONTRACT_VIOLATION"
    assert [p["pointer"] for p in refusal.detail["problems"]] == ["/amount", "/who"]


@pytest.mark.exhaustive
@pytest.mark.rule("PUL-16")
def test_an_instance_has_at_most_a_thousand_unsettled_tasks() -> None:
    """A step has one unsettled task at most (a retry needs every earlier one settled), and a
    definition at most as many steps as an instance may have unsettled tasks.
    """
    most = limits.UNSETTLED_TASKS_PER_INSTANCE_MAX
    assert limits.STEPS_PER_DEFINITION_MAX <= most == 1000

    def wide(count: int) -> dict[str, object]:
        branches = {f"b{n}": [task(f"s{n}")] for n in range(count)}
        return {"parallel": "all", "branches": branches}

    largest = next(count for count in range(most, 0, -1) if not problems_of(document(wide(count))))
    assert len(started(wide(largest)).tasks) == largest >= most - 1
    assert problems_of(document(wide(most + 1)))
