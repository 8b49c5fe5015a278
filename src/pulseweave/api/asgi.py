"""The ASGI application: decode, authenticate, hand to the façade in a bounded thread pool, encode.

A long poll holds neither a thread nor a connection while it waits (B105). What goes wrong
unexpectedly is logged under a request id and answered as INTERNAL without its text.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from pulseweave import __version__
from pulseweave.api.convert import decode
from pulseweave.api.endpoint import Call, Endpoint, Reply
from pulseweave.api.openapi import document
from pulseweave.api.problems import problem_response
from pulseweave.api.table import PREFIX, TABLE
from pulseweave.api.wakeups import Wakeups
from pulseweave.app.facade import Facade
from pulseweave.kernel.errors import WeaveError, reject
from pulseweave.kernel.json_errors import short_key, short_pointer
from pulseweave.kernel.points import reach
from pulseweave.wire.worker import TurnRequest, TurnResponse

log = logging.getLogger("pulseweave.api")

#: How often a waiting turn looks again although nobody woke it: the bound on a lost hint (B106).
LOOK_AGAIN_S = 1.0


class Api:
    """The application's state: façade, threads and wake-ups."""

    def __init__(self, app: Facade, *, threads: int) -> None:
        self.app = app
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="weave-api")
        self.wakeups = Wakeups()
        app.core.database.on_hints.append(self.wakeups.heard)

    async def call(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            reply = await self._answer(endpoint, request)
        except WeaveError as error:
            return problem_response(error)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            request_id = self.app.core.ids.next()
            log.exception("request %s failed: %s %s", request_id, request.method, endpoint.path)
            return problem_response(
                WeaveError("INTERNAL", "an unexpected fault", detail={"request_id": request_id})
            )
        reach("server.before_answer")
        return Response(
            msgspec.json.encode(reply.body), status_code=reply.status, media_type="application/json"
        )

    async def _answer(self, endpoint: Endpoint, request: Request) -> Reply:
        raw = await self._body(endpoint, request)
        token = bearer(request.headers.get("authorization"))
        body_type = endpoint.body

        def work() -> tuple[Call, Reply]:
            principal = self.app.core.authenticate(token)
            body = None
            if body_type is not None:
                body = decode(raw, body_type, bytes_max=endpoint.bytes_max)
            call = Call(
                app=self.app,
                principal=principal,
                path=request.path_params,
                query=known_query(endpoint, request),
                key=request.headers.get("idempotency-key"),
                body=body,
            )
            reach("server.after_decode")
            return call, endpoint.handler(call)

        loop = asyncio.get_running_loop()
        call, reply = await loop.run_in_executor(self.pool, work)
        if isinstance(call.body, TurnRequest):
            again = partial(self._again, endpoint, call, token)
            return await self._wait_for_work(call, reply, request, again)
        return reply

    async def _body(self, endpoint: Endpoint, request: Request) -> bytes:
        """The body within its bound; a declared length beyond it is refused before it is read."""
        told = f"at most {endpoint.bytes_max} bytes are allowed"
        too_large = reject("PAYLOAD_TOO_LARGE", told, pointer="")
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > endpoint.bytes_max + 65_536:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > endpoint.bytes_max + 65_536:
                raise too_large
            chunks.append(chunk)
        return b"".join(chunks)

    def _again(self, endpoint: Endpoint, call: Call, token: str | None) -> Reply:
        """The same call, by whom its token stands for now: it may have been revoked since."""
        principal = self.app.core.authenticate(token)
        return endpoint.handler(replace(call, principal=principal))

    async def _wait_for_work(
        self, call: Call, reply: Reply, request: Request, again: Callable[[], Reply]
    ) -> Reply:
        """Hold a turn that found nothing until there is work, its wait is over, or its caller is
        gone.
        """
        body: TurnRequest = call.body
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + body.wait_ms / 1000
        empty = isinstance(reply.body, TurnResponse) and not reply.body.claimed
        answered = body.reports or body.releases or body.heartbeats or body.starts
        if body.claim is None or not empty or answered:
            return reply
        scopes = [("queue", (call.principal.namespace, queue)) for queue in body.claim.queues]
        while (left_s := ends_at - loop.time()) > 0:
            await self.wakeups.wait(scopes, min(left_s, LOOK_AGAIN_S))
            if await request.is_disconnected():
                return reply
            reply = await loop.run_in_executor(self.pool, again)
            if isinstance(reply.body, TurnResponse) and reply.body.claimed:
                return reply
        return reply

    async def openapi(self, _: Request) -> Response:
        return Response(document_text(), media_type="application/json")


@cache
def document_text() -> bytes:
    """The OpenAPI document, which is the same for every application of the process."""
    return msgspec.json.encode(document(__version__))


def bearer(header: str | None) -> str | None:
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def known_query(endpoint: Endpoint, request: Request) -> dict[str, str]:
    """The query's parameters: only those of the endpoint, each once. Raises INVALID_COMMAND."""
    found: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name not in endpoint.query:
            known = ", ".join(endpoint.query) or "none"
            message = f"there is no parameter {short_key(name)} here; known: {known}"
            raise reject("INVALID_COMMAND", message, pointer=short_pointer([name]))
        if name in found:
            raise reject("INVALID_COMMAND", f"{name} stands twice in the query", pointer=f"/{name}")
        found[name] = text
    return found


def _route(api: Api, path: str, endpoints: list[Endpoint]) -> Route:
    by_method = {endpoint.method: endpoint for endpoint in endpoints}
    if "GET" in by_method:
        by_method["HEAD"] = by_method["GET"]  # the route answers it; the server leaves the body out

    async def serve(request: Request) -> Response:
        return await api.call(by_method[request.method], request)

    return Route(PREFIX + path, serve, methods=list(by_method))


def _fault(code: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        response = problem_response(reject(code, f"{request.method} {request.url.path}"))
        response.headers.update(getattr(error, "headers", None) or {})  # Allow, of a 405
        return response

    return answer


def make_asgi(app: Facade, *, threads: int, extra: list[Any] | None = None) -> Starlette:
    """The application. ``extra`` routes (health, metrics, console) are the server's."""
    api = Api(app, threads=threads)
    grouped: dict[str, list[Endpoint]] = {}
    for endpoint in TABLE:
        grouped.setdefault(endpoint.path, []).append(endpoint)
    routes: list[Any] = [_route(api, path, endpoints) for path, endpoints in grouped.items()]
    routes.append(Route(f"{PREFIX}/openapi.json", api.openapi))
    routes += extra or []
    asgi = Starlette(
        routes=routes,
        exception_handlers={404: _fault("NOT_FOUND"), 405: _fault("METHOD_NOT_ALLOWED")},
    )
    asgi.router.redirect_slashes = False  # a path is right or it isn't
    asgi.state.api = api
    return asgi
