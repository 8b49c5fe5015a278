"""Pruning: ended instances leave nothing but a tombstone, and their keys never start again."""

import pytest

from pulseweave.core.weave.states import InstanceState
from pulseweave.kernel.errors import Rejected
from pulseweave.store import schema as t
from pulseweave.txn.weave.prune import Pruned, prune
from tests.pulse.world import failed, succeeded, unknown
from tests.weave.world import WeaveWorld, task

DAY_MS = 24 * 3600 * 1000
#: What stays: who may do what, definitions, the streams' heads, audits and receipts.
STAYS = {
    "applications", "credential_queues", "credentials", "cursors", "definitions",
    "execution_audit", "namespaces", "operations", "queues", "result_partitions", "stripes",
    "tombstones", "workflow_audit",
}  # fmt: skip


def ended(world: WeaveWorld, key: str = "k") -> str:
    run = world.begin(key, [1, 2])
    while world.instance(run).state is InstanceState.RUNNING:
        world.signal(run, "go", key=world.key()) if world.armed(run) else world.work(limit=5)
        world.settle()
    return run


@pytest.fixture
def varied(world: WeaveWorld) -> WeaveWorld:
    """A definition with every kind of row."""
    body = [task("one", on_failure="ignore")]
    each = {"map": "all", "items": "${input}", "steps": body}
    world.define({"signal": "go"}, {"timer": "nap", "for": "0s"}, each)
    return world


@pytest.mark.rule("WEA-18")
def test_all_rows_go_together_and_a_tombstone_stays(varied: WeaveWorld) -> None:
    world = varied
    run = ended(world)
    assert world.counts()["activations"] == 4
    world.pass_ms(DAY_MS - 1)
    assert prune(world.database, retention_ms=DAY_MS) == Pruned()
    world.pass_ms(2)
    while prune(world.database, retention_ms=DAY_MS).more:
        pass
    left = {name for name, count in world.counts().items() if count}
    assert left <= STAYS, left - STAYS
    assert world.counts()["tombstones"] == 1
    assert world.findings() == []
    for look in (world.look, lambda run: world.signal(run, "go")):
        with pytest.raises(Rejected, match="INSTANCE_PRUNED") as refused:
            look(run)
        assert refused.value.rule == "WEA-18"


@pytest.mark.rule("WEA-18", "WEA-3")
def test_a_pruned_key_never_starts_again(varied: WeaveWorld) -> None:
    world = varied
    run = ended(world)
    world.pass_ms(DAY_MS + 1)
    prune(world.database, retention_ms=DAY_MS)
    answer = world.try_begin("k", [1, 2])
    assert isinstance(answer, Rejected)
    assert (answer.code, answer.detail["instance_id"]) == ("INSTANCE_PRUNED", run)
    assert world.begin("another", [1, 2])


@pytest.mark.rule("WEA-18", "WEA-15")
def test_nothing_open_is_pruned_and_nothing_that_is_still_told_of(world: WeaveWorld) -> None:
    world.define(task("one", max_attempts=2, on_failure="review"))
    running, review, told_of = (world.begin(key) for key in ("running", "review", "told"))
    leases = {world.detail(lease.task_id).task.instance_id: lease for lease in world.claim(3)}
    for lease in leases.values():
        world.start(lease)
    world.report(leases[review], failed("NO", retryable=False))
    world.report(leases[told_of], unknown())
    world.settle()
    world.recover(told_of, world.review_task(told_of, "one"))
    world.settle()
    world.recover(told_of, world.resolve_step(told_of, "one"))
    world.recover(told_of, world.go_on(told_of))
    world.settle()
    assert world.instance(told_of).state is InstanceState.SUCCEEDED
    world.pass_ms(DAY_MS + 1)
    world.report(leases[told_of], failed("LATE", retryable=False))
    assert prune(world.database, retention_ms=DAY_MS).instances == 0
    world.settle()
    assert world.instance(told_of).contradicted
    assert prune(world.database, retention_ms=DAY_MS).instances == 1
    assert {world.instance(run).state for run in (running, review)} <= {
        InstanceState.RUNNING,
        InstanceState.NEEDS_REVIEW,
    }
    world.report(leases[told_of], succeeded(1))
    assert world.findings() == []


@pytest.mark.rule("PUL-11", "WEA-18")
def test_a_stream_loses_only_its_beginning_and_goes_on_without_a_gap(world: WeaveWorld) -> None:
    world.define(task("one"))
    first = world.begin("first")
    world.work()
    world.pass_ms(DAY_MS + 1)
    second = world.begin("second")
    world.work()
    assert prune(world.database, retention_ms=DAY_MS) == Pruned(instances=1, events=1)
    assert [event.instance_id for event in world.rows(t.result_events)] == [second]
    pruned = {row.id: row.pruned_seq for row in world.rows(t.result_partitions)}
    assert max(pruned.values()) == 1
    assert first not in {row.instance_id for row in world.rows(t.inbox)}
    world.begin("third")
    world.work()
    assert world.findings() == []


@pytest.mark.rule("WEA-18")
def test_the_engine_prunes_by_its_retention(varied: WeaveWorld) -> None:
    world = varied
    ended(world)
    world.pass_ms(DAY_MS + 1)
    assert not world.steps.prune()
    world.steps = type(world.steps)(world.database, world.ids, world.entropy, DAY_MS)
    assert world.steps.prune()
    assert world.counts()["instances"] == 0
