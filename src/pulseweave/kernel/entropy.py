"""The only source of chance: ids, tokens and jitter. Seeded in simulations."""

import base64
import os
import random
from threading import Lock
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
_POOL_BYTES = 4096


def _token(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class SystemEntropy:
    """The operating system's generator, asked for some draws at once: each question is a call into
    the kernel. What was drawn is given out once, and never after a fork.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pool = b""
        self._at = 0
        self._pid = os.getpid()

    def random_bytes(self, count: int) -> bytes:
        with self._lock:
            end = self._at + count
            if end > len(self._pool) or self._pid != os.getpid():
                self._pool = os.urandom(max(count, _POOL_BYTES))
                self._pid = os.getpid()
                self._at, end = 0, count
            drawn = self._pool[self._at : end]
            self._at = end
            return drawn

    def uniform(self) -> float:
        # 53 bits fit a float; with more, the largest would round up to 1.
        return (int.from_bytes(self.random_bytes(7), "big") >> 3) / (1 << 53)

    def token(self) -> str:
        return _token(self.random_bytes(_TOKEN_BYTES))


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
