"""Names that fit no column are refused at the door with their place, alike on every database.

A name of the greatest length is taken, in characters of four bytes too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from pulseweave.kernel import limits
from pulseweave.kernel.errors import InvalidCommand
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token
from tests.api.world import ApiWorld, Asked, task

Ask = Callable[[str], Asked]


@dataclass(frozen=True, slots=True)
class Door:
    """A place where a name comes in. ``ask`` gives the request for a name."""

    pointer: str
    chars_max: int
    ask: Ask


def _post(path: str, body: Callable[[str], dict[str, Any]]) -> Ask:
    return lambda name: Asked(method="POST", path=path, body=body(name))


def _start(**told: str) -> dict[str, Any]:
    return {"definition": "flow", "instance_key": "k", **told}


def _task(**told: str) -> dict[str, Any]:
    return {"queue": "q", "handler": "do", "task_key": "t", **told}


def _claim(name: str) -> dict[str, Any]:
    return {"worker": "w", "claim": {"queues": ["q", name], "limit": 1}}


def _in_path(method: str, path: str, rest: str = "") -> Ask:
    body: dict[str, Any] | None = {} if method == "PUT" else None
    return lambda name: Asked(method=method, path=f"{path}{quote(name, safe='')}{rest}", body=body)


#: Names in bodies may have any character that JSON can write; those in addresses no lone surrogate.
IN_BODIES: dict[str, Door] = {
    "queue of a task": Door("/queue", 128, _post("/tasks", lambda n: _task(queue=n))),
    "handler": Door("/handler", 200, _post("/tasks", lambda n: _task(handler=n))),
    "task key": Door("/task_key", 200, _post("/tasks", lambda n: _task(task_key=n))),
    "definition": Door("/definition", 128, _post("/instances", lambda n: _start(definition=n))),
    "instance key": Door(
        "/instance_key", 200, _post("/instances", lambda n: _start(instance_key=n))
    ),
    "definition in a batch": Door(
        "/instances/0/definition",
        128,
        _post("/instances:batch", lambda n: {"instances": [_start(definition=n)]}),
    ),
    "instance key in a batch": Door(
        "/instances/0/instance_key",
        200,
        _post("/instances:batch", lambda n: {"instances": [_start(instance_key=n)]}),
    ),
    "queue of a claim": Door("/claim/queues/1", 128, _post("/worker/turn", _claim)),
    "token": Door("/name", 200, _post("/tokens", lambda n: {"name": n, "permissions": []})),
    "application of a token": Door(
        "/application",
        64,
        _post("/tokens", lambda n: {"name": "n", "permissions": [], "application": n}),
    ),
    "queue of a token": Door(
        "/queues/0",
        128,
        _post("/tokens", lambda n: {"name": "n", "permissions": [], "queues": [n]}),
    ),
}
IN_ADDRESSES: dict[str, Door] = {
    "queue": Door("/queue", 128, _in_path("PUT", "/queues/")),
    "application": Door("/application", 64, _in_path("PUT", "/applications/")),
    "definition's address": Door("/name", 128, _in_path("GET", "/definitions/", "/versions/1")),
    "definition filter": Door("/definition", 128, _in_path("GET", "/instances?definition=")),
    "key filter": Door("/instance_key", 200, _in_path("GET", "/instances?instance_key=")),
}
DOORS = {**IN_BODIES, **IN_ADDRESSES}


def wrong_names(door: Door) -> Sequence[str]:
    """Names that the door must refuse."""
    wrong = ["x" * (door.chars_max + 1), "😀" * (door.chars_max + 1)]
    wrong += ["a\0b", " a", "a\t", "a\x7f", "a\n", "\u3000a"]
    return [*wrong, "", "\ud800", "a\udfff"] if door in IN_BODIES.values() else wrong


def test_a_name_must_fit(each_world: ApiWorld) -> None:
    world = each_world
    world.flow()
    before = world.everything()
    for door in DOORS.values():
        for name in wrong_names(door):
            answer = world.send(door.ask(name))
            told = (answer.status, answer.code, answer["pointer"])
            assert told == (422, "INVALID_COMMAND", door.pointer), repr(name)
    assert world.everything() == before


def test_the_longest_name_fits(each_world: ApiWorld) -> None:
    """It is taken, or there is no such thing; and names that differ in little are two."""
    each_world.flow()
    for door in DOORS.values():
        for name in ("😀" * door.chars_max, "😁" * door.chars_max, "a b'\"\\%_é", "A B'\"\\%_é"):
            answer = each_world.send(door.ask(name))
            taken = answer.code in (None, "DEFINITION_NOT_FOUND", "IDEMPOTENCY_CONFLICT")
            assert taken, (door, answer.text)
    assert each_world.findings() == []


def test_names_are_what_was_given_in_the_address(each_world: ApiWorld) -> None:
    """Decoded once, compared byte by byte."""
    names = ["50%25", "50%", "a+b", "a b", "É", "é", "e\u0301", "?#&="]
    for name in names:
        each_world.done(each_world.put(f"/queues/{quote(name, safe='')}", {"max_running": 1}))
    listed = [item["name"] for item in each_world.done(each_world.get("/queues"))["items"]]
    assert sorted(listed) == sorted(names)


@pytest.mark.rule("WEA-1")
def test_names_in_a_definition_must_fit(each_world: ApiWorld) -> None:
    world = each_world
    doors: dict[str, tuple[int, Callable[[str], dict[str, Any]]]] = {
        "/name": (128, lambda n: {**_flow(task("a")), "name": n}),
        "/steps/0/task": (128, lambda n: _flow(task(n))),
        "/steps/0/queue": (128, lambda n: _flow(task("a", queue=n))),
        "/steps/0/handler": (200, lambda n: _flow(task("a", handler=n))),
    }
    for pointer, (chars_max, document) in doors.items():
        for name in ("x" * (chars_max + 1), "a\0b", "\ud800", " a", ""):
            answer = world.put("/definitions/f/versions/1", {"document": document(name)})
            assert answer.code == "DEFINITION_INVALID", answer.text
            assert pointer in [p["pointer"] for p in answer["problems"]]
    longest = "x" * 128
    step = task(longest, queue=longest, handler="x" * 200)
    world.flow(step, name=longest)
    instance_id = world.begin(name=longest, instance_key="😀" * 200)
    world.work(queue=longest)
    assert world.look(instance_id)["state"] == "SUCCEEDED"
    found = world.done(world.get(f"/definitions/{longest}/versions/1"))
    assert found["document"]["steps"] == [step]
    world.flow(task("a"), name="f", version=2**31 - 1)
    assert world.get(f"/definitions/f/versions/{2**31 - 1}").code is None
    assert world.get(f"/definitions/f/versions/{2**31}").code == "INVALID_COMMAND"
    body = {"definition": "f", "instance_key": "k", "version": 2**31}
    answer = world.post("/instances", body)
    assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/version")


def _flow(step: dict[str, Any]) -> dict[str, Any]:
    return {"name": "f", "version": 1, "steps": [step]}


def test_keys_of_work_have_a_length(each_world: ApiWorld) -> None:
    """They are stored as JSON, so any character will do."""
    for field in ("concurrency_key", "business_key"):
        answer = each_world.post("/tasks", _task(**{field: "x" * 201}))
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", f"/{field}")
        made = each_world.create_task(field, **{field: "\0\ud800" + "😀" * 198})
        assert made[field] == "\0\ud800" + "😀" * 198


def test_names_of_signals_must_fit(each_world: ApiWorld) -> None:
    """Their correlation is stored as JSON, so any character will do."""
    world = each_world
    world.flow(task("a"), {"signal": "s", "name": "x" * 128})
    path = f"/instances/{world.begin()}/signals"
    before = world.everything()
    for name in ("x" * 129, "😀" * 129, "a\0b", " a", "\ud800", ""):
        answer = world.post(path, {"name": name}, key="k")
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/name"), repr(name)
    answer = world.post(path, {"name": "a", "correlation": "x" * 201}, key="k")
    assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/correlation")
    assert world.everything() == before
    for n, name in enumerate(("x" * 128, "x" * 128)):
        body = {"name": name, "correlation": "\0\ud800" + "😀" * 198, "payload": n}
        assert world.post(path, body, key=f"{n}").status == 201


def test_a_workers_label_is_cut(each_world: ApiWorld) -> None:
    made = each_world.create_task()
    lease = each_world.claim()
    for label in ("\0\ud800" + "😀" * 500, ""):
        body = {"worker": label, "starts": [lease]}
        assert each_world.done(each_world.post("/worker/turn", body))["starts"][0]["accepted"]
    (attempt,) = each_world.task(made["id"])["attempts"]
    assert attempt["worker"] == "\0\ud800" + "😀" * 198


def test_codes_of_failures_are_cut(each_world: ApiWorld) -> None:
    made = each_world.create_task()
    told = {"outcome": "FAILED", "code": "X" * 500, "message": "m" * 10_000, "retryable": False}
    each_world.work(told)
    (attempt,) = each_world.task(made["id"])["attempts"]
    assert attempt["code"] == "X" * 64
    assert len(attempt["error"]["message"]) == limits.MESSAGE_CHARS_MAX


def test_the_operators_door_looks_too(each_world: ApiWorld) -> None:
    """Namespaces and first tokens are made without HTTP."""
    world = each_world
    for name in ("x" * 65, "", "a\0", "\ud800", "a "):
        with pytest.raises(InvalidCommand) as refused:
            create_namespace(world.database, name)
        assert refused.value.detail["pointer"] == "/namespace"
    assert create_namespace(world.database, "😀" * 64)
    for changed, pointer in (
        ({"name": "x" * 201}, "/name"),
        ({"application": "x" * 65}, "/application"),
        ({"queues": frozenset({"q", "x" * 129})}, "/queues"),
    ):
        plain: dict[str, Any] = {
            "namespace": "😀" * 64,
            "application": "default",
            "name": "first",
            "permissions": frozenset(),
            "queues": frozenset(),
            "all_queues": False,
            "lifetime_ms": None,
        }
        with pytest.raises(InvalidCommand) as refused:
            create_token(
                world.database,
                TokenOrder(**{**plain, **changed}),
                actor="operator",
                ids=world.core.ids,
                entropy=world.core.entropy,
            )
        assert refused.value.detail["pointer"] == pointer
