"""What each recovery operation refuses, and in which order; on SQLite alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pulseweave.core.recovery.command import Command
from pulseweave.core.weave.control import ControlVerb
from pulseweave.core.weave.states import Disposition, InstanceState, LeafState
from pulseweave.kernel import canonical
from pulseweave.store import schema as t
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from tests.pulse.world import failed, succeeded, unknown
from tests.weave.world import WeaveWorld, task

CONTRACT = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WeaveWorld]:
    url = f"sqlite:///{tmp_path / 'weave.db'}"
    database = open_database(url)
    upgrade(database)
    database.close()
    made = WeaveWorld(url)
    yield made
    made.close()


def reviewed(world: WeaveWorld, **more: object) -> str:
    """An instance whose only step had an unknown outcome that a person has settled as failed."""
    world.define(task("one", **{"max_attempts": 2, **more}))
    run = world.begin()
    world.work(unknown())
    world.recover(run, world.review_task(run, "one", succeeded=False, result='"gone"'))
    world.settle()
    return run


@pytest.mark.rule("REC-2")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reason", " \n"),
        ("reason", "x" * 1025),
        ("reason", "a\0b"),
        ("reason", "a\ud800"),
        ("evidence_ref", "two words"),
        ("evidence_ref", "x" * 513),
        ("evidence_ref", "tab\t"),
        ("evidence_ref", "\udfff"),
    ],
)
def test_texts_that_do_not_fit_are_refused_with_their_place(
    world: WeaveWorld, field: str, value: str
) -> None:
    run = reviewed(world)
    refusal = world.refusal(run, world.resolve_step(run, "one", **{field: value}))
    assert (refusal.code, refusal.rule, refusal.detail["pointer"]) == (
        "INVALID_COMMAND",
        "REC-2",
        f"/{field}",
    )


@pytest.mark.rule("REC-2")
def test_the_longest_texts_are_taken(world: WeaveWorld) -> None:
    run = reviewed(world)
    world.recover(
        run,
        world.resolve_step(run, "one", reason="核" * 1024, evidence_ref="证" * 512),
        key="~" * 200,
    )
    assert world.refusal(run, world.go_on(run), key="k" * 201).rule == "REC-2"
    assert world.refusal(run, world.go_on(run), key="ключ").rule == "REC-2"


@pytest.mark.rule("REC-11")
def test_a_declaration_must_be_made_and_is_not_believed(world: WeaveWorld) -> None:
    run = reviewed(world)
    for command in (
        world.review_task(run, "one", declared=False),
        world.resolve_step(run, "one", declared=False),
        world.retry_step(run, "one", declared=False),
        world.go_on(run, declared=False),
    ):
        refusal = world.refusal(run, command)
        assert (refusal.code, refusal.detail["pointer"]) == (
            "DECLARATION_REQUIRED",
            f"/{command.DECLARATION}",
        )
    assert world.refusal(run, world.go_on(run)).code == "UNRESOLVED_STEPS"


@pytest.mark.rule("RES-2")
def test_a_conclusion_needs_a_result_of_its_contract_or_a_whole_error(world: WeaveWorld) -> None:
    run = reviewed(world, output=CONTRACT)
    assert world.refusal(run, world.resolve_step(run, "one", result=None)).code == "INVALID_COMMAND"
    broken = world.refusal(run, world.resolve_step(run, "one", result='{"id":"x"}'))
    assert broken.code == "CONTRACT_VIOLATION"
    assert broken.detail["problems"][0]["pointer"] == "/result/id"
    for error in ("null", '{"code":"X"}', '{"code":"","message":"m"}', '{"code":"X","message":1}'):
        refusal = world.refusal(run, world.resolve_step(run, "one", succeeded=False, result=error))
        assert refusal.code == "INVALID_COMMAND", error
    world.recover(run, world.resolve_step(run, "one", result='{"id":7}'))


@pytest.mark.rule("RES-3", "RES-4", "REC-10")
def test_a_failed_conclusion_may_be_replaced_and_review_then_counts_as_fail(
    world: WeaveWorld,
) -> None:
    run = reviewed(world, on_failure="review")
    world.recover(
        run,
        world.resolve_step(run, "one", succeeded=False, result='{"code":"A","message":"first"}'),
    )
    assert world.instance(run).state is InstanceState.NEEDS_REVIEW
    assert world.leaf(run, "one").state is LeafState.FAILED
    world.recover(
        run,
        world.resolve_step(run, "one", succeeded=False, result='{"code":"B","message":"second"}'),
    )
    assert len(world.rows(t.conclusions)) == 2
    receipt = world.recover(run, world.go_on(run))
    assert (receipt["state_after"], receipt["gate"]) == ("CANCELLING", "CLOSED")
    world.settle()
    ended = world.instance(run)
    assert ended.state is InstanceState.FAILED
    assert canonical.parse(ended.error or "")["code"] == "B"


@pytest.mark.rule("RES-3")
def test_a_succeeded_conclusion_is_final(world: WeaveWorld) -> None:
    run = reviewed(world)
    told = world.recover(run, world.resolve_step(run, "one"), dry_run=True)
    assert told["warnings"] == ["SUCCEEDED is final."]
    world.recover(run, world.resolve_step(run, "one"))
    assert world.refusal(run, world.resolve_step(run, "one")).code == "STEP_NOT_RESOLVABLE"
    assert world.refusal(run, world.retry_step(run, "one")).code == "STEP_NOT_RETRYABLE"


@pytest.mark.rule("RET-1")
def test_a_retry_needs_known_failures_and_time_left(world: WeaveWorld) -> None:
    world.define(task("one", max_attempts=3, deadline="10s"), deadline="1h")
    run = world.begin()
    world.work(unknown())
    assert world.refusal(run, world.retry_step(run, "one")).code == "EXECUTION_UNSETTLED"
    world.recover(run, world.review_task(run, "one", succeeded=False, result='"gone"'))
    world.settle()
    told = world.recover(run, world.retry_step(run, "one"), dry_run=True)
    assert told["details"]["seconds_to_deadline"] == 10
    world.pass_ms(10_000)
    assert world.refusal(run, world.retry_step(run, "one")).code == "DEADLINE_PASSED"


@pytest.mark.rule("RET-1")
def test_a_known_success_is_never_repeated(world: WeaveWorld) -> None:
    world.define(task("one", max_attempts=3, output=CONTRACT))
    run = world.begin()
    world.work(succeeded({"id": "not a number"}))
    assert world.refusal(run, world.retry_step(run, "one")).code == "STEP_NOT_RETRYABLE"


@pytest.mark.rule("RET-2")
@pytest.mark.parametrize(
    ("table", "values"),
    [
        (t.tasks, {"priority_order": -5}),
        (t.tasks, {"lease_ms": 999}),
        (t.tasks, {"attempt_count": 2}),
        (t.activations, {"sequence": 4}),
    ],
)
def test_a_history_that_is_not_whole_is_not_built_upon(
    world: WeaveWorld, table: object, values: dict[str, int]
) -> None:
    world.define(task("one", max_attempts=5, on_failure="review"))
    run = world.begin()
    world.work(failed("A", retryable=False))
    world.recover(run, world.retry_step(run, "one"))
    world.recover(run, world.go_on(run))
    world.settle()
    world.work(failed("B", retryable=False))
    first = world.look(run).activations[0]
    row_id = first.task_id if table is t.tasks else first.id
    assert row_id is not None
    world.break_row(table, row_id, **values)
    refusal = world.refusal(run, world.retry_step(run, "one"))
    assert refusal.code == "INTEGRITY_MISMATCH", refusal


@pytest.mark.rule("RET-7", "PUL-12")
def test_a_retry_that_finds_no_room_leaves_nothing(world: WeaveWorld) -> None:
    run = reviewed(world)
    world.queue("q", max_open=1)
    world.create()
    before = world.counts()
    assert world.refusal(run, world.retry_step(run, "one"), dry_run=True).code == "QUOTA_EXCEEDED"
    assert world.counts() == before


@pytest.mark.rule("RET-10")
def test_a_retry_warns_that_keys_give_no_idempotence(world: WeaveWorld) -> None:
    run = reviewed(world)
    told = world.recover(run, world.retry_step(run, "one"), dry_run=True)
    assert "gives no idempotence" in told["warnings"][0]
    assert "may have expired" in told["warnings"][0]


@pytest.mark.rule("CON-1", "WEA-17")
def test_continue_needs_every_execution_known_and_every_step_resolved(world: WeaveWorld) -> None:
    branches = {"a": [task("a")], "b": [task("b")]}
    world.define({"parallel": "both", "branches": branches})
    run = world.begin()
    first, second = world.claim(2)
    world.start(first)
    world.start(second)
    world.report(first, unknown())
    world.settle()
    world.report(second, failed("KNOWN", retryable=False))
    world.settle()
    by_task = {leaf.task_id: leaf for leaf in world.look(run).activations}
    failed_leaf = by_task[second.task_id]
    assert failed_leaf.state is LeafState.FAILED  # undecided: the instance is in review (WEA-16)
    assert world.instance(run).stop is None
    lost = by_task[first.task_id].step_key
    assert world.refusal(run, world.go_on(run)).code == "EXECUTION_UNSETTLED"
    world.recover(run, world.review_task(run, lost))
    world.settle()
    reviewed_leaf = world.leaf(run, lost)
    assert reviewed_leaf.state is LeafState.NEEDS_REVIEW
    dispositions = {row.disposition for row in world.rows(t.inbox)}
    assert Disposition.EVIDENCE.value in dispositions
    refusal = world.refusal(run, world.go_on(run))
    assert (refusal.code, refusal.detail["steps"]) == ("UNRESOLVED_STEPS", ["a", "b"])
    world.recover(run, world.resolve_step(run, lost))
    refusal = world.refusal(run, world.go_on(run))
    assert refusal.detail["steps"] == [failed_leaf.step_key]


@pytest.mark.rule("WEA-15")
def test_an_instance_ends_only_when_all_its_tasks_are_settled_and_consumed(
    world: WeaveWorld,
) -> None:
    branches = {"a": [task("a")], "b": [task("b")]}
    world.define({"parallel": "both", "branches": branches})
    run = world.begin()
    first, second = world.claim(2)
    world.start(first)
    world.start(second)
    world.report(first, failed("NO", retryable=False))
    world.settle()
    assert world.instance(run).state is InstanceState.CANCELLING
    world.report(second, succeeded(1))
    assert world.instance(run).state is InstanceState.CANCELLING
    world.settle()
    assert world.instance(run).state is InstanceState.FAILED


@pytest.mark.rule("REC-15", "REC-19")
def test_what_is_said_to_apply_is_what_the_commands_say(world: WeaveWorld) -> None:
    run = reviewed(world)

    def told() -> dict[str, str | None]:
        detail = world.look(run)
        return {
            operation.operation: operation.refusal.code if operation.refusal else None
            for item in detail.items
            for operation in item.operations
        }

    said = told()
    commands: dict[str, Command] = {
        "REVIEW_TASK": world.review_task(run, "one"),
        "RESOLVE_STEP": world.resolve_step(run, "one"),
        "RETRY_STEP": world.retry_step(run, "one"),
        "CONTINUE": world.go_on(run),
    }
    assert said.keys() == commands.keys()
    for name, command in commands.items():
        if said[name] is None:
            world.recover(run, command, dry_run=True)
        else:
            assert world.refusal(run, command, dry_run=True).code == said[name]
    receipt = world.recover(run, world.resolve_step(run, "one"))
    assert [blocker["what"] for blocker in receipt["blocking"]] == ["CONTINUE"]
    assert receipt["blocking"][0]["who"] == "workflows:recover"
    assert told() == {"CONTINUE": None}


@pytest.mark.rule("REC-15")
def test_ready_commands_have_every_id_and_revision_and_leave_the_rest_open(
    world: WeaveWorld,
) -> None:
    run = reviewed(world)
    instance = world.instance(run)
    leaf = world.leaf(run, "one")
    (item,) = world.look(run).items
    for operation in item.operations:
        assert operation.command["expected_revision"] == str(instance.revision)
        for name in operation.to_fill:
            assert operation.command[name] is None
        assert all(
            value is not None
            for name, value in operation.command.items()
            if name not in operation.to_fill
        )
    retry = next(o for o in item.operations if o.operation == "RETRY_STEP")
    assert retry.command["activation_id"] == leaf.id
    assert retry.command["expected_step_revision"] == str(leaf.revision)


@pytest.mark.case("B167")
def test_a_stop_outlives_any_review_outcome(world: WeaveWorld) -> None:
    run = reviewed(world)
    world.control(run, ControlVerb.CANCEL)
    assert world.refusal(run, world.retry_step(run, "one")).code == "STOP_REQUESTED"
    world.recover(run, world.resolve_step(run, "one"))
    assert world.recover(run, world.go_on(run))["state_after"] == "CANCELLING"
    world.settle()
    assert world.instance(run).state is InstanceState.CANCELLED
