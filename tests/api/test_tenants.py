"""Two namespaces on one server: nothing of one is seen, moved or in the way of the other."""

from urllib.parse import quote

import pytest

from pulseweave.wire.recovery import Receipt
from tests.api.happy import HAPPY
from tests.api.world import BY_KEY, WHY, ApiWorld, task

READING = [key for key, endpoint in BY_KEY.items() if endpoint.method == "GET"]
KEYED = [key for key, endpoint in BY_KEY.items() if endpoint.answer is Receipt]


def fill(world: ApiWorld) -> None:
    """Something of everything: instances in review, late reports, audits, tokens, limits."""
    world.flow(task("a", max_attempts=2), name="secret")
    for n in range(3):
        instance_id = world.begin(f"secret-{n}", name="secret")
        lease = world.work({"outcome": "UNKNOWN", "detail": "secret"})
        world.report(lease, {"outcome": "SUCCEEDED", "result": "secret"})
        world.done(world.send(world.ready(instance_id, "review-task")))
        world.settle()
    world.create_task("secret", input="secret")
    world.done(world.put("/queues/secret", {"max_running": 1}))
    world.done(world.put("/applications/secret", {"max_open_tasks": 5}))
    world.make_token("secret")


@pytest.mark.rule("REC-1")
def test_lists_show_nothing_of_the_other(world: ApiWorld) -> None:
    fill(world)
    before = world.everything()
    paths = [key.removeprefix("GET ") for key in READING if "{" not in key]
    paths.remove("/tasks/events")
    mine = world.done(world.get("/me"))
    partition = next(
        p for p in mine["partitions"] if world.get(f"/tasks/events?partition={p}")["items"]
    )
    (some_task, *_) = world.get(f"/tasks/events?partition={partition}")["items"]
    paths += [
        f"/tasks/events?partition={partition}",
        "/instances?definition=secret",
        "/instances?instance_key=secret-1",
        "/instances?in_review=true",
        f"/audit?task_id={some_task['task_id']}",
    ]
    ids = {str(row[0]) for rows in before.values() for row in rows if len(str(row[0])) == 36}
    ids -= {world.get("/me", token=world.foreigner)["credential_id"]}
    own = {item["id"] for item in world.get("/audit", token=world.foreigner)["items"]}
    for path in paths:
        text = world.get(path, token=world.foreigner).text
        assert "secret" not in text, path
        assert not [i for i in ids - own if i in text], path
    assert world.everything() == before


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize("path", ["/instances", "/definitions", "/audit", "/reviews"])
def test_a_cursor_of_the_other_shows_only_ones_own(each_world: ApiWorld, path: str) -> None:
    fill(each_world)
    page = each_world.done(each_world.get(f"{path}?limit=1"))
    cursor = page["cursor"] or "W10"
    answer = each_world.get(f"{path}?cursor={quote(cursor)}", token=each_world.foreigner)
    assert answer.code in (None, "INVALID_COMMAND")
    assert "secret" not in answer.text


@pytest.mark.rule("REC-1", "REC-3")
@pytest.mark.parametrize("key", KEYED)
def test_keys_of_the_other_are_free(world: ApiWorld, key: str) -> None:
    """The same idempotency key, and the same names, in both: neither hears of the other."""
    asked = HAPPY[key](world)
    first = world.done(world.send(asked))
    mine, world.token = world.token, world.foreigner
    again = HAPPY[key](world).but(key=asked.key)
    other = world.done(world.send(again))
    made = "operation_id" if "operation_id" in first else "id"
    assert other[made] != first[made]
    assert world.done(world.send(asked.but(token=mine)))[made] == first[made]
    assert world.done(world.send(again))[made] == other[made]


@pytest.mark.rule("REC-9")
def test_a_late_report_of_the_other_is_no_evidence(world: ApiWorld) -> None:
    made = world.create_task("one")
    lease = world.running()
    world.report(lease, {"outcome": "UNKNOWN"})
    world.report(lease, {"outcome": "SUCCEEDED", "result": "secret"})
    (late,) = world.task(made["id"])["late_reports"]
    world.token = world.foreigner
    mine = world.create_task("one")
    assert mine["id"] != made["id"], "the same key in another namespace"
    world.work({"outcome": "UNKNOWN"})
    body = {
        **WHY,
        "expected_task_revision": world.task(mine["id"])["revision"],
        "execution_settled": True,
        "verdict": "SUCCEEDED",
        "late_report_id": late["id"],
    }
    answer = world.post(f"/tasks/{mine['id']}/review", body, key="k")
    assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/late_report_id")
    assert "secret" not in answer.text


def test_limits_of_the_other_are_its_own(world: ApiWorld) -> None:
    """Queues and applications have the same names and nothing in common."""
    world.done(world.put("/queues/q", {"paused": True, "max_open": 1}))
    world.done(world.put("/applications/default", {"max_open_tasks": 1}))
    world.create_task("one")
    body = {"queue": "q", "handler": "do", "task_key": "two"}
    assert world.post("/tasks", body).code == "QUOTA_EXCEEDED"
    world.token = world.foreigner
    for n in range(3):
        world.create_task(f"t{n}")
    assert len(world.turn(claim={"queues": ["q"], "limit": 5})["claimed"]) == 3
