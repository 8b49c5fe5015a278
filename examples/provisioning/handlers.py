"""The handlers of the provisioning workflow, and the worker that runs them.

The cluster's name stands in each task's fixed input and is the provider's Idempotency-Key (with the
machine's, where there is one), so asking twice makes nothing twice.

Set PROVIDER_URL, WEAVE_URL and WEAVE_TOKEN, then:
``weave worker examples.provisioning.handlers:worker``
"""

import os
from typing import Any

from examples.outcomes import known_failures
from examples.provider.client import Provider
from pulseweave import Client, Worker

provider = Provider(os.environ["PROVIDER_URL"])
client = Client(os.environ["WEAVE_URL"], token=os.environ["WEAVE_TOKEN"])
worker = Worker(client, queues=["machines"], concurrency=20)


@worker.handler("machines.request")
def request(ctx: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    name = wanted["cluster"]
    with known_failures():
        return provider.request_cluster(name, key=name, attempt=ctx.attempt)


@worker.handler("machines.status")
def status(ctx: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """What the provider says; what it means is the definition's mapping's."""
    with known_failures():
        return provider.status(asked["cluster_id"], attempt=ctx.attempt)


@worker.handler("machines.configure")
def configure(ctx: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    name, machine = wanted["cluster"], wanted["machine"]
    with known_failures():
        return provider.configure(name, machine, key=f"{name}/{machine}", attempt=ctx.attempt)


@worker.handler("machines.monitor")
def monitor(ctx: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    name = wanted["cluster"]
    with known_failures():
        return provider.monitor(name, key=name, attempt=ctx.attempt)
