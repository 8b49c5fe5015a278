"""Definitions for the tests: the smallest that is valid, a whole one, and ways to change them."""

from pulseweave.core.weave.definition.compile import compile_definition
from pulseweave.core.weave.definition.model import Definition, TaskNode
from pulseweave.core.weave.definition.problems import DefinitionInvalid, Problem
from pulseweave.wire import sources

ORDER = """\
name: order
version: 1
description: an order from its charge to its parcel
deadline: 24h
on_failure: review
input:
  type: object
  required: [order_id, amount]
output: {total: "${steps.charge.output.amount}", parcel: "${steps.rest.output}"}
steps:
  - task: charge
    queue: payments
    handler: payments.charge
    input: {order_id: "${input.order_id}", amount: "${input.amount}"}
    output: {type: object, required: [amount]}
    effect: idempotent
    max_attempts: 3
    backoff: {initial: 2s, factor: 3, max: 1m, jitter: 0.5}
    attempt_timeout: 30s
    lease: 45s
    deadline: 1h
    start_within: 10m
    priority: -5
    concurrency_key: "account-${input.account}"
    business_key: "${input.order_id}"
    on_failure: fail
  - parallel: fulfil
    branches:
      stock:
        - {task: reserve, queue: stock, handler: stock.reserve, input: "${steps.charge.output}"}
      mail:
        - {task: compose, queue: mail, handler: mail.compose}
        - {task: notify, queue: mail, handler: mail.send, input: ["${steps.compose.output}"]}
  - sequence: rest
    steps:
      - task: ship
        queue: stock
        handler: stock.ship
        input: {reserved: "${steps.fulfil.output.stock}", all: "${steps.fulfil.output}"}
"""


def task(key: str, **fields: object) -> dict[str, object]:
    """A task step with what it must have."""
    return {"task": key, "queue": "work", "handler": "work.do", **fields}


def document(*steps: object, **fields: object) -> dict[str, object]:
    """A definition of these steps, or of one task."""
    return {"name": "order", "version": 1, "steps": list(steps) or [task("charge")], **fields}


def compiled(*steps: object, **fields: object) -> Definition:
    return compile_definition(document(*steps, **fields))


def task_of(definition: Definition, key: str) -> TaskNode:
    """The node of a task step."""
    leaf = definition.leaves[key]
    assert isinstance(leaf, TaskNode)
    return leaf


def problems_of(value: object) -> tuple[Problem, ...]:
    """What is wrong with a document; empty when it compiles."""
    try:
        compile_definition(value)
    except DefinitionInvalid as invalid:
        return invalid.problems
    return ()


def order() -> Definition:
    return compile_definition(sources.parse(ORDER).value)
