"""The order workflow's definition is valid, and says what its handlers count on."""

from examples.provider.process import REPOSITORY
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.core.weave.definition.model import Definition, OnFailure, TaskNode
from pulseweave.core.weave.definition.template import Scope
from pulseweave.wire import sources

ORDER = {"order_id": "o-1", "amount": 4200, "currency": "EUR"}


def definition() -> Definition:
    raw = (REPOSITORY / "examples/orders/order.yaml").read_bytes()
    return compile_definition(sources.parse(raw).value)


def tasks() -> dict[str, TaskNode]:
    return {key: leaf for key, leaf in definition().leaves.items() if isinstance(leaf, TaskNode)}


def test_the_definition_is_valid() -> None:
    found = definition()
    assert (found.name, found.version, found.deadline_ms) == ("order", 1, 3_600_000)
    assert set(found.leaves) == {"charge", "reserve", "notify", "ship"}
    assert found.queues == ("mail", "payments", "warehouse")


def test_money_is_never_charged_again_on_a_guess() -> None:
    leaves = tasks()
    assert (leaves["charge"].effect, leaves["charge"].max_attempts) == (Effect.AT_MOST_ONCE, 3)
    assert (leaves["reserve"].effect, leaves["reserve"].max_attempts) == (Effect.IDEMPOTENT, 3)
    assert leaves["notify"].on_failure is OnFailure.IGNORE
    assert leaves["ship"].effect is Effect.AT_MOST_ONCE


def test_every_task_is_given_the_identity_that_the_provider_knows() -> None:
    scope = Scope(input=ORDER, steps={})
    inputs = {key: leaf.input.evaluate(scope) for key, leaf in tasks().items()}
    assert inputs["charge"] == ORDER
    assert [inputs[key] for key in ("reserve", "notify", "ship")] == [{"order_id": "o-1"}] * 3


def test_an_order_id_that_could_be_no_header_is_refused() -> None:
    contract = definition().input_contract
    assert contract is not None
    assert contract.check(ORDER) == []
    for order_id in ("", "o 1", "ö-1", "x" * 65):
        assert [v.pointer for v in contract.check({**ORDER, "order_id": order_id})] == ["/order_id"]
