"""Weave: durable workflows that never guess what an external call did.

The parts, from the bottom: `kernel` (standard library only), `core` (pure decisions), `store`
(every SQL fact), `txn` (one module per command), `app` (the only door), `api`, `console` and
`runtime`, `server`, `cli`. Beside them `wire` (messages) and `sdk` (client and worker), which
import nothing of the server.

The public names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulseweave.kernel.errors import OutcomeUnknown, Rejected, Unavailable, WeaveError
    from pulseweave.sdk.async_client import AsyncClient
    from pulseweave.sdk.builder import Backoff, Parallel, Sequence, Task, Workflow
    from pulseweave.sdk.client import Client, Run
    from pulseweave.sdk.worker import Cancelled, Context, StartRefused, TaskFailed, Worker

__version__ = "0.1.0"

_HOMES = {
    "AsyncClient": "sdk.async_client",
    "OutcomeUnknown": "kernel.errors",
    "Rejected": "kernel.errors",
    "Unavailable": "kernel.errors",
    "WeaveError": "kernel.errors",
    "Backoff": "sdk.builder",
    "Parallel": "sdk.builder",
    "Sequence": "sdk.builder",
    "Task": "sdk.builder",
    "Workflow": "sdk.builder",
    "Client": "sdk.client",
    "Run": "sdk.client",
    "Cancelled": "sdk.worker",
    "Context": "sdk.worker",
    "StartRefused": "sdk.worker",
    "TaskFailed": "sdk.worker",
    "Worker": "sdk.worker",
}

__all__ = [
    "AsyncClient",
    "Backoff",
    "Cancelled",
    "Client",
    "Context",
    "OutcomeUnknown",
    "Parallel",
    "Rejected",
    "Run",
    "Sequence",
    "StartRefused",
    "Task",
    "TaskFailed",
    "Unavailable",
    "WeaveError",
    "Worker",
    "Workflow",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"pulseweave.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
