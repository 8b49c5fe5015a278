"""The outside provider as a real process: its ledger holds what happened, in every mode."""

import ast
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

import httpx2
import pytest

from examples.provider.client import (
    Provider,
    ProviderFailed,
    ProviderRefused,
    ProviderUnreachable,
    RequestNotSent,
)
from examples.provider.faults import Mode
from examples.provider.process import REPOSITORY, ProviderProcess
from tests.servers.process import dying_with_parent, free_port

_numbers = count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """One provider for the tests that don't end it; each has an order of its own."""
    ledger = tmp_path_factory.mktemp("provider") / "ledger.db"
    with ProviderProcess(ledger, prefix=dying_with_parent()) as process:
        yield process


@pytest.fixture
def provider(running: ProviderProcess) -> Iterator[Provider]:
    with Provider(running.url) as client:
        yield client
        client.clear_faults()
        client.release()


@pytest.fixture
def hasty(running: ProviderProcess) -> Iterator[Provider]:
    """A client that soon gives up."""
    with Provider(running.url, timeout_ms=400) as client:
        yield client


@pytest.fixture
def order() -> str:
    return f"order-{next(_numbers)}"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ProviderProcess]:
    """A provider that the test may kill; on the same port when it starts again."""
    process = ProviderProcess(tmp_path / "own.db", port=free_port(), prefix=dying_with_parent())
    with process:
        yield process


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def charge(provider: Provider, order: str, *, amount: int = 4200) -> dict[str, object]:
    return provider.charge(order, amount, "EUR", key=order)


def faults_met(provider: Provider, order: str) -> list[str | None]:
    return [request["fault"] for request in provider.requests(order_id=order)]


def effects_of(provider: Provider, order: str) -> list[str]:
    return [effect["kind"] for effect in provider.effects(order_id=order)]


# --- without faults -------------------------------------------------------------------------------


def test_a_charge_is_a_row_of_the_ledger_with_its_request(provider: Provider, order: str) -> None:
    answer = provider.charge(order, 4200, "EUR", key=order, attempt=2)
    (effect,) = provider.effects(order_id=order)
    (request,) = provider.requests(order_id=order)
    assert answer == {
        "charge_id": effect["id"],
        "order_id": order,
        "amount": 4200,
        "currency": "EUR",
        "applied_at": effect["applied_at"],
    }
    assert effect["kind"] == request["kind"] == "charge"
    assert effect["request_id"] == request["id"]
    assert effect["idempotency_key"] == request["idempotency_key"] == order
    assert effect["attempt"] == request["attempt"] == "2"
    assert request["received_at"] <= effect["applied_at"]
    assert provider.charges(order) == [answer]


def test_statuses_tell_a_new_charge_from_a_repeat(running: ProviderProcess, order: str) -> None:
    body = {"order_id": order, "amount": 1, "currency": "EUR"}
    with httpx2.Client(base_url=running.url, headers={"Idempotency-Key": order}) as http:
        first = http.post("/charges", json=body)
        repeat = http.post("/charges", json=body)
        shown = http.get(f"/charges/{first.json()['charge_id']}")
        health = http.get("/healthz")
    assert (first.status_code, repeat.status_code, shown.status_code) == (201, 200, 200)
    assert first.json() == repeat.json() == shown.json()
    assert health.json() == {"status": "ok"}


def test_one_key_applies_once_and_each_request_is_noted(provider: Provider, order: str) -> None:
    assert charge(provider, order) == charge(provider, order)
    assert effects_of(provider, order) == ["charge"]
    assert len(provider.requests(order_id=order)) == 2


def test_without_a_key_each_request_applies(provider: Provider, order: str) -> None:
    for _ in range(2):
        provider.charge(order, 4200, "EUR")
    assert effects_of(provider, order) == ["charge", "charge"]


