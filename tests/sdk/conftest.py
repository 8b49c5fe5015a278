"""A whole server inside the test's process, and workers that the test drains."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pulseweave import Client, Worker


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client.embedded(f"sqlite:///{tmp_path / 'weave.db'}") as made:
        yield made


@pytest.fixture
def worker(client: Client) -> Iterator[Callable[..., Worker]]:
    """Makes workers of queue ``q``; each is drained at the end."""
    made: list[Worker] = []

    def make(**more: Any) -> Worker:
        made.append(Worker(client, ["q"], **{"concurrency": 4, "claim_wait": 0.2, **more}))
        return made[-1]

    yield make
    for one in made:
        one.drain(5)
