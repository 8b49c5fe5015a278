"""Addresses, methods and faults: each answer is a problem of the same form."""

import logging

import pytest

from pulseweave.api.asgi import bearer
from pulseweave.api.problems import MEDIA_TYPE
from pulseweave.kernel import canonical, points
from tests.api.happy import HAPPY
from tests.api.world import BY_KEY, ApiWorld


def ask(world: ApiWorld, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """A request to any address."""
    headers = {"Authorization": f"Bearer {world.token}"}
    got = world.server.runner.run(world.server.http.request(method, path, headers=headers))
    return got.status_code, dict(got.headers), got.content


def test_an_unknown_address(world: ApiWorld) -> None:
    for path in (
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v2/me",
        "/v1/me/",
        "/v1/instances/a/b",
        "/%00",
    ):
        status, headers, content = ask(world, "GET", path)
        assert (status, headers["content-type"]) == (404, MEDIA_TYPE), path
        assert canonical.parse(content)["code"] == "NOT_FOUND"


def test_a_method_that_the_address_does_not_know(world: ApiWorld) -> None:
    for method, path, allowed in (
        ("DELETE", "/v1/me", {"GET", "HEAD"}),
        ("GET", "/v1/worker/turn", {"POST"}),
        ("POST", "/v1/queues/q", {"PUT"}),
        ("PATCH", "/v1/instances", {"GET", "HEAD", "POST"}),
        ("OPTIONS", "/v1/me", {"GET", "HEAD"}),
    ):
        status, headers, content = ask(world, method, path)
        assert (status, headers["content-type"]) == (405, MEDIA_TYPE), path
        assert canonical.parse(content)["code"] == "METHOD_NOT_ALLOWED"
        assert set(headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("key", [key for key, e in BY_KEY.items() if e.method == "GET"])
def test_head_is_answered_as_get_is(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    path = f"/v1{asked.path}"
    head, got = ask(world, "HEAD", path), ask(world, "GET", path)
    assert (head[0], head[1]) == (got[0], got[1])


def test_a_fault_is_logged_and_not_told(world: ApiWorld, caplog: pytest.LogCaptureFixture) -> None:
    """The answer has an id by which the log tells the rest."""

    def fail(name: str) -> None:
        if name == "unit.after_begin":
            raise RuntimeError("the password is swordfish")

    made = world.server.http.request(
        "POST",
        "/v1/tasks",
        content=b'{"queue": "q", "handler": "do", "task_key": "t"}',
        headers={"Authorization": f"Bearer {world.token}"},
    )
    world.get("/me")
    points.install(fail)
    try:
        with caplog.at_level(logging.ERROR, "pulseweave.api"):
            got = world.server.runner.run(made)
    finally:
        points.install(None)
    problem = canonical.parse(got.content)
    assert (got.status_code, problem["code"]) == (500, "INTERNAL")
    assert "swordfish" not in got.text
    assert problem["facts"]["request_id"] in caplog.text
    assert "swordfish" in caplog.text
    assert world.findings() == []


def test_how_a_token_is_carried() -> None:
    assert bearer("Bearer abc") == bearer("bearer  abc ") == "abc"
    assert bearer("Basic abc") is None
    assert bearer(None) is None
    assert not bearer("Bearer")


def test_what_a_client_sent_is_told_safely(world: ApiWorld) -> None:
    """Lone surrogates and control characters in what is quoted make no answer unwritable."""
    odd = "\ud800\0\u2028😀"
    body = {"name": "n", "permissions": [odd]}
    answer = world.post("/tokens", body)
    assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/permissions")
    document = {"name": "flow", "version": 1, "steps": [{"task": odd, odd: odd}]}
    answer = world.put("/definitions/flow/versions/1", {"document": document})
    assert answer.code == "DEFINITION_INVALID"
    assert any(
        odd in problem["message"] or odd in problem["pointer"] for problem in answer["problems"]
    )
