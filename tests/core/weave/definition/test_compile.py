"""What a definition compiles to: fields, defaults, digest, and that nobody can change it."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pulseweave.core.pulse.policy import DEFAULT_BACKOFF, Backoff, Effect, RetryPolicy
from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.core.weave.definition.model import (
    LeafNode,
    OnFailure,
    ParallelNode,
    SequenceNode,
    TaskNode,
    output_leaves_of,
    templates_of,
)
from pulseweave.core.weave.definition.template import Scope
from pulseweave.kernel import canonical, limits
from pulseweave.wire import sources
from tests.core.weave.definition.documents import ORDER, compiled, document, order, task, task_of


def test_every_field_of_a_task_is_kept() -> None:
    charge = task_of(order(), "charge")

    assert charge.place == "/steps/0"
    assert (charge.queue, charge.handler) == ("payments", "payments.charge")
    assert charge.effect is Effect.IDEMPOTENT
    assert charge.max_attempts == 3
    assert charge.backoff == Backoff(initial_ms=2_000, factor=3, max_ms=60_000, jitter=0.5)
    assert charge.attempt_timeout_ms == 30_000
    assert charge.lease_ms == 45_000
    assert charge.deadline_ms == 3_600_000
    assert charge.start_within_ms == 600_000
    assert charge.priority == -5
    assert charge.on_failure is OnFailure.FAIL
    assert charge.policy == RetryPolicy(
        max_attempts=3,
        backoff=charge.backoff,
        attempt_timeout_ms=30_000,
        lease_ms=45_000,
        effect=Effect.IDEMPOTENT,
    )
    scope = Scope(input={"order_id": "A-1", "amount": 2**70, "account": 7}, steps={})
    assert charge.input.evaluate(scope) == {"order_id": "A-1", "amount": 2**70}
    assert charge.concurrency_key is not None
    assert charge.concurrency_key.evaluate(scope) == "account-7"
    assert charge.business_key is not None
    assert charge.business_key.evaluate(scope) == "A-1"
    assert charge.output_contract is not None
    assert [found.pointer for found in charge.output_contract.check({})] == [""]


def test_a_task_needs_only_key_queue_and_handler() -> None:
    definition = compiled(task("charge"))
    charge = task_of(definition, "charge")

    assert charge.effect is Effect.AT_MOST_ONCE
    assert charge.max_attempts == 1
    assert charge.backoff == DEFAULT_BACKOFF
    assert charge.lease_ms == limits.LEASE_DEFAULT_MS
    assert charge.input.evaluate(Scope(input=None, steps={})) == {}
    assert (charge.attempt_timeout_ms, charge.deadline_ms, charge.start_within_ms) == (None,) * 3
    assert (charge.output_contract, charge.concurrency_key, charge.business_key) == (None,) * 3
    assert charge.priority == 0
    assert charge.on_failure is OnFailure.FAIL
    assert (definition.deadline_ms, definition.input_contract, definition.output) == (None,) * 3
    assert definition.description is None


def test_numbers_of_a_policy_are_plain_ones() -> None:
    backoff = {"factor": canonical.Literal("1.50"), "jitter": canonical.Literal("1e-1")}
    charge = task_of(compiled(task("charge", backoff=backoff)), "charge")

    assert (charge.backoff.factor, type(charge.backoff.factor)) == (1.5, float)
    assert (charge.backoff.jitter, type(charge.backoff.jitter)) == (0.1, float)


def test_the_definition_gives_its_steps_a_default_on_failure() -> None:
    definition = order()

    assert definition.on_failure is OnFailure.REVIEW
    assert definition.leaves["ship"].on_failure is OnFailure.REVIEW
    assert definition.leaves["charge"].on_failure is OnFailure.FAIL


def test_the_tree_is_that_of_the_document() -> None:
    definition = order()

    assert (definition.name, definition.version) == ("order", 1)
    assert definition.description == "an order from its charge to its parcel"
    assert definition.deadline_ms == 86_400_000
    assert definition.root.key is None
    charge, fulfil, rest = definition.root.children
    assert isinstance(charge, TaskNode)
    assert isinstance(fulfil, ParallelNode)
    assert isinstance(rest, SequenceNode)
    assert [name for name, _ in fulfil.branches] == ["mail", "stock"]
    assert [child.key for child in fulfil.branches[0][1].children] == ["compose", "notify"]
    assert fulfil.branches[0][1].place == "/steps/1/branches/mail"
    assert rest.place == "/steps/2/steps"
    assert list(definition.leaves) == ["charge", "compose", "notify", "reserve", "ship"]
    assert set(definition.nodes) == {*definition.leaves, "fulfil", "rest"}
    assert definition.nodes["fulfil"] is fulfil
    assert definition.queues == ("mail", "payments", "stock")


def reads_of(leaf: LeafNode) -> set[str]:
    return {key for template in templates_of(leaf) for key in template.reads}


def test_each_step_knows_what_it_reads() -> None:
    definition = order()

    reads = {key: reads_of(leaf) for key, leaf in definition.leaves.items()}
    assert reads == {
        "charge": set(),
        "compose": set(),
        "notify": {"compose"},
        "reserve": {"charge"},
        "ship": {"fulfil"},
    }
    assert definition.output is not None
    assert definition.output.reads == {"charge", "rest"}


def test_all_templates_of_a_task_count_as_its_reads() -> None:
    definition = compiled(
        task("a"),
        task("b"),
        task("c"),
        task(
            "d",
            input="${steps.a.output}",
            business_key="${steps.b.output}",
            concurrency_key="${steps.c.output}",
        ),
    )

    assert reads_of(definition.leaves["d"]) == {"a", "b", "c"}


def test_output_leaves_tell_what_an_output_is_made_of() -> None:
    definition = order()
    found = {key: output_leaves_of(node) for key, node in definition.nodes.items()}
    assert found == {
        "charge": {"charge"},
        "fulfil": {"notify", "reserve"},
        "compose": {"compose"},
        "notify": {"notify"},
        "reserve": {"reserve"},
        "rest": {"ship"},
        "ship": {"ship"},
    }
    assert output_leaves_of(definition.root) == {"ship"}


def test_the_digest_is_that_of_the_document_as_it_was_given() -> None:
    short, whole = document(), document(on_failure="fail")

    assert compile_definition(short).digest == canonical.digest_of(short)
    assert compile_definition(whole).digest == canonical.digest_of(whole)
    assert compile_definition(short).digest != compile_definition(whole).digest


@pytest.mark.rule("WEA-1")
def test_key_order_and_surface_change_neither_digest_nor_meaning() -> None:
    def reversed_keys(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        return [reversed_keys(item) for item in value] if isinstance(value, list) else value

    value = sources.parse(ORDER).value
    one = compile_definition(value)
    two = compile_definition(reversed_keys(value))
    three = compile_definition(sources.parse(canonical.encode(value)).value)

    assert one.digest == two.digest == three.digest
    assert _shape(one) == _shape(two) == _shape(three)


def _shape(definition: Any) -> object:
    """All that compares by value; contracts compare by identity, so they are left out."""
    leaves = {
        key: dataclasses.replace(leaf, output_contract=None)
        for key, leaf in definition.leaves.items()
    }
    return leaves, list(definition.nodes), definition.output


@pytest.mark.rule("WEA-1")
def test_a_definition_can_not_be_changed() -> None:
    given: Any = document(description="first")
    definition: Any = compile_definition(given)

    with pytest.raises(dataclasses.FrozenInstanceError):
        definition.name = "other"
    with pytest.raises(TypeError):
        definition.leaves["charge"] = None
    with pytest.raises(TypeError):
        del definition.nodes["charge"]
    given["description"] = "changed"
    definition.document["description"] = "changed"
    assert definition.document == document(description="first")


def test_the_document_comes_back_exactly() -> None:
    odd = {"\ud800": "\0", "big": 10**40, "decimal": canonical.Literal("1.10"), "😀": [None, True]}
    definition = compiled(task("charge", input=odd))

    assert canonical.encode(definition.document) == canonical.encode(
        document(task("charge", input=odd))
    )
    value = task_of(definition, "charge").input.evaluate(Scope(input=None, steps={}))
    assert canonical.encode(value) == canonical.encode(odd)


def test_one_definition_serves_many_threads() -> None:
    definition = order()
    notify = task_of(definition, "ship").input

    def evaluate(number: int) -> object:
        contract = definition.input_contract
        assert contract is not None
        assert len(contract.check({"order_id": number})) == 1
        return notify.evaluate(Scope(input=None, steps={"fulfil": {"stock": number}}))

    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(evaluate, range(200)))
    assert values == [{"reserved": n, "all": {"stock": n}} for n in range(200)]


def test_limits_are_inclusive() -> None:
    steps = [task(f"s{number}") for number in range(limits.STEPS_PER_DEFINITION_MAX)]
    assert len(compiled(*steps).leaves) == limits.STEPS_PER_DEFINITION_MAX

    nested: dict[str, object] = task("leaf")
    for depth in range(limits.DEFINITION_DEPTH_MAX - 1):
        nested = {"sequence": f"level{depth}", "steps": [nested]}
    assert output_leaves_of(compiled(nested).root) == {"leaf"}
