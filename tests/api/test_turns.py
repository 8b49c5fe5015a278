"""A worker's turn over HTTP: every entry answered on its own, waiting without holding anything."""

import asyncio
from typing import Any

import pytest

from pulseweave.kernel import limits
from tests.api.world import Answer, ApiWorld, Asked, task

TASK = {"queue": "q", "handler": "do"}
DONE = {"outcome": "SUCCEEDED", "result": {"ok": True}}


def entry(
    world: ApiWorld, kind: str, lease: dict[str, Any], **told: Any
) -> tuple[bool, str | None]:
    """One entry's answer: accepted or not, and its code."""
    entries: dict[str, Any] = {kind: [{**lease, **told}]}
    (answer,) = world.turn(**entries)[kind]
    return answer["accepted"], answer["code"]


@pytest.mark.rule("PUL-2", "PUL-6")
def test_every_refusal_of_an_entry(world: ApiWorld) -> None:
    world.create_task("one", effect="idempotent", max_attempts=2)
    lease = world.claim()
    wrong = {**lease, "token": "wrong"}
    assert entry(world, "reports", lease, **DONE) == (False, "NOT_STARTED")
    assert entry(world, "starts", wrong) == (False, "LEASE_LOST")
    assert entry(world, "heartbeats", wrong) == (False, "LEASE_LOST")
    assert entry(world, "starts", lease) == (True, None)
    assert entry(world, "reports", lease, **DONE) == (True, None)
    assert entry(world, "reports", lease, **DONE) == (True, None), "the same report again"
    other = {"outcome": "FAILED", "code": "NO"}
    assert entry(world, "reports", lease, **other) == (False, "REPORT_CONFLICT")
    nothing = {"task_id": "01900000-0000-7000-8000-000000000000", "token": "x"}
    for kind, told in (("reports", DONE), ("releases", {}), ("heartbeats", {}), ("starts", {})):
        assert entry(world, kind, nothing, **told) == (False, "TASK_NOT_FOUND")


@pytest.mark.rule("PUL-7")
def test_a_start_that_comes_too_late(world: ApiWorld) -> None:
    made = world.create_task("one", start_within="5s")
    lease = world.claim()
    world.pass_ms(5_000)
    assert entry(world, "starts", lease) == (False, "START_REFUSED")
    seen = world.task(made["id"])
    assert (seen["state"], seen["settled_code"]) == ("FAILED", "START_EXPIRED")


@pytest.mark.rule("WEA-6")
def test_a_start_behind_a_closed_gate(world: ApiWorld) -> None:
    world.flow()
    instance_id = world.begin()
    lease = world.claim()
    body = {"expected_control_revision": "1"}
    world.done(world.post(f"/instances/{instance_id}/pause", body, key=world.new_key()))
    assert entry(world, "starts", lease) == (False, "GATE_CLOSED")


@pytest.mark.rule("PUL-6")
def test_a_report_with_a_lost_lease_is_kept(world: ApiWorld) -> None:
    made = world.create_task("one")
    lease = world.running()
    world.pass_ms(60_000)
    world.settle()
    (answer,) = world.turn(reports=[{**lease, **DONE}])["reports"]
    assert (answer["accepted"], answer["code"]) == (False, "LEASE_LOST")
    (kept,) = world.task(made["id"])["late_reports"]
    assert kept["id"] == answer["late_report_id"]
    (again,) = world.turn(reports=[{**lease, **DONE}])["reports"]
    assert again == answer
    assert len(world.task(made["id"])["late_reports"]) == 1


def test_one_turn_does_all_in_its_order(world: ApiWorld) -> None:
    """Reports, releases, heartbeats, starts, then the claim; answers stand in the order asked."""
    for n in range(6):
        world.create_task(f"t{n}")
    got = world.turn(claim={"queues": ["q", "q"], "limit": 5})["claimed"]
    leases = [{"task_id": found["task_id"], "token": found["token"]} for found in got]
    world.turn(starts=leases[:3])
    answer = world.turn(
        reports=[{**leases[0], **DONE}, {**leases[1], "outcome": "FAILED", "code": "NO"}],
        heartbeats=[leases[2]],
        starts=[leases[3]],
        releases=[leases[4]],
        claim={"queues": ["q"], "limit": 10},
    )
    assert [one["task_id"] for one in answer["reports"]] == [one["task_id"] for one in leases[:2]]
    assert [one["state"] for one in answer["reports"]] == ["SUCCEEDED", "FAILED"]
    assert answer["heartbeats"][0]["lease_ms"] == limits.LEASE_DEFAULT_MS
    assert answer["starts"][0]["attempt"] == 1
    assert answer["releases"][0]["state"] == "QUEUED"
    assert len(answer["claimed"]) == 1


