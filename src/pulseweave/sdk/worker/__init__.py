"""The worker: claims tasks, starts them, runs handlers, tells what became of them."""

from pulseweave.sdk.worker.context import Cancelled, Context, StartRefused, TaskFailed
from pulseweave.sdk.worker.worker import Summary, Worker

__all__ = ["Cancelled", "Context", "StartRefused", "Summary", "TaskFailed", "Worker"]
