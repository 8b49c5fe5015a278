"""The server is killed at every named point of its own, again and again, under work."""

import pytest

from pulseweave import Client
from pulseweave.kernel.errors import OutcomeUnknown, Unavailable
from pulseweave.kernel.points import POINTS
from tests.process.scene import BRISK, KILLED, WAIT_S, Scene

#: At which reach of its point the server dies: late enough that work is under way.
DEATHS = {
    "unit.after_begin": 9,
    "unit.after_work": 10,
    "unit.before_commit": 11,
    "unit.after_commit": 9,
    "server.after_decode": 4,
    "server.before_answer": 4,
    "engine.before_pump": 4,
    "engine.after_pump": 1,
    "engine.after_wake": 4,
    "engine.after_sweep": 3,
    "engine.after_promote": 2,
}
ORDERS_EACH = 1


def test_every_point_of_the_server_has_its_death() -> None:
    assert set(DEATHS) == {point for point in POINTS if not point.startswith("worker.")}


def start_what_can_be(impatient: Client, orders: list[str]) -> None:
    """Ask for the orders with the key that each has; the server may die under any of them."""
    for order in orders:
        value = {"order_id": order, "amount": 100, "currency": "EUR"}
        try:
            impatient.instances.start(BRISK, key=order, input=value)
        except (Unavailable, OutcomeUnknown):  # it is dead, whether or not it heard of it
            return


@pytest.mark.timeout(300)
@pytest.mark.rule("PUL-3", "WEA-3", "REC-7")
@pytest.mark.case("B011")
def test_a_server_that_dies_loses_nothing_and_repeats_nothing(scene: Scene) -> None:
    """After each death nothing in the database contradicts itself; in the end every order was
    charged at most once, and ended, or waits for a person because its charge's outcome got lost.
    """
    scene.processes.start_worker()
    worker = scene.processes.worker_pid
    scene.processes.close_server()
    orders: list[str] = []
    for point, reach in DEATHS.items():
        new = scene.names(ORDERS_EACH)
        orders += new
        scene.start_doomed_server(f"{point}:{reach}")
        with Client(scene.processes.url, scene.processes.token, tries=1) as impatient:
            start_what_can_be(impatient, new)
        assert scene.processes.server_has_died(WAIT_S) == KILLED, point
        assert scene.findings() == [], point
    scene.processes.start_server()
    runs = {order: scene.start(order) for order in orders}
    assert len(set(runs.values())) == len(orders)
    for order, run in runs.items():
        scene.end_well(run, order)
    assert scene.processes.worker_pid == worker, "the worker went on by itself"
    scene.check(*orders)
    for order, run in runs.items():
        views_agree(scene, order, run)


def views_agree(scene: Scene, order: str, run: str) -> None:
    """List, detail, steps and the journal's last word on an ended instance; no revision is
    missing.
    """
    detail = scene.get(run)
    [listed] = scene.client.instances.list(instance_key=order)
    assert listed.state == detail.state == detail.steps.state == "SUCCEEDED"
    journal = sorted(scene.client.instances.history(run), key=lambda entry: int(entry.revision))
    assert [int(entry.revision) for entry in journal] == list(range(1, int(detail.revision) + 1))
    told = [
        change["set"]["state"]
        for entry in journal
        for change in entry.changes
        if change["row"] == "instance" and "state" in change["set"]
    ]
    assert told[-1] == detail.state
    assert told.count("SUCCEEDED") == 1
