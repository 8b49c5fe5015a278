"""Clusters at the provider: made once, PENDING as long as planned, failing on request; and the
definition that asks for them.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx2
import pytest

from examples.provider.client import Provider, ProviderFailed, ProviderRefused
from examples.provider.process import REPOSITORY, ProviderProcess
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.core.weave.definition.mapping import Classification
from pulseweave.core.weave.definition.model import (
    Definition,
    MapNode,
    OnExhausted,
    OnFailure,
    PollNode,
    SignalNode,
    TaskNode,
)
from pulseweave.wire import sources
from tests.servers.process import dying_with_parent

_numbers = count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    ledger = tmp_path_factory.mktemp("provisioning") / "ledger.db"
    with ProviderProcess(ledger, prefix=dying_with_parent()) as process:
        yield process


@pytest.fixture
def provider(running: ProviderProcess) -> Iterator[Provider]:
    with Provider(running.url) as client:
        yield client
        client.clear_faults()
        client.release()


@pytest.fixture
def name() -> str:
    return f"c-{next(_numbers)}"


def cluster_of(provider: Provider, name: str) -> str:
    found: str = provider.request_cluster(name, key=name)["cluster_id"]
    return found


def asked(provider: Provider, cluster: str, times: int) -> list[str]:
    return [provider.status(cluster)["status"] for _ in range(times)]


def test_a_cluster_is_made_once_for_a_key(provider: Provider, name: str) -> None:
    assert cluster_of(provider, name) == cluster_of(provider, name)
    assert [e["kind"] for e in provider.effects(order_id=name)] == ["cluster"]
    assert len(provider.requests(kind="cluster", order_id=name)) == 2


@pytest.mark.parametrize("end", ["READY", "BROKEN"])
def test_a_status_is_pending_so_often_and_then_what_was_planned(
    provider: Provider, name: str, end: str
) -> None:
    provider.plan(order_id=name, pending=2, end=end)
    cluster = cluster_of(provider, name)
    assert asked(provider, cluster, 4) == ["PENDING", "PENDING", end, end]
    other = cluster_of(provider, f"other-{name}")
    assert asked(provider, other, 2) == ["PENDING", "READY"], "the plan of all others"


def test_the_latest_plan_counts_for_clusters_that_are_there(provider: Provider, name: str) -> None:
    provider.plan(order_id=name, pending=1000)
    cluster = cluster_of(provider, name)
    assert asked(provider, cluster, 2) == ["PENDING", "PENDING"]
    provider.plan(order_id=name, pending=0)
    assert asked(provider, cluster, 1) == ["READY"]


@pytest.mark.parametrize(
    ("mode", "raised", "after"),
    [
        ("refuse", ProviderRefused, "PENDING"),
        ("error_before", ProviderFailed, "PENDING"),
        ("error_after", ProviderFailed, "READY"),
    ],
)
def test_a_question_that_was_not_taken_does_not_count(
    provider: Provider, name: str, mode: str, raised: type[Exception], after: str
) -> None:
    cluster = cluster_of(provider, name)
    provider.set_fault("status", mode, order_id=name, times=1)
    with pytest.raises(raised):
        provider.status(cluster)
    assert provider.status(cluster)["status"] == after
    faults = [request["fault"] for request in provider.requests(kind="status", order_id=name)]
    assert faults == [mode, None]


def test_a_cluster_that_is_not_there_has_no_status(provider: Provider) -> None:
    with pytest.raises(ProviderRefused, match="there is no cluster with the id cluster_0"):
        provider.status("cluster_0")


def test_each_machine_is_configured_once_for_its_key(provider: Provider, name: str) -> None:
    for machine in ("m-1", "m-2", "m-1"):
        provider.configure(name, machine, key=f"{name}/{machine}")
    machines = [effect["machine"] for effect in provider.effects(order_id=name)]
    assert machines == ["m-1", "m-2"]
    with pytest.raises(ProviderRefused, match="key_reused"):
        provider.configure(name, "m-3", key=f"{name}/m-1")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"pending": -1}, "pending is an integer from 0"),
        ({"end": "DONE"}, "end is one of READY, BROKEN"),
        ({"often": 2}, "there is no field 'often'"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(
    running: ProviderProcess, body: dict[str, object], told: str
) -> None:
    with httpx2.Client(base_url=running.url) as http:
        answer = http.post("/plans", json=body)
        plans = http.get("/plans").json()["plans"]
    assert answer.status_code == 400
    assert told in answer.json()["message"]
    assert plans[-1] == {"order_id": None, "pending": 1, "end": "READY"}


def definition(example: str) -> Definition:
    path: Path = REPOSITORY / "examples" / example / f"{example}.yaml"
    return compile_definition(sources.parse(path.read_bytes()).value)


def test_the_definition_of_provisioning_says_what_its_readme_promises() -> None:
    found = definition("provisioning")
    poll = found.leaves["ready"]
    assert isinstance(poll, PollNode)
    assert (poll.interval_ms, poll.max_rounds, poll.query_deadline_ms) == (1000, 3, 3_600_000)
    assert poll.on_exhausted is OnExhausted.REVIEW
    assert poll.final_signal is not None
    assert poll.final_signal.name == "cluster-ready"
    meanings = {word: poll.mapping.classify({"status": word}) for word in ("PENDING", "READY")}
    assert meanings == {"PENDING": Classification.PENDING, "READY": Classification.SUCCEEDED}
    assert poll.mapping.classify({"status": "BROKEN"}) is Classification.FAILED
    assert poll.mapping.classify({"status": "?"}) is None
    [fan_out] = [node for node in found.root.children if isinstance(node, MapNode)]
    assert fan_out.max_concurrency == 5
    tasks = [leaf for leaf in found.leaves.values() if isinstance(leaf, TaskNode)]
    assert {leaf.effect for leaf in tasks} == {Effect.IDEMPOTENT}


def test_the_definition_of_a_transfer_says_what_its_readme_promises() -> None:
    found = definition("transfer")
    approval, transfer = found.leaves["approval"], found.leaves["transfer"]
    assert isinstance(approval, SignalNode)
    assert isinstance(transfer, TaskNode)
    assert (approval.timeout_ms, approval.on_timeout) == (172_800_000, OnFailure.FAIL)
    contract = approval.output_contract
    assert contract is not None
    assert contract.check({"approved_by": "ann", "amount": 1}) == []
    assert [v.pointer for v in contract.check({"approved_by": "", "amount": 1})] == ["/approved_by"]
    assert contract.check({"approved_by": "ann"}) != []
    assert transfer.effect is Effect.AT_MOST_ONCE
    notify = found.leaves["notify"]
    assert isinstance(notify, TaskNode)
    assert notify.on_failure is OnFailure.IGNORE
