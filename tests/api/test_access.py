"""Who may do what, for every endpoint of the table (REC-1).

A new endpoint without a row in ``HAPPY`` fails here.
"""

import re

import pytest

from pulseweave.app.core import CREDENTIAL_BELIEF_MS
from pulseweave.core.identity import Permission
from pulseweave.kernel import canonical
from pulseweave.txn.admin.tokens import revoke_token
from tests.api.happy import HAPPY, NAMING
from tests.api.world import BY_KEY, EVERYTHING, NOBODY, Answer, ApiWorld, Asked

GUARDED = [key for key, endpoint in BY_KEY.items() if endpoint.permission is not None]
#: What needs access to the queues that it touches.
QUEUED = [
    *(key for key in BY_KEY if "/recovery/" in key or key.startswith("POST /worker/")),
    "POST /instances/{instance_id}/acknowledge-contradiction",
    "POST /tasks",
    "POST /tasks/{task_id}/cancel",
    "POST /instances/{instance_id}/tasks/{task_id}/cancel",
    "POST /tasks/{task_id}/review",
    "POST /tasks/{task_id}/declare-lost",
]


def test_every_endpoint_has_a_request_that_succeeds() -> None:
    assert HAPPY.keys() == BY_KEY.keys()


@pytest.mark.parametrize("key", HAPPY)
def test_the_request_succeeds(each_world: ApiWorld, key: str) -> None:
    answer = each_world.send(HAPPY[key](each_world))
    assert answer.code is None, answer.text
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("key", HAPPY)
def test_without_a_valid_token_nothing_answers(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    before = world.findings()
    revoked, expiring = world.make_token("revoked"), world.make_token("old", lifetime_ms=60_000)
    told = world.done(world.get("/me", token=revoked))
    world.done(world.post(f"/tokens/{told['credential_id']}/revoke"))
    world.pass_ms(60_000)
    for token in (NOBODY, "wv_wrong", revoked, expiring):
        answer = world.send(asked.but(token=token))
        assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"] == "Bearer"
    for header in ("Basic d2VhdmU6d2VhdmU=", "Bearer", f"Token {world.token}", world.token):
        answer = world.send(asked.but(token=NOBODY, headers={"Authorization": header}))
        assert answer.code == "UNAUTHENTICATED"
    assert world.findings() == before


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize("key", GUARDED)
def test_no_other_permission_implies_the_one_that_is_needed(world: ApiWorld, key: str) -> None:
    needed = BY_KEY[key].permission
    assert needed is not None
    asked = HAPPY[key](world)
    other = world.make_token("other", permissions=EVERYTHING - {needed})
    answer = world.send(asked.but(token=other))
    assert (answer.status, answer.code) == (403, "PERMISSION_DENIED")
    assert answer["needed"] == needed.value
    assert answer["rule"] == "REC-1"
    alone = world.make_token("alone", permissions=frozenset({needed}))
    if key == "POST /tokens":  # a token gives only what it has
        asked = asked.but_body(permissions=[needed.value])
    assert world.send(asked.but(token=alone)).code is None


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize("key", sorted(NAMING))
def test_another_namespace_learns_nothing(world: ApiWorld, key: str) -> None:
    """The answer to a foreign id is that to an id that never was."""
    asked = HAPPY[key](world)
    answer = world.send(asked.but(token=world.foreigner))
    assert answer.status == 404, answer.text
    never = world.send(_made_up(asked).but(token=world.foreigner))
    assert _without_ids(never) == _without_ids(answer)
    assert world.send(asked).code is None, "and the refused attempt changed nothing"


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOTHING = "01900000-0000-7000-8000-000000000000"


def _made_up(asked: Asked) -> Asked:
    """The same request for what never was."""
    body = asked.body
    if body is not None and "instance_id" in body:
        body = {**body, "instance_id": _NOTHING}
    path = _ID.sub(_NOTHING, asked.path).replace("/definitions/flow/", "/definitions/glow/")
    return asked.but(path=path, body=body)


def _without_ids(answer: Answer) -> str:
    return _ID.sub("*", answer.text).replace("glow", "flow")


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize("key", QUEUED)
def test_queues_are_needed_too(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    answer = world.send(asked.but(token=world.make_token("elsewhere", queues=frozenset({"p"}))))
    assert (answer.status, answer.code) == (403, "QUEUE_ACCESS_DENIED"), answer.text
    assert canonical.parse(answer["needed"]) == {"queues": ["q"]}
    here = world.make_token("here", queues=frozenset({"p", "q"}))
    assert world.send(asked.but(token=here)).code is None


def test_a_lease_of_a_foreign_queue_is_not_there(world: ApiWorld) -> None:
    """Entries are answered one by one; a task that the token may not touch is unknown to it."""
    world.create_task()
    lease = world.running()
    for token in (world.make_token("w", queues=frozenset({"p"})), world.foreigner):
        told = {"outcome": "SUCCEEDED", "result": 1}
        answer = world.turn(
            token=token,
            reports=[{**lease, **told}],
            releases=[lease],
            heartbeats=[lease],
            starts=[lease],
        )
        for name in ("reports", "releases", "heartbeats", "starts"):
            (entry,) = answer[name]
            assert (entry["accepted"], entry["code"]) == (False, "TASK_NOT_FOUND")
    assert world.task(lease["task_id"])["state"] == "RUNNING"


@pytest.mark.rule("REC-1")
def test_a_revoked_token_is_felt_at_once_by_recovery(world: ApiWorld) -> None:
    """What a process believes of a token for two seconds is no authority for recovery."""
    asked = HAPPY["POST /instances/{instance_id}/recovery/retry-step"](world)
    token = world.make_token("short")
    told = world.done(world.get("/me", token=token))
    revoke_token(
        world.database, "default", told["credential_id"], actor="elsewhere", ids=world.core.ids
    )
    assert world.get("/me", token=token).code is None, "still believed"
    assert world.send(asked.but(token=token)).code == "UNAUTHENTICATED"
    world.pass_ms(CREDENTIAL_BELIEF_MS)
    assert world.get("/me", token=token).code == "UNAUTHENTICATED"


def test_a_token_gives_no_more_than_it_has(world: ApiWorld) -> None:
    narrow = world.make_token(
        "narrow",
        permissions=frozenset({Permission.ADMIN, Permission.TASKS_WORK}),
        queues=frozenset({"q"}),
    )
    fits = {"name": "new", "permissions": ["tasks:work"], "queues": ["q"]}
    for more, code in (
        ({"permissions": ["tasks:read"]}, "PERMISSION_DENIED"),
        ({"queues": ["p"]}, "QUEUE_ACCESS_DENIED"),
        ({"all_queues": True}, "QUEUE_ACCESS_DENIED"),
    ):
        assert world.post("/tokens", {**fits, **more}, token=narrow).code == code
    made = world.done(world.post("/tokens", fits, token=narrow))
    told = world.done(world.get("/me", token=made["token"]))
    assert (told["permissions"], told["queues"]) == (["tasks:work"], ["q"])
    listed = world.done(world.get("/tokens"))["items"]
    assert all(item["token"] is None for item in listed), "a token is shown once"
