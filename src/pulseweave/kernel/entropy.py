"""The only source of chance: ids, tokens and jitter. Seeded in simulations."""

import base64
import os
import random
from typing import Protocol


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes:
        """Unpredictable bytes."""

    def uniform(self) -> float:
        """A number in [0, 1), for jitter."""

    def token(self) -> str:
        """43 url-safe characters carrying 256 bits."""


def _token(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class SystemEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def uniform(self) -> float:
        return int.from_bytes(os.urandom(7), "big") / (1 << 56)

    def token(self) -> str:
        return _token(os.urandom(32))


class SeededEntropy:
    """The same seed gives the same sequence on every machine and hash seed. Never for production."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self) -> float:
        return self._random.random()

    def token(self) -> str:
        return _token(self._random.randbytes(32))
