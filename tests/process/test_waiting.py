"""What people do when a question failed, when no answer came in time, and when a wait got lost."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from examples.provider.process import REPOSITORY
from pulseweave.store import schema as t
from pulseweave.store.engine import open_database
from pulseweave.wire import sources
from pulseweave.wire.workflows import ActivationView, InstanceDetail, RoundView, WaitView
from tests.conftest import ENGINES
from tests.process.conftest import database_of
from tests.process.scene import KILLED, WAIT_S, Scene

MACHINES = ["m-1", "m-2", "m-3"]
LOOK_MS = 200
NAP = {"name": "nap", "version": 1, "deadline": "1h", "steps": [{"timer": "nap", "for": "3s"}]}


class Waiting(Scene):
    """A scene for clusters and transfers, on a database of its own: some of its rows get lost."""

    def __init__(self, folder: Path, database: str | None) -> None:
        super().__init__(folder, database, settings={"WEAVE_LOST_WAITS_REST_MS": str(LOOK_MS)})
        self.lost: list[str] = []
        for name in ("provisioning", "transfer"):
            text = (REPOSITORY / "examples" / name / f"{name}.yaml").read_text(encoding="utf-8")
            self.client.definitions.put(sources.parse(text).value)
        self.client.definitions.put(NAP)

    def work_on(self, example: str, *, die_at: str = "") -> None:
        """A worker for one of the examples."""
        self.processes.handlers = f"examples.{example}.handlers:worker"
        self.processes.start_worker(die_at=die_at)

    def provision(self, cluster: str, *, pending: int) -> str:
        """Ask for a cluster whose status is PENDING so often; the instance."""
        self.provider.plan(order_id=cluster, pending=pending)
        value = {"cluster": cluster, "machines": MACHINES, "production": True}
        return self.client.instances.start("provisioning", key=cluster, input=value).id

    def transfer(self, name: str) -> str:
        value = {"transfer": name, "amount": 100, "currency": "EUR"}
        return self.client.instances.start("transfer", key=name, input=value).id

    def approve(self, run: str, name: str) -> Any:
        payload = {"approved_by": "ann", "amount": 100}
        return self.client.instances.signal(run, "approval", payload, correlation=name)

    def leaf(self, run: str, step: str) -> ActivationView:
        """The step's current activation."""
        return next(a for a in self.get(run).activations if a.step_key == step and a.current)

    def armed(self, run: str) -> list[WaitView]:
        return [wait for wait in self.get(run).waits if wait.state == "ARMED"]

    def until_review(self, run: str, cause: str) -> InstanceDetail:
        self.until_state(run, "NEEDS_REVIEW")
        detail = self.get(run)
        assert [a.review_cause for a in detail.activations if a.review_cause] == [cause]
        return detail

    def lose(self, wait: WaitView) -> None:
        """The row is closed and nobody knows why, as after a faulty restore."""
        database = open_database(self.processes.database)
        with database.writer.begin() as connection:
            rows = t.waits.c
            lost = update(t.waits).where(rows.id == wait.id).values(state="CLOSED")
            assert connection.execute(lost).rowcount == 1
        database.close()
        self.lost.append(wait.id)

    def check_rows(self) -> None:
        """The doctor finds the rows that were damaged here, for the journal has them otherwise, and
        nothing else.
        """
        told = sorted((found.rule, found.message) for found in self.findings())
        assert told == [("WEA-4", f"wait {lost} differs in state") for lost in sorted(self.lost)]

    def done(self, name: str) -> list[str]:
        """The kinds of what the provider did for this name, sorted."""
        return sorted(effect["kind"] for effect in self.provider.effects(order_id=name))

    def asked(self, cluster: str) -> int:
        """How often the provider was asked for the cluster's status."""
        return len(self.provider.requests(kind="status", order_id=cluster))


#: What the ledger holds when a cluster is done, each once.
CLUSTER = ["cluster", *["configuration"] * len(MACHINES), "monitor"]


@pytest.fixture(scope="module", params=ENGINES)
def waiting_stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Waiting]:
    with database_of(request, "waiting") as database:
        made = Waiting(tmp_path_factory.mktemp(f"waiting-{request.param}"), database)
        yield made
        made.close()


@pytest.fixture
def scene(waiting_stage: Waiting) -> Iterator[Waiting]:
    yield waiting_stage
    waiting_stage.clear()


def seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def told(rounds: list[RoundView]) -> list[tuple[int, str | None]]:
    return [(one.round, one.classification) for one in rounds]


@pytest.mark.rule("S3", "RET-9", "RET-4")
def test_a_question_that_failed_is_asked_again_in_its_round(scene: Waiting) -> None:
    [cluster] = scene.names(1)
    scene.provider.set_fault("status", "refuse", order_id=cluster, times=1)
    run = scene.provision(cluster, pending=1)
    scene.work_on("provisioning")
    before = scene.until_review(run, "FAILED")
    first = before.tasks[-1]
    command = scene.command(run, "RETRY_STEP")
    receipt = scene.client.recovery.retry_step(run, **command, safe_to_retry=True)
    assert receipt.details["max_attempts"] == 1, "what is left of the round's two"
    again = scene.get(run).tasks[-1]
    assert (again.retry_of, again.deadline_at, again.holds) == (
        first.id,
        first.deadline_at,
        ["GATE"],
    )
    assert told(scene.get(run).rounds) == [(1, None), (1, None)]
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    after = scene.get(run)
    assert told(after.rounds) == [(1, None), (1, "PENDING"), (2, "SUCCEEDED")]
    [opened] = [wait for wait in after.waits if wait.kind == "ROUND"]
    answered = after.rounds[1].answered_at
    assert answered is not None
    assert opened.due_at is not None
    assert seconds(opened.due_at) - seconds(answered) == pytest.approx(1)
    assert scene.asked(cluster) == 3
    assert scene.done(cluster) == CLUSTER
    scene.check_rows()
    assert scene.accepted(run) == ["RETRY_STEP", "CONTINUE"]


