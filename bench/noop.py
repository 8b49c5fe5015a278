"""The worker of the measurements: handlers that do nothing."""

import os
from typing import Any

from pulseweave import Client, Worker

client = Client(os.environ["WEAVE_URL"], os.environ["WEAVE_TOKEN"])
worker = Worker(client, queues=["bench"], concurrency=int(os.environ.get("BENCH_SLOTS", "200")))


@worker.handler("bench.noop")
def noop(ctx: Any, value: Any) -> Any:  # noqa: ARG001
    return value
