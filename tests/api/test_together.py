"""The same request many times at once: one does it, all get its answer, on every database."""

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

import pytest

from pulseweave.core.weave.states import InstanceState
from tests.api.happy import HAPPY
from tests.api.world import Answer, ApiWorld, Asked

AT_ONCE = 6
COMMANDS = [
    "POST /instances/{instance_id}/recovery/review-task",
    "POST /instances/{instance_id}/recovery/retry-step",
    "POST /instances/{instance_id}/cancel",
    "POST /tasks/{task_id}/review",
    "POST /tasks/{task_id}/declare-lost",
]


def send_all(world: ApiWorld, asked: Sequence[Asked]) -> list[Answer]:
    """All under way together."""

    async def together() -> list[Answer]:
        return await asyncio.gather(*(world.sending(one) for one in asked))

    return world.server.runner.run(together())


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("key", COMMANDS)
def test_one_key_does_it_once(each_world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](each_world)
    answers = send_all(each_world, [asked] * AT_ONCE)
    texts = {answer.text for answer in answers}
    assert len(texts) == 1, texts
    assert answers[0].code is None, answers[0].text
    (row,) = [r for r in each_world.everything()["operations"] if r[1] == asked.key]
    assert row[2] == answers[0]["operation_id"]
    assert each_world.findings() == []


@pytest.mark.rule("REC-3", "REC-12")
@pytest.mark.parametrize("key", COMMANDS[:3])
def test_of_many_keys_one_does_it(each_world: ApiWorld, key: str) -> None:
    """Several people decide at once: the first decision stands, the others hear of it."""
    asked = HAPPY[key](each_world)
    answers = send_all(each_world, [asked.but(key=f"person-{n}") for n in range(AT_ONCE)])
    accepted = [answer for answer in answers if answer.code is None]
    assert len(accepted) == 1
    refused = {answer.code for answer in answers if answer.code is not None}
    assert refused <= {"REVISION_CONFLICT", "CONTROL_REVISION_CONFLICT"}
    assert each_world.findings() == []


@pytest.mark.rule("WEA-3")
def test_one_start_makes_one_instance(each_world: ApiWorld) -> None:
    each_world.flow()
    asked = Asked(
        method="POST", path="/instances", body={"definition": "flow", "instance_key": "k"}
    )
    answers = send_all(each_world, [asked] * AT_ONCE)
    assert sorted(answer.status for answer in answers) == [200] * (AT_ONCE - 1) + [201]
    assert len({answer["id"] for answer in answers}) == 1
    assert len(each_world.look(answers[0]["id"])["tasks"]) == 1
    other = asked.but_body(input={"n": 2})
    codes = {answer.code for answer in send_all(each_world, [asked, other] * 2)}
    assert codes == {None, "INSTANCE_KEY_CONFLICT"}


def test_one_task_key_makes_one_task(each_world: ApiWorld) -> None:
    asked = HAPPY["POST /tasks"](each_world)
    answers = send_all(each_world, [asked] * AT_ONCE)
    assert sorted(answer.status for answer in answers) == [200] * (AT_ONCE - 1) + [201]
    assert len({answer["id"] for answer in answers}) == 1


@pytest.mark.rule("WEA-1")
def test_one_registration_stands(each_world: ApiWorld) -> None:
    asked = HAPPY["PUT /definitions/{name}/versions/{version}"](each_world)
    answers = send_all(each_world, [asked] * AT_ONCE)
    assert sorted(answer.status for answer in answers) == [200] * (AT_ONCE - 1) + [201]
    assert len({answer["id"] for answer in answers}) == 1


@pytest.mark.rule("PUL-2")
def test_no_task_is_claimed_twice(each_world: ApiWorld) -> None:
    for n in range(AT_ONCE):
        each_world.create_task(f"t{n}")
    body = {"worker": "w", "claim": {"queues": ["q"], "limit": 3}}
    asked = Asked(method="POST", path="/worker/claim", body=body)
    claimed = [t["task_id"] for a in send_all(each_world, [asked] * AT_ONCE) for t in a["claimed"]]
    assert len(claimed) == len(set(claimed)) == AT_ONCE


def test_every_page_size_gives_every_row_once(each_world: ApiWorld) -> None:
    """Rows that came into being at the same instant, too."""
    each_world.flow()
    starts = [{"definition": "flow", "instance_key": f"k{n}"} for n in range(40)]
    each_world.done(each_world.post("/instances:batch", {"instances": starts}))
    whole = [item["id"] for item in each_world.done(each_world.get("/instances"))["items"]]
    assert len(set(whole)) == 40
    for size in (3, 7, 40):
        found: list[str] = []
        cursor = ""
        while True:
            path = f"/instances?state={InstanceState.RUNNING}&limit={size}{cursor}"
            page = each_world.done(each_world.get(path))
            found += [item["id"] for item in page["items"]]
            if page["cursor"] is None:
                break
            cursor = f"&cursor={page['cursor']}"
        assert found == whole


def test_filters_are_literal(each_world: ApiWorld) -> None:
    """No pattern, no folding of case, on any database."""
    each_world.flow()
    keys = ["a_b", "axb", "a%b", "a\\b", "A_B", "[ab]", "ab*", "100%", "ß", "ss", "é", "e\u0301"]
    for key in keys:
        each_world.begin(key)
    for key in keys:
        found = each_world.done(each_world.get(f"/instances?instance_key={quote(key)}"))["items"]
        assert [item["instance_key"] for item in found] == [key]
    for key in ("%", "_", "a", "a_", "*", "É"):
        found = each_world.done(each_world.get(f"/instances?instance_key={quote(key)}"))["items"]
        assert found == []
