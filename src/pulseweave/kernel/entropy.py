"""The only source of chance: ids, tokens and jitter. Seeded in simulations."""

import base64
import os
import random
from typing import Protocol


class Entropy(Protocol):
    """What draws by chance."""

    def random_bytes(self, count: int) -> bytes:
        """Unpredictable bytes."""

    def uniform(self) -> float:
        """A number in [0, 1), for jitter."""

    def token(self) -> str:
        """43 url-safe characters that carry 256 bits."""


_TOKEN_BYTES = 32


def _token(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class SystemEntropy:
    """The operating system's generator."""

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def uniform(self) -> float:
        # 53 bits fit a float; with more, the largest would round up to 1.
        return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << 53)

    def token(self) -> str:
        return _token(os.urandom(_TOKEN_BYTES))


class SeededEntropy:
    """The same seed gives the same sequence on every machine and hash seed. Not for production."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self) -> float:
        return self._random.random()

    def token(self) -> str:
        return _token(self._random.randbytes(_TOKEN_BYTES))