def test_a_key_belongs_to_one_content(provider: Provider, order: str) -> None:
    charge(provider, order, amount=1)
    with pytest.raises(ProviderRefused) as refused:
        charge(provider, order, amount=2)
    assert (refused.value.status, refused.value.code) == (422, "key_reused")
    assert [effect["amount"] for effect in provider.effects(order_id=order)] == [1]


def test_eight_at_once_with_one_key_give_one_charge(
    running: ProviderProcess, provider: Provider, pool: ThreadPoolExecutor, order: str
) -> None:
    body = {"order_id": order, "amount": 1, "currency": "EUR"}
    with httpx2.Client(base_url=running.url, headers={"Idempotency-Key": order}) as http:
        answers = list(pool.map(lambda _: http.post("/charges", json=body), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["charge_id"] for answer in answers}) == 1
    assert effects_of(provider, order) == ["charge"]
    assert len(provider.requests(order_id=order)) == 8


def test_a_key_counts_within_its_kind(provider: Provider, order: str) -> None:
    charge(provider, order)
    answers = [
        provider.reserve(order, key=order),
        provider.notify(order, key=order),
        provider.ship(order, key=order),
    ]
    assert [next(iter(answer)) for answer in answers] == [
        "reservation_id",
        "notification_id",
        "shipment_id",
    ]
    provider.ship(order, key=order)
    assert effects_of(provider, order) == ["charge", "reservation", "notification", "shipment"]


def test_a_charge_is_refunded_once(provider: Provider, order: str) -> None:
    charge_id = str(charge(provider, order)["charge_id"])
    refund = provider.refund(charge_id, key="r1")
    assert (refund["charge_id"], refund["amount"]) == (charge_id, 4200)
    assert provider.refund(charge_id, key="r1") == refund
    with pytest.raises(ProviderRefused, match="409 already_refunded"):
        provider.refund(charge_id, key="r2")
    with pytest.raises(ProviderRefused, match="404 not_found"):
        provider.refund("charge_0")
    assert effects_of(provider, order) == ["charge", "refund"]