def test_a_turn_is_bounded(world: ApiWorld) -> None:
    nothing = {"task_id": "01900000-0000-7000-8000-000000000000", "token": "x"}
    most = [nothing] * limits.TURN_ENTRIES_MAX
    assert len(world.turn(heartbeats=most)["heartbeats"]) == limits.TURN_ENTRIES_MAX
    one_more = {"worker": "w", "heartbeats": most, "starts": [nothing]}
    assert world.post("/worker/turn", one_more).code == "INVALID_COMMAND"
    for claim, pointer in (
        ({"queues": ["q"], "limit": limits.CLAIM_TASKS_MAX + 1}, "/claim/limit"),
        ({"queues": [f"q{n}" for n in range(65)], "limit": 1}, "/claim/queues"),
    ):
        answer = world.post("/worker/turn", {"worker": "w", "claim": claim})
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", pointer)


def waiting(queue: str = "q", **told: Any) -> Asked:
    """A turn that waits for work, longer than this test may take."""
    claim = {"queues": [queue], "limit": 1}
    body = {"worker": "w", "claim": claim, "wait_ms": 60_000, **told}
    return Asked(method="POST", path="/worker/turn", body=body)


def test_a_waiting_turn_holds_no_thread_and_hears_of_work(world: ApiWorld) -> None:
    """More turns wait than there are threads, and other requests are answered beside them."""
    world.flow()
    turns = world.server.assembly.api.state.api.pool._max_workers * 4

    async def all_together() -> list[Answer]:
        waiters = [asyncio.ensure_future(world.sending(waiting())) for _ in range(turns)]
        for n in range(turns):
            body = {"definition": "flow", "instance_key": f"k{n}"}
            answer = await world.sending(Asked(method="POST", path="/instances", body=body))
            assert answer.status == 201
        return await asyncio.gather(*waiters)

    answers = world.server.runner.run(all_together())
    claimed = [found["task_id"] for answer in answers for found in answer["claimed"]]
    assert len(set(claimed)) == len(claimed) == turns


def test_a_turn_that_has_told_something_does_not_wait(world: ApiWorld) -> None:
    world.create_task("one")
    lease = world.running()
    asked = waiting(heartbeats=[lease])
    assert world.done(world.send(asked))["heartbeats"][0]["accepted"]
    asked = waiting(reports=[{**lease, **DONE}])
    assert world.done(world.send(asked))["reports"][0]["accepted"]


def test_a_wait_ends_when_it_is_over(world: ApiWorld) -> None:
    answer = world.send(waiting().but_body(wait_ms=1))
    assert answer["claimed"] == []


def test_a_wait_hears_only_of_its_own_namespace(world: ApiWorld) -> None:
    """A task of the same queue elsewhere is nobody's here."""
    foreign = Asked(
        method="POST", path="/tasks", body={**TASK, "task_key": "t"}, token=world.foreigner
    )

    async def both() -> Answer:
        waiter = asyncio.ensure_future(world.sending(waiting()))
        assert (await world.sending(foreign)).status == 201
        mine = foreign.but(token=world.token)
        made = await world.sending(mine)
        answer = await waiter
        assert [found["task_id"] for found in answer["claimed"]] == [made["id"]]
        return answer

    world.server.runner.run(both())


def test_claimed_tasks_tell_what_a_worker_needs(world: ApiWorld) -> None:
    step = task("a", effect="idempotent", max_attempts=3, lease="45s", business_key="order-1")
    world.flow(step, deadline="1h")
    instance_id = world.begin(value={"n": 1})
    (found,) = world.turn(claim={"queues": ["q"], "limit": 1})["claimed"]
    assert (found["handler"], found["effect"], found["attempt"]) == ("do.a", "idempotent", 1)
    assert (found["max_attempts"], found["lease_ms"]) == (3, 45_000)
    assert found["start_within_ms"] == limits.UNSTARTED_LEASE_MS
    assert (found["instance_id"], found["business_key"]) == (instance_id, "order-1")
    assert found["deadline_at"] == world.look(instance_id)["deadline_at"]


def test_a_queue_that_is_named_twice_is_waited_for_once(world: ApiWorld) -> None:
    answer = world.send(waiting().but_body(claim={"queues": ["q", "q"], "limit": 1}, wait_ms=1))
    assert world.done(answer)["claimed"] == []


def test_a_wait_ends_with_its_token(world: ApiWorld) -> None:
    """What is revoked while it waits gets no work that comes later."""
    token = world.make_token("worker")
    told = world.done(world.get("/me", token=token))
    revoke = Asked(method="POST", path=f"/tokens/{told['credential_id']}/revoke")
    create = Asked(method="POST", path="/tasks", body={**TASK, "task_key": "t"})

    async def both() -> Answer:
        waiter = asyncio.ensure_future(world.sending(waiting().but(token=token)))
        assert (await world.sending(revoke)).status == 200
        made = await world.sending(create)
        answer = await waiter
        seen = await world.sending(Asked(method="GET", path=f"/tasks/{made['id']}"))
        assert seen["state"] == "QUEUED"
        return answer

    assert world.server.runner.run(both()).code == "UNAUTHENTICATED"
