"""The worker against a whole server: what handlers do, and what the server is told of it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulseweave import Cancelled, Client, Context, StartRefused, Task, TaskFailed, Worker, Workflow
from pulseweave.wire.workflows import InstanceDetail

Make = Callable[..., Worker]


def one_step(client: Client, value: Any = None, **more: Any) -> str:
    """An instance of one step ``do`` in queue ``q``; its id."""
    step = Task("one", queue="q", handler="do", input={"x": "${input.x}"}, **more)
    client.definitions.put(Workflow("flow", version=1, steps=[step]))
    return client.instances.start("flow", key="k", input={"x": value}).id


def ended(client: Client, instance_id: str) -> InstanceDetail:
    run = next(iter(client.instances.list(instance_key="k")))
    assert run.id == instance_id
    from pulseweave.sdk.client import Run

    return Run(client, run).wait(20)


@pytest.mark.rule("PUL-4")
def test_sync_and_async_handlers_return_results_exactly(client: Client, worker: Make) -> None:
    value = {"big": 2**70, "nul": "\0", "lone": "\ud800", "float": 1.0, "man": "👨"}
    made = worker()

    @made.handler("do")
    async def do(ctx: Context, given: Any) -> Any:
        await asyncio.to_thread(lambda: None)
        return {"echo": given["x"], "attempt": ctx.attempt}

    run = one_step(client, value)
    made.start()
    detail = ended(client, run)
    assert detail.state == "SUCCEEDED"
    assert detail.output == {"echo": value, "attempt": 1}
    assert type(detail.output["echo"]["float"]) is float


@pytest.mark.rule("PUL-4")
def test_a_known_failure_is_told_as_such(client: Client, worker: Make) -> None:
    made = worker()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        raise TaskFailed("REFUSED", "no money", details={"limit": 5})

    run = one_step(client)
    made.start()
    detail = ended(client, run)
    assert detail.state == "FAILED"
    assert detail.error["code"] == "REFUSED"
    assert detail.tasks[0].attempts[0].error == {"message": "no money", "details": {"limit": 5}}


@pytest.mark.rule("PUL-4", "PUL-3")
@pytest.mark.parametrize(
    "fault",
    [ValueError("who knows"), KeyError("\ud800\0"), SystemExit(3)],
    ids=["value", "text", "exit"],
)
@pytest.mark.case("B088")
def test_any_other_exception_is_an_unknown_outcome(
    client: Client, worker: Make, fault: BaseException
) -> None:
    made = worker()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        raise fault

    run = one_step(client)
    made.start()
    detail = ended(client, run)
    assert detail.state == "NEEDS_REVIEW"
    attempt = detail.tasks[0].attempts[0]
    assert attempt.outcome == "UNKNOWN"
    assert attempt.error["ended"] is True
    assert type(fault).__name__ in attempt.error["message"]


@pytest.mark.parametrize("result", [{"a": {1, 2}}, {"a": float("nan")}, b"x", "x" * 1_100_000])
def test_a_result_that_can_not_be_told_is_an_unknown_outcome(
    client: Client, worker: Make, result: Any
) -> None:
    made = worker()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        return result

    run = one_step(client)
    made.start()
    detail = ended(client, run)
    assert detail.state == "NEEDS_REVIEW"
    assert len(detail.tasks[0].attempts) == 1


@pytest.mark.rule("PUL-4")
def test_before_a_manual_start_an_exception_uses_no_attempt(client: Client, worker: Make) -> None:
    made = worker()
    calls: list[int] = []

    @made.handler("do", start="manual")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("could not even prepare")
        ctx.start()
        return "done"

    run = one_step(client)
    made.start()
    detail = ended(client, run)
    assert detail.state == "SUCCEEDED"
    assert (detail.tasks[0].attempt_count, detail.tasks[0].unstarted_losses) == (1, 1)


@pytest.mark.rule("PUL-8", "PUL-4")
def test_cancel_reaches_the_handler_and_its_word_decides(client: Client, worker: Make) -> None:
    made = worker()
    inside = threading.Event()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        inside.set()
        assert ctx.cancel_requested.wait(20)
        raise Cancelled

    run = one_step(client, lease="2s")
    made.start()
    assert inside.wait(20)
    seen = client.instances.get(run)
    client.instances.cancel(run, expected_control_revision=seen.control_revision)
    detail = ended(client, run)
    assert detail.state == "CANCELLED"
    assert detail.tasks[0].attempts[0].outcome == "CANCELLED"


def test_a_long_handler_keeps_its_lease(client: Client, worker: Make) -> None:
    made = worker()
    waited = threading.Event()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        assert not waited.wait(3)  # three leases long
        return ctx.lease_remaining_ms > 0

    run = one_step(client, lease="1s")
    made.start()
    detail = ended(client, run)
    assert (detail.state, detail.output) == ("SUCCEEDED", True)
    assert detail.tasks[0].attempt_count == 1


@pytest.mark.rule("PUL-14")
def test_a_drain_finishes_what_runs_and_claims_no_more(client: Client, worker: Make) -> None:
    made = worker(concurrency=1)
    inside, leave = threading.Event(), threading.Event()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        inside.set()
        leave.wait(20)
        return "finished"

    run = one_step(client)
    made.start()
    assert inside.wait(20)
    client.tasks.create(queue="q", handler="do", task_key="later")
    summaries: list[Any] = []
    drain = threading.Thread(target=lambda: summaries.append(made.drain(20)))
    drain.start()
    leave.set()
    drain.join()
    assert (summaries[0].abandoned, summaries[0].exit_code) == ([], 0)
    assert ended(client, run).output == "finished"
    later = next(q for q in client.admin.queues() if q.name == "q")
    assert (later.queued + later.leased, later.running) == (1, 0)


@pytest.mark.rule("PUL-14")
def test_a_drain_that_runs_out_of_time_tells_what_it_abandons(client: Client, worker: Make) -> None:
    made = worker()
    inside, leave = threading.Event(), threading.Event()

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        inside.set()
        leave.wait(30)

    run = one_step(client)
    made.start()
    assert inside.wait(20)
    summary = made.drain(0.1)
    leave.set()
    assert summary.exit_code == 1
    detail = ended(client, run)
    assert detail.state == "NEEDS_REVIEW"
    assert summary.abandoned == [detail.tasks[0].id]
    assert detail.tasks[0].attempts[0].error["ended"] is False


@pytest.mark.rule("PUL-14", "PUL-6")
def test_the_spool_outlives_a_worker_that_could_not_report(
    client: Client, worker: Make, tmp_path: Path
) -> None:
    made = worker(spool=tmp_path / "spool")

    @made.handler("do")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        return {"charge": 1}

    run = one_step(client, lease="1s")
    deaf = Deaf(client)
    first = Worker(deaf, ["q"], claim_wait=0.2, spool=tmp_path / "spool")  # type: ignore[arg-type]
    first.handler("do")(do)
    first.start()
    detail = ended(client, run)  # its lease ran out: nobody could know
    assert detail.state == "NEEDS_REVIEW"
    deaf.hung.set()
    first.drain(0)
    assert list((tmp_path / "spool").glob("*.json"))
    made.start()
    waited = threading.Event()
    for _ in range(200):
        detail = client.instances.get(run)
        if detail.tasks[0].late_reports:
            break
        waited.wait(0.05)
    assert detail.tasks[0].late_reports[0].result == {"charge": 1}
    assert detail.state == "NEEDS_REVIEW"
    assert not list((tmp_path / "spool").glob("*.json"))


class Deaf:
    """A client whose reports and heartbeats never arrive."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.hung = threading.Event()

    def do(self, call: Any, **more: Any) -> Any:
        from pulseweave import Unavailable

        if call.body.reports or call.body.heartbeats:
            self.hung.wait(30)
            raise Unavailable("cut off")
        return self._client.do(call, **more)


def test_a_handler_nobody_has_goes_back(client: Client, worker: Make) -> None:
    made = worker()

    @made.handler("other")
    def other(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        return None

    one_step(client)
    made.start()
    waited = threading.Event()
    seen: list[tuple[int, int]] = []
    while (1, 0) not in seen and len(seen) < 100:
        queue = client.admin.queues()[0]
        seen.append((queue.queued, queue.running))
        waited.wait(0.05)
    assert seen[-1] == (1, 0)


def test_a_refused_start_reaches_a_manual_handler(client: Client, worker: Make) -> None:
    made = worker()
    inside, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    @made.handler("do", start="manual")
    def do(ctx: Context, given: Any) -> Any:  # noqa: ARG001
        inside.set()
        go_on.wait(20)
        try:
            ctx.start()
        except StartRefused as refused:
            seen.append(refused.code)
            raise

    run = one_step(client)
    made.start()
    assert inside.wait(20)
    before = client.instances.get(run)
    client.instances.cancel(run, expected_control_revision=before.control_revision)
    go_on.set()
    assert ended(client, run).state == "CANCELLED"
    assert made.drain(10).abandoned == []
    assert seen == ["LEASE_LOST"]
