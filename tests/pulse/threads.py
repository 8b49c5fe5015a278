"""Run calls on threads that start together."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Answer = TypeVar("Answer")

THREAD_SECONDS_MAX = 60


def together(calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """The answers in the order of the calls; raises what one of them raised."""
    barrier = Barrier(len(calls))

    def one(call: Callable[[], Answer]) -> Answer:
        barrier.wait(THREAD_SECONDS_MAX)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(one, call) for call in calls]
        return [future.result(THREAD_SECONDS_MAX) for future in futures]
