"""The handlers of the order workflow, and the worker that runs them.

A handler tells only what it knows. It returns what the provider answered, or raises ``TaskFailed``
where nothing was applied for certain. All else propagates: an answer that did not come, and a 500,
which may have come before the effect or after it. Weave keeps that as an unknown outcome.

The order's id stands in each task's fixed input and is the provider's Idempotency-Key, so one order
is charged once, whoever asks how often, for as long as the provider remembers its keys.

Set PROVIDER_URL, WEAVE_URL and WEAVE_TOKEN, then: ``weave worker examples.orders.handlers:worker``
"""

import os
from typing import Any

from examples.outcomes import known_failures
from examples.provider.client import Provider
from pulseweave import Client, Worker

provider = Provider(os.environ["PROVIDER_URL"])
client = Client(os.environ["WEAVE_URL"], token=os.environ["WEAVE_TOKEN"])
worker = Worker(client, queues=["payments", "warehouse", "mail"], concurrency=50)


@worker.handler("payments.charge")
def charge(ctx: Any, order: dict[str, Any]) -> dict[str, Any]:
    with known_failures():
        return provider.charge(
            order["order_id"],
            order["amount"],
            order["currency"],
            key=order["order_id"],
            attempt=ctx.attempt,
        )


@worker.handler("warehouse.reserve")
def reserve(ctx: Any, order: dict[str, Any]) -> dict[str, Any]:
    with known_failures():
        return provider.reserve(order["order_id"], key=order["order_id"], attempt=ctx.attempt)


@worker.handler("mail.notify")
def notify(ctx: Any, order: dict[str, Any]) -> dict[str, Any]:
    with known_failures():
        return provider.notify(order["order_id"], key=order["order_id"], attempt=ctx.attempt)


@worker.handler("warehouse.ship")
def ship(ctx: Any, order: dict[str, Any]) -> dict[str, Any]:
    with known_failures():
        return provider.ship(order["order_id"], key=order["order_id"], attempt=ctx.attempt)
