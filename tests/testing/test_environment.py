"""``pulseweave.testing`` as its users use it: definitions, handlers, recovery, and no sleeping."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pulseweave import Context, TaskFailed, Worker
from pulseweave.sdk.client import Client
from pulseweave.testing import WorkflowEnvironment

WHY: dict[str, Any] = {"reason": "looked at the provider", "evidence_ref": "provider:1"}


@pytest.fixture
def env() -> Iterator[WorkflowEnvironment]:
    with WorkflowEnvironment() as made:
        yield made


def document(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "flow", "version": 1, "steps": list(steps), **more}


def task(key: str, **more: Any) -> dict[str, Any]:
    return {"task": key, "queue": "q", "handler": f"do.{key}", **more}


def test_a_worker_s_handlers_run_and_pass_values_on(env: WorkflowEnvironment) -> None:
    worker = Worker(Client("http://127.0.0.1:1", "none"), queues=["q"])

    @worker.handler("do.double")
    def double(_: Context, value: int) -> int:
        return 2 * value

    @worker.handler("do.tell")
    async def tell(ctx: Context, value: int) -> str:
        return f"{value} at attempt {ctx.attempt}"

    env.use(worker)
    steps = (
        task("double", input="${input.n}"),
        task("tell", input="${steps.double.output}"),
    )
    env.client.definitions.put(document(*steps))
    run = env.client.instances.start("flow", key="k", input={"n": 21})
    env.run()
    assert run.detail().output == "42 at attempt 1"
    assert env.calls == {"do.double": 1, "do.tell": 1}


def test_an_outcome_is_lost_and_a_person_recovers_it(env: WorkflowEnvironment) -> None:
    env.handler("do.charge")(lambda _ctx, _input: {"receipt": 7})
    env.client.definitions.put(document(task("charge")))
    env.lose_outcome("do.charge")
    run = env.client.instances.start("flow", key="k", input={})
    env.run()
    (item,) = run.detail().reviews
    assert item.cause == "OUTCOME_UNKNOWN"
    assert env.calls["do.charge"] == 1
    told: dict[str, Any] = {
        "verdict": "SUCCEEDED",
        "result": {"receipt": 7},
        "execution_settled": True,
    }
    commands = {op.operation: op.command for op in item.operations}
    review: dict[str, Any] = {k: v for k, v in commands["REVIEW_TASK"].items() if v is not None}
    env.client.recovery.review_task(run.id, **review, **WHY, **told)
    env.run()
    (item,) = run.detail().reviews
    resolve = next(o.command for o in item.operations if o.operation == "RESOLVE_STEP")
    given: dict[str, Any] = {k: v for k, v in resolve.items() if v is not None}
    env.client.recovery.resolve_step(run.id, **given, **WHY, **told)
    revision = run.detail().revision
    env.client.recovery.continue_instance(
        run.id, expected_revision=revision, **WHY, review_resolved=True
    )
    env.run()
    assert run.detail().state == "SUCCEEDED"
    assert env.calls["do.charge"] == 1


def test_a_worker_that_dies_before_the_effect_has_not_called(env: WorkflowEnvironment) -> None:
    env.handler("do.charge")(lambda _ctx, _input: 1)
    env.client.definitions.put(document(task("charge", effect="idempotent", max_attempts=2)))
    env.die_before_effect("do.charge")
    run = env.client.instances.start("flow", key="k", input={})
    assert env.run_until_ended(run.id) == "SUCCEEDED"
    assert env.calls["do.charge"] == 1
    assert run.detail().tasks[0].attempt_count == 2


def test_time_passes_in_the_order_of_what_falls_due(env: WorkflowEnvironment) -> None:
    seen: list[tuple[str, str]] = []

    def note(ctx: Context, _: Any) -> None:
        seen.append((ctx.handler, env.now))

    for key in ("first", "second"):
        env.handler(f"do.{key}")(note)
    branches = {
        "a": [{"timer": "long", "for": "2h"}, task("second")],
        "b": [{"timer": "short", "for": "1h"}, task("first")],
    }
    env.client.definitions.put(document({"parallel": "p", "branches": branches}))
    run = env.client.instances.start("flow", key="k", input={})
    began = env.now
    env.advance("90m")
    assert [handler for handler, _ in seen] == ["do.first"]
    env.advance("30m")
    assert [handler for handler, _ in seen] == ["do.first", "do.second"]
    assert began < seen[0][1] < seen[1][1]
    assert run.detail().state == "SUCCEEDED"


def test_retries_polls_and_signals_take_their_time(env: WorkflowEnvironment) -> None:
    asked: Counter[str | None] = Counter()

    def flaky(ctx: Context, _: Any) -> str:
        if ctx.attempt < 3:
            raise TaskFailed("BUSY", retryable=True)
        return "done"

    env.handler("do.flaky")(flaky)

    @env.handler("do.ask")
    def ask(ctx: Context, _: Any) -> dict[str, str]:
        asked[ctx.instance_id] += 1
        return {"status": "READY" if asked[ctx.instance_id] == 3 else "WAIT"}

    mapping = {"path": "/status", "pending": ["WAIT"], "succeeded": ["READY"]}
    env.client.definitions.put(
        document(
            task("flaky", max_attempts=3),
            {
                "poll": "ready", "queue": "q", "handler": "do.ask", "interval": "1m",
                "max_rounds": 5, "mapping": mapping,
            },
            {"signal": "approval", "timeout": "1d", "on_timeout": "ignore"},
        )
    )  # fmt: skip
    run = env.client.instances.start("flow", key="k", input={})
    early = env.client.instances.start("flow", key="early", input={})
    env.client.instances.signal(early.id, "approval", {"by": "ann"})
    assert env.run_until_ended(early.id) == "SUCCEEDED"
    assert early.detail().output == {"by": "ann"}
    assert env.run_until_ended(run.id) == "SUCCEEDED"
    assert run.detail().output["code"] == "WAIT_TIMED_OUT"
    assert set(asked.values()) == {3}


def test_a_handler_nobody_has_leaves_its_task_waiting(env: WorkflowEnvironment) -> None:
    env.client.definitions.put(document(task("charge")))
    run = env.client.instances.start("flow", key="k", input={})
    env.run()
    assert run.detail().tasks[0].state == "QUEUED"
    env.handler("do.charge", start="manual")(lambda ctx, _input: ctx.start() and None)
    assert env.run_until_ended(run.id) == "SUCCEEDED"
