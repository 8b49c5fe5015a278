"""How requests travel, and what a broken connection means: surely not sent, or perhaps carried out.

The difference matters: what was surely not sent may be sent again freely; what may have been
carried out is sent again only under the same idempotency key, and is OUTCOME_UNKNOWN when the tries
are used up.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import Protocol

import httpx2


class NotSent(Exception):
    """No connection was made: nothing can have happened."""


class MaybeSent(Exception):
    """The connection broke after sending began: it may have been carried out."""


class Transport(Protocol):
    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body. Raises NotSent or MaybeSent."""

    def close(self) -> None:
        """Close connections; sending afterwards is an error."""


class AsyncTransport(Protocol):
    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body. Raises NotSent or MaybeSent."""

    async def close(self) -> None:
        """Close connections; sending afterwards is an error."""


@contextmanager
def _told_apart() -> Iterator[None]:
    """What a broken connection means."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise NotSent(str(error) or type(error).__name__) from None
    except httpx2.TransportError as error:
        raise MaybeSent(str(error) or type(error).__name__) from None


class HttpTransport:
    """Connections to one server. Opened lazily, and anew in a forked child (B129)."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._pid = 0
        self._http: httpx2.Client | None = None
        self._opening = Lock()

    def __repr__(self) -> str:
        return f"HttpTransport({self._url})"

    def _client(self) -> httpx2.Client:
        if self._pid != os.getpid():  # a forked child: its parent may have held the lock
            self._opening, self._http, self._pid = Lock(), None, os.getpid()
        with self._opening:
            if self._http is None:
                limits = httpx2.Limits(max_connections=64, max_keepalive_connections=16)
                self._http = httpx2.Client(base_url=self._url, limits=limits, trust_env=False)
            return self._http

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, 5))
        with _told_apart():
            answer = self._client().request(
                method, path, content=body, headers=headers, timeout=timeout
            )
        return answer.status_code, dict(answer.headers), answer.content

    def close(self) -> None:
        if self._http is not None and self._pid == os.getpid():
            self._http.close()
        self._http = None


class EmbeddedTransport:
    """A server inside this process (``pulseweave.embedded``), found by name so that nothing imports
    it.
    """

    def __init__(self, url: str) -> None:
        self._embedded = import_module("pulseweave.embedded").open_embedded(url)
        self.token: str = self._embedded.token

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        answer: tuple[int, dict[str, str], bytes] = self._embedded.send(
            method, path, body, headers=headers, timeout_s=timeout_s
        )
        return answer

    def close(self) -> None:
        self._embedded.close()


class AsyncHttpTransport:
    """Connections to one server, on the event loop that first sends."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._http: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"AsyncHttpTransport({self._url})"

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        if self._http is None:
            self._http = httpx2.AsyncClient(base_url=self._url, trust_env=False)
        timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, 5))
        with _told_apart():
            answer = await self._http.request(
                method, path, content=body, headers=headers, timeout=timeout
            )
        return answer.status_code, dict(answer.headers), answer.content

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
        self._http = None


class AsyncEmbeddedTransport:
    """A server inside this process, without blocking the event loop."""

    def __init__(self, url: str) -> None:
        self._embedded = EmbeddedTransport(url)
        self.token = self._embedded.token

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        return await asyncio.to_thread(
            self._embedded.send, method, path, body, headers=headers, timeout_s=timeout_s
        )

    async def close(self) -> None:
        await asyncio.to_thread(self._embedded.close)
