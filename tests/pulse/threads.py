"""Run calls on threads that start together, and give back what each answered or raised."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Answer = TypeVar("Answer")

THREAD_SECONDS_MAX = 60


def together(calls: Sequence[Callable[[], Answer]]) -> list[Answer | Exception]:
    """The answers in the order of the calls; an exception stands where one was raised."""
    barrier = Barrier(len(calls))

    def one(call: Callable[[], Answer]) -> Answer | Exception:
        barrier.wait(THREAD_SECONDS_MAX)
        try:
            return call()
        except Exception as error:  # noqa: BLE001  # told to the test, which expects some of them
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(one, call) for call in calls]
        return [future.result(THREAD_SECONDS_MAX) for future in futures]
