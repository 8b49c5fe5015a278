"""The handlers of the transfer workflow, and the worker that runs them.

The transfer's name stands in each task's fixed input and is the bank's Idempotency-Key. The bank
forgets its keys some day; Weave counts on nothing there, and asks a person instead.

Set PROVIDER_URL, WEAVE_URL and WEAVE_TOKEN, then:
``weave worker examples.transfer.handlers:worker``
"""

import os
from typing import Any

from examples.outcomes import known_failures
from examples.provider.client import Provider
from pulseweave import Client, TaskFailed, Worker

provider = Provider(os.environ["PROVIDER_URL"])
client = Client(os.environ["WEAVE_URL"], token=os.environ["WEAVE_TOKEN"])
worker = Worker(client, queues=["bank"], concurrency=20)


@worker.handler("bank.reserve")
def reserve(ctx: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    name = wanted["transfer"]
    with known_failures():
        return provider.reserve(name, key=name, attempt=ctx.attempt)


@worker.handler("bank.transfer")
def transfer(ctx: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    name, amount = wanted["transfer"], wanted["amount"]
    if amount != wanted["approved_amount"]:
        raise TaskFailed(
            "NOT_APPROVED",
            f"{wanted['approved_amount']} were approved, not {amount}",
            retryable=False,
        )
    with known_failures():
        return provider.transfer(name, amount, wanted["currency"], key=name, attempt=ctx.attempt)


@worker.handler("bank.notify")
def notify(ctx: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    name = wanted["transfer"]
    with known_failures():
        return provider.notify(name, key=name, attempt=ctx.attempt)