def test_totals_are_by_kind_and_by_order(own: ProviderProcess) -> None:
    with Provider(own.url) as provider:
        provider.charge("a", 100, "EUR")
        provider.charge("a", 50, "USD")
        provider.charge("b", 7, "EUR")
        provider.ship("b")
        ledger = provider.ledger()
    shipment = {"count": 1, "amounts": {}}
    assert ledger == {
        "kinds": {
            "charge": {"count": 3, "amounts": {"EUR": 107, "USD": 50}},
            "shipment": shipment,
        },
        "orders": {
            "a": {"charge": {"count": 2, "amounts": {"EUR": 100, "USD": 50}}},
            "b": {"charge": {"count": 1, "amounts": {"EUR": 7}}, "shipment": shipment},
        },
    }


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"amount": 1, "currency": "EUR"}', "order_id is missing"),
        ('{"order_id": "", "amount": 1, "currency": "EUR"}', "order_id is a text"),
        ('{"order_id": "\\ud800", "amount": 1, "currency": "EUR"}', "order_id is a text"),
        ('{"order_id": "x", "amount": true, "currency": "EUR"}', "amount is an integer from 1"),
        ('{"order_id": "x", "amount": 0, "currency": "EUR"}', "amount is an integer from 1"),
        ('{"order_id": "x", "amount": 1.5, "currency": "EUR"}', "amount is an integer from 1"),
        ('{"order_id": "x", "amount": 1, "currency": "euro"}', "currency is three capital letters"),
        ('{"order_id": "x", "amount": 1, "currency": "EUR", "tip": 1}', "there is no field 'tip'"),
        ("[]", "the body is a JSON object"),
        ("{", "the body is no JSON"),
    ],
)
def test_a_bad_request_is_refused_and_noted(
    running: ProviderProcess, provider: Provider, body: str, told: str
) -> None:
    effects, requests = provider.effects(), provider.requests()
    with httpx2.Client(base_url=running.url) as http:
        answer = http.post("/charges", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert told in answer.json()["message"]
    assert provider.effects() == effects
    (noted,) = provider.requests()[len(requests) :]
    assert (noted["kind"], noted["order_id"]) == ("charge", None)


def test_unknown_things_are_not_found(running: ProviderProcess) -> None:
    with httpx2.Client(base_url=running.url) as http:
        assert http.get("/charges/charge_0").status_code == 404
        answer = http.post("/gifts", json={})
        assert answer.status_code == 404
        assert "there are charges, refunds" in answer.json()["message"]


# --- each mode ------------------------------------------------------------------------------------


def test_drop_answer_applies_and_says_nothing(provider: Provider, order: str) -> None:
    provider.set_fault("charge", Mode.DROP_ANSWER, order_id=order, times=1)
    with pytest.raises(ProviderUnreachable, match="disconnected") as unknown:
        charge(provider, order)
    assert not isinstance(unknown.value, RequestNotSent)
    assert effects_of(provider, order) == ["charge"]
    assert charge(provider, order) == provider.charges(order)[0]
    assert faults_met(provider, order) == ["drop_answer", None, None]
    assert effects_of(provider, order) == ["charge"]


def test_late_answer_applies_and_answers_after_its_delay(provider: Provider, order: str) -> None:
    provider.set_fault("charge", Mode.LATE_ANSWER, order_id=order, delay_ms=50)
    asked_at = time.monotonic()
    answer = charge(provider, order)
    assert time.monotonic() - asked_at >= 0.05
    assert answer == provider.charges(order)[0]


def test_late_answer_is_lost_on_who_gives_up(
    provider: Provider, hasty: Provider, order: str
) -> None:
    provider.set_fault("charge", Mode.LATE_ANSWER, order_id=order, delay_ms=600_000)
    with pytest.raises(ProviderUnreachable, match="timed out"):
        charge(hasty, order)
    provider.wait_held(order_id=order)
    assert effects_of(provider, order) == ["charge"]
    assert provider.release(order_id=order) == 1


def test_refuse_applies_nothing_and_says_so(provider: Provider, order: str) -> None:
    provider.set_fault("charge", Mode.REFUSE, order_id=order, times=1)
    with pytest.raises(ProviderRefused) as refused:
        charge(provider, order)
    assert (refused.value.status, refused.value.code) == (402, "declined")
    assert "nothing was done" in refused.value.message
    assert effects_of(provider, order) == []
    assert faults_met(provider, order) == ["refuse"]
    charge(provider, order)
    assert effects_of(provider, order) == ["charge"]


def test_a_500_does_not_tell_whether_it_was_applied(
    running: ProviderProcess, provider: Provider, order: str
) -> None:
    body = {"order_id": order, "amount": 1, "currency": "EUR"}
    answers, counts = [], []
    with httpx2.Client(base_url=running.url) as http:
        for mode in (Mode.ERROR_BEFORE, Mode.ERROR_AFTER):
            provider.set_fault("charge", mode, order_id=order, times=1)
            answer = http.post("/charges", json=body)
            answers.append((answer.status_code, answer.content))
            counts.append(len(provider.effects(order_id=order)))
    assert answers[0] == answers[1]
    assert answers[0][0] == 500
    assert counts == [0, 1]


@pytest.mark.parametrize("mode", [Mode.ERROR_BEFORE, Mode.ERROR_AFTER])
def test_a_500_is_an_unknown_outcome_for_the_client(
    provider: Provider, order: str, mode: Mode
) -> None:
    provider.set_fault("charge", mode, order_id=order)
    with pytest.raises(ProviderFailed, match="500"):
        charge(provider, order)


def test_forget_keys_applies_again(provider: Provider, order: str) -> None:
    first = charge(provider, order)
    provider.set_fault("charge", Mode.FORGET_KEYS, order_id=order, times=1)
    second = charge(provider, order)
    assert second["charge_id"] != first["charge_id"]
    assert charge(provider, order) == first
    assert effects_of(provider, order) == ["charge", "charge"]


def test_hang_applies_nothing_until_it_is_released(
    provider: Provider, pool: ThreadPoolExecutor, order: str
) -> None:
    provider.set_fault("charge", Mode.HANG, order_id=order, times=1)
    call = pool.submit(charge, provider, order)
    (held,) = provider.wait_held(kind="charge", order_id=order, mode="hang")
    (request,) = provider.requests(order_id=order)
    assert held["request_id"] == request["id"]
    assert effects_of(provider, order) == []
    assert not call.done()
    assert provider.release(order_id=order) == 1
    assert call.result()["charge_id"] == f"charge_{request['id']}"
    assert effects_of(provider, order) == ["charge"]


def test_what_hangs_applies_even_when_its_caller_is_gone(
    provider: Provider, hasty: Provider, order: str
) -> None:
    provider.set_fault("charge", Mode.HANG, order_id=order, times=1)
    with pytest.raises(ProviderUnreachable):
        charge(hasty, order)
    provider.wait_held(order_id=order)
    assert effects_of(provider, order) == []
    assert provider.release(order_id=order) == 1
    assert effects_of(provider, order) == ["charge"]


def test_hold_applies_and_answers_when_released(
    provider: Provider, pool: ThreadPoolExecutor, order: str
) -> None:
    provider.set_fault("charge", Mode.HOLD, order_id=order)
    call = pool.submit(charge, provider, order)
    provider.wait_held(order_id=order)
    assert effects_of(provider, order) == ["charge"]
    assert [held["mode"] for held in provider.faults()["held"]] == ["hold"]
    assert not call.done()
    assert provider.release(kind="charge", order_id=order, mode="hold") == 1
    assert call.result() == provider.charges(order)[0]
    assert provider.faults()["held"] == []


def test_every_mode_is_played_through() -> None:
    """A mode without a test in this file would be one that nobody has seen work."""
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {mode.name for mode in Mode} <= used


# --- which requests meet a fault ------------------------------------------------------------------


def test_a_fault_is_for_one_kind_one_order_and_so_many_times(
    provider: Provider, order: str
) -> None:
    provider.set_fault("reservation", Mode.REFUSE, order_id=order, times=2)
    charge(provider, order)
    provider.reserve(f"{order}-other")
    for _ in range(2):
        with pytest.raises(ProviderRefused):
            provider.reserve(order)
    provider.reserve(order)
    assert faults_met(provider, order) == [None, "refuse", "refuse", None]
    assert provider.faults()["faults"] == []


def test_faults_are_met_in_the_order_in_which_they_were_set(provider: Provider, order: str) -> None:
    """The worst that providers do: the answer is lost, and the repeat is charged again."""
    provider.set_fault("charge", Mode.DROP_ANSWER, order_id=order, times=1)
    provider.set_fault("charge", Mode.FORGET_KEYS, order_id=order)
    with pytest.raises(ProviderUnreachable):
        charge(provider, order)
    charge(provider, order)
    assert effects_of(provider, order) == ["charge", "charge"]


def test_cleared_faults_are_met_no_more(provider: Provider, order: str) -> None:
    provider.set_fault("charge", Mode.REFUSE)
    provider.clear_faults()
    charge(provider, order)
    assert faults_met(provider, order) == [None]


def test_queries_are_noted_and_can_fail(provider: Provider, order: str) -> None:
    charge(provider, order)
    provider.set_fault("query", Mode.ERROR_BEFORE, order_id=order, times=1)
    with pytest.raises(ProviderFailed):
        provider.charges(order)
    assert len(provider.charges(order)) == 1
    queries = provider.requests(kind="query", order_id=order)
    assert [query["fault"] for query in queries] == ["error_before", None]


def test_a_query_by_id_meets_the_fault_of_its_order(
    running: ProviderProcess, provider: Provider, order: str
) -> None:
    charge_id = charge(provider, order)["charge_id"]
    provider.set_fault("query", Mode.REFUSE, order_id=order)
    with httpx2.Client(base_url=running.url) as http:
        assert http.get(f"/charges/{charge_id}").status_code == 402


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"kind": "gift", "mode": "hold"}, "kind is one of charge"),
        ({"kind": "charge", "mode": "slow"}, "mode is one of drop_answer"),
        ({"kind": "charge"}, "mode is missing"),
        ({"kind": "charge", "mode": "hold", "times": 0}, "times is an integer"),
        ({"kind": "charge", "mode": "late_answer", "delay_ms": -1}, "delay_ms is an integer"),
        ({"kind": "charge", "mode": "hold", "delay_ms": 1}, "delay_ms belongs to late_answer"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(
    running: ProviderProcess, provider: Provider, fault: dict[str, object], told: str
) -> None:
    with httpx2.Client(base_url=running.url) as http:
        answer = http.post("/faults", json=fault)
    assert answer.status_code == 400
    assert told in answer.json()["message"]
    assert provider.faults()["faults"] == []


def test_waiting_for_what_is_not_held_ends(provider: Provider, order: str) -> None:
    with pytest.raises(TimeoutError, match="within 1 ms"):
        provider.wait_held(order_id=order, timeout_ms=1)


# --- the process ----------------------------------------------------------------------------------


def held_charge(
    pool: ThreadPoolExecutor, provider: Provider, mode: Mode
) -> Future[dict[str, object]]:
    provider.set_fault("charge", mode, order_id="o")
    call = pool.submit(charge, provider, "o")
    provider.wait_held(order_id="o")
    return call


def test_the_ledger_survives_a_kill(own: ProviderProcess, pool: ThreadPoolExecutor) -> None:
    with Provider(own.url) as provider:
        call = held_charge(pool, provider, Mode.HOLD)
        pid = own.pid
        own.kill()
        with pytest.raises(ProviderUnreachable):
            call.result()
        with pytest.raises(RequestNotSent):
            charge(provider, "o")
        own.start()
        assert own.pid != pid
        assert effects_of(provider, "o") == ["charge"]
        assert charge(provider, "o") == provider.charges("o")[0]
        assert effects_of(provider, "o") == ["charge"]
        assert provider.faults() == {"faults": [], "held": []}


@pytest.mark.parametrize(("mode", "applied"), [(Mode.HOLD, 1), (Mode.HANG, 0)])
def test_a_stop_answers_nothing_that_is_held_and_applies_nothing_more(
    own: ProviderProcess, pool: ThreadPoolExecutor, mode: Mode, applied: int
) -> None:
    with Provider(own.url) as provider:
        call = held_charge(pool, provider, mode)
        waiting = pool.submit(provider.wait_held, order_id="another")
        own.stop()
        for unanswered in (call, waiting):
            with pytest.raises(ProviderUnreachable):
                unanswered.result()
    with sqlite3.connect(own.ledger) as ledger:
        assert ledger.execute("SELECT count(*) FROM effects").fetchone() == (applied,)
        assert ledger.execute("SELECT count(*) FROM requests").fetchone() == (1,)
    ledger.close()


def test_it_listens_on_loopback_alone(running: ProviderProcess) -> None:
    listening = [
        line.split()[1]
        for line in Path(f"/proc/{running.pid}/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{running.port:04X}") and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{running.port:04X}"]


def test_a_provider_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 2 while starting"):
        ProviderProcess(tmp_path / "missing" / "ledger.db").start()


def test_it_knows_nothing_of_those_who_call_it() -> None:
    for path in (REPOSITORY / "examples/provider").glob("*.py"):
        assert "pulseweave" not in path.read_text("utf-8"), path.name