@pytest.mark.rule("S4", "RES-2", "RES-3")
def test_a_person_ends_a_poll_whose_rounds_are_used_up(scene: Waiting) -> None:
    [cluster] = scene.names(1)
    run = scene.provision(cluster, pending=3)
    scene.work_on("provisioning")
    before = scene.until_review(run, "ROUNDS_EXHAUSTED")
    assert told(before.rounds) == [(1, "PENDING"), (2, "PENDING"), (3, "PENDING")]
    assert {task.state for task in before.tasks} == {"SUCCEEDED"}
    [effect] = scene.provider.effects(kind="cluster", order_id=cluster)
    answer = scene.provider.status(effect["id"])
    assert answer["status"] == "READY"
    command = scene.command(run, "RESOLVE_STEP")
    scene.client.recovery.resolve_step(
        run, **command, verdict="SUCCEEDED", execution_settled=True, result=answer
    )
    assert scene.state(run) == "NEEDS_REVIEW", "only Continue leaves the review"
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    assert scene.get(run).rounds == before.rounds
    assert scene.asked(cluster) == 4, "three rounds, and the person"
    assert scene.done(cluster) == CLUSTER
    scene.check_rows()
    assert scene.accepted(run) == ["RESOLVE_STEP", "CONTINUE"]


@pytest.mark.rule("S6", "CPO-1", "REV-3", "PUL-3")
def test_a_question_without_an_answer_is_verified_pending_and_the_next_round_asks(
    scene: Waiting,
) -> None:
    """Twice the worker dies after it was told PENDING: both attempts of the round are used up."""
    [cluster] = scene.names(1)
    run = scene.provision(cluster, pending=2)
    for point in ("worker.after_effect:2", "worker.after_effect"):
        scene.work_on("provisioning", die_at=point)
        assert scene.processes.worker_has_died(WAIT_S) == KILLED
    scene.work_on("provisioning")
    before = scene.until_review(run, "OUTCOME_UNKNOWN")
    query = scene.task(run, "machines.status")
    assert [attempt.outcome for attempt in query.attempts] == ["UNKNOWN", "UNKNOWN"]
    assert told(before.rounds) == [(1, None)]
    pending = {"cluster_id": query.input["cluster_id"], "status": "PENDING"}
    recovery = scene.client.recovery
    command = scene.command(run, "REVIEW_TASK")
    recovery.review_task(
        run, **command, verdict="SUCCEEDED", execution_settled=True, result=pending
    )
    command = scene.command(run, "CONTINUE_POLL")
    receipt = recovery.continue_poll(run, **command, pending_confirmed=True)
    assert receipt.state_after == "NEEDS_REVIEW"
    assert told(scene.get(run).rounds) == [(1, "PENDING")]
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    assert told(scene.get(run).rounds) == [(1, "PENDING"), (2, "SUCCEEDED")]
    assert scene.asked(cluster) == 3
    assert scene.done(cluster) == CLUSTER
    scene.check_rows()
    assert scene.accepted(run) == ["REVIEW_TASK", "CONTINUE_POLL", "CONTINUE"]


@pytest.mark.rule("S6", "WEA-11", "WEA-19", "REA-1")
def test_lost_waits_are_found_and_armed_again(scene: Waiting) -> None:
    """An approval that comes after the recovery, one that comes before it and is not lost with its
    wait, and a timer, which fires at its original time.
    """
    later, kept, nap = scene.names(3)
    runs = {later: scene.transfer(later), kept: scene.transfer(kept)}
    scene.work_on("transfer")
    waiting = list(runs.values())
    scene.until(lambda: all(scene.armed(run) for run in waiting), "the waits for the approvals")
    runs[nap] = scene.client.instances.start("nap", key=nap, input={}).id
    first = {name: scene.armed(run)[0] for name, run in runs.items()}
    for wait in first.values():
        scene.lose(wait)
    for run in runs.values():
        scene.until_review(run, "WAIT_LOST")
    assert scene.approve(runs[kept], kept).taken_by is None
    for name, run in runs.items():
        command = scene.command(run, "REARM_WAIT")
        receipt = scene.client.recovery.rearm_wait(run, **command, wait_verified=True)
        assert receipt.state_after == "NEEDS_REVIEW"
        again = scene.get(run).waits[-1]
        assert (again.generation, again.due_at) == (2, first[name].due_at)
        assert again.deadline_at == first[name].deadline_at
        scene.go_on(run)
    assert scene.approve(runs[later], later).taken_by == scene.get(runs[later]).waits[-1].id
    for name, run in runs.items():
        scene.until_state(run, "SUCCEEDED")
        end = "FIRED" if name == nap else "TAKEN"
        assert [wait.state for wait in scene.get(run).waits] == ["CLOSED", end]
        assert scene.accepted(run) == ["REARM_WAIT", "CONTINUE"]
    for name in (later, kept):
        assert scene.done(name) == ["notification", "reservation", "transfer"]
    ended, due = scene.leaf(runs[nap], "nap").settled_at, first[nap].due_at
    assert ended is not None
    assert due is not None
    assert ended >= due
    scene.check_rows()
