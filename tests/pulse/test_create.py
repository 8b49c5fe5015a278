"""Stand-alone tasks: idempotent by key; quotas exact, and refused without a trace."""

from functools import partial
from typing import Any

import pytest

from pulseweave.core.pulse.policy import Effect
from pulseweave.kernel.errors import QuotaExceeded, Rejected
from pulseweave.store import schema as t
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.pulse.create import create_task
from tests.pulse.threads import together
from tests.pulse.world import World, succeeded


def test_the_same_key_and_order_give_the_same_task(world: World) -> None:
    order = world.order(task_key="order-1", value={"id": 1}, deadline_ms=60_000)
    first, created = create_task(world.database, order, principal=world.principal, ids=world.ids)
    world.pass_ms(5_000)
    again, again_created = create_task(
        world.database, order, principal=world.principal, ids=world.ids
    )
    assert (created, again_created) == (True, False)
    assert again.task == first.task
    assert len(world.rows(t.tasks)) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"value": {"id": 2}},
        {"queue": "other"},
        {"handler": "other"},
        {"priority": 1},
        {"effect": Effect.NONE},
        {"max_attempts": 7},
        {"deadline_ms": 1_000},
        {"concurrency_key": "k"},
        {"business_key": "b"},
    ],
)
def test_the_same_key_for_another_order_conflicts(world: World, other: dict[str, Any]) -> None:
    task_id = world.create(task_key="order-1", value={"id": 1})
    with pytest.raises(Rejected) as refusal:
        world.create(task_key="order-1", **{"value": {"id": 1}, **other})
    assert refusal.value.code == "IDEMPOTENCY_CONFLICT"
    assert refusal.value.detail["task_id"] == task_id


def test_keys_belong_to_a_namespace(world: World) -> None:
    create_namespace(world.database, "another")
    there = world.credential("there", namespace="another")
    here_id = world.create(task_key="order-1")
    there_id = world.create(there, task_key="order-1", value=2)
    assert here_id != there_id
    assert world.claim(5, principal=there) != []
    assert [lease.task_id for lease in world.claim(5)] == [here_id]


def test_one_key_from_many_threads_makes_one_task(real_world: World) -> None:
    world = real_world
    order = world.order(task_key="order-1")
    answers = together(
        [lambda: create_task(world.database, order, principal=world.principal, ids=world.ids)] * 8
    )
    assert len({detail.task.id for detail, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1


@pytest.mark.rule("PUL-12")
@pytest.mark.parametrize("owner", ["application", "queue"])
def test_a_full_quota_refuses_and_leaves_nothing_behind(world: World, owner: str) -> None:
    if owner == "application":
        world.application(max_open_tasks=2)
    else:
        world.queue(max_open=2)
    for _ in range(2):
        world.create()
    tables = (t.tasks, t.task_specs, t.result_events)
    before = [world.rows(table) for table in tables]
    with pytest.raises(QuotaExceeded) as refusal:
        world.create(task_key="refused")
    assert refusal.value.code == "QUOTA_EXCEEDED"
    assert owner in refusal.value.message
    assert [world.rows(table) for table in tables] == before
    lease = world.running()
    with pytest.raises(QuotaExceeded):
        world.create(task_key="refused")
    world.report(lease, succeeded())
    world.create(task_key="refused")


@pytest.mark.rule("PUL-12")
def test_a_quota_counts_its_own_application_alone(world: World) -> None:
    world.application(max_open_tasks=1)
    world.create()
    neighbour = world.credential("neighbour", application="neighbour")
    world.create(neighbour)
    with pytest.raises(QuotaExceeded):
        world.create()


@pytest.mark.rule("PUL-12")
def test_an_old_key_is_answered_even_when_the_quota_is_full(world: World) -> None:
    world.application(max_open_tasks=1)
    task_id = world.create(task_key="order-1")
    assert world.create(task_key="order-1") == task_id


@pytest.mark.rule("PUL-12")
@pytest.mark.parametrize("owner", ["application", "queue"])
def test_quotas_are_exact_under_eight_threads(real_world: World, owner: str) -> None:
    world, room = real_world, 21
    if owner == "application":
        world.application(max_open_tasks=room)
    else:
        world.queue(max_open=room)
    orders = [world.order() for _ in range(40)]

    def create(own: list[Any]) -> tuple[int, int]:
        made = refused = 0
        for order in own:
            try:
                create_task(world.database, order, principal=world.principal, ids=world.ids)
                made += 1
            except QuotaExceeded:
                refused += 1
        return made, refused

    counts = together([partial(create, orders[n::8]) for n in range(8)])
    assert sum(made for made, _ in counts) == room
    assert sum(refused for _, refused in counts) == 40 - room
    assert len(world.rows(t.tasks)) == len(world.rows(t.task_specs)) == room


@pytest.mark.rule("PUL-9", "PUL-12")
def test_max_running_is_exact_under_eight_threads(real_world: World) -> None:
    world = real_world
    world.queue(max_running=5)
    for _ in range(40):
        world.create()
    answers = together([lambda: world.claim(3)] * 8)
    assert sum(len(leases) for leases in answers) == 5
