"""The HTTP server, and the one thing that HTTP servers don't offer: to end without an answer."""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import ClassVar

import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """A connection that can be found by its client's address, to cut it."""

    by_client: ClassVar[dict[tuple[str, int], asyncio.Transport]] = {}

    # asyncio's own annotation is wider; uvicorn narrows it in the same way.
    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        if self.client is not None:
            self.by_client[self.client] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.client is not None:
            self.by_client.pop(self.client, None)


class NoAnswer(Response):
    """Closes the connection instead of answering."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        transport = Connection.by_client.get(scope["client"])
        if transport is not None:
            transport.abort()
        while (await receive())["type"] != "http.disconnect":
            pass


class Server(uvicorn.Server):
    """Says its address when it is ready, and calls ``on_stop`` when it is told to stop."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            host, port = listening.getsockname()
            sys.stdout.write(json.dumps({"url": f"http://{host}:{port}"}) + "\n")
        sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)
