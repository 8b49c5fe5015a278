"""A database that is away, and answers that are lost: the same request again settles it (REC-3)."""

import pytest

from tests.api.faults import answer_lost_at, database_away
from tests.api.happy import DISTINCT, HAPPY
from tests.api.world import BY_KEY, ApiWorld, Asked

WRITING = [key for key in DISTINCT if BY_KEY[key].method != "GET"]
#: What makes a new thing each time it is asked: nothing names what a lost answer made.
NAMELESS = {"POST /tokens", "POST /worker/turn"}


@pytest.mark.parametrize("key", [key for key in WRITING if key not in NAMELESS])
def test_a_database_that_is_away_costs_nothing(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    world.core.forget_beliefs()
    with database_away(world):
        answer = world.send(asked)
    assert (answer.status, answer.code) == (503, "DATABASE_UNAVAILABLE"), answer.text
    assert world.send(asked).code is None
    assert world.findings() == []


@pytest.mark.rule("REC-3", "REC-7")
@pytest.mark.parametrize("key", WRITING)
def test_lost_before_the_commit_took_the_same_request_does_it(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    before = world.everything()
    with answer_lost_at("unit.before_commit"):
        answer = world.send(asked)
    assert (answer.status, answer.code) == (503, "OUTCOME_UNKNOWN")
    assert "SAME key" in answer["needed"]
    assert world.everything() == before
    assert world.send(asked).code is None
    assert world.findings() == []


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("key", [key for key in WRITING if key not in NAMELESS])
def test_lost_behind_the_commit_the_same_request_only_answers(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    with answer_lost_at("unit.after_commit"):
        assert world.send(asked).code == "OUTCOME_UNKNOWN"
    after = world.everything()
    answer = world.send(asked)
    assert answer.code is None, answer.text
    if BY_KEY[key].keyed:
        assert world.everything() == after
    assert world.send(asked).text == answer.text
    assert world.findings() == []


def test_what_a_lost_claim_took_comes_back(world: ApiWorld) -> None:
    """Nobody knows the leases of a claim whose answer was lost; they end by themselves."""
    made = world.create_task()
    asked = Asked(
        method="POST",
        path="/worker/turn",
        body={"worker": "w", "claim": {"queues": ["q"], "limit": 1}},
    )
    with answer_lost_at("unit.after_commit"):
        assert world.send(asked).code == "OUTCOME_UNKNOWN"
    assert world.task(made["id"])["state"] == "LEASED"
    world.pass_ms(60_000)
    world.settle()
    world.pass_ms(60_000)
    world.settle()
    lease = world.running()
    assert lease["task_id"] == made["id"]
    assert world.task(made["id"])["attempt_count"] == 1
