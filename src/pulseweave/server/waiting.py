"""A server whose database is down when it starts: it says so, keeps trying, and goes on by itself.

States: closed (alive, not ready: every command is told DATABASE_UNAVAILABLE and nothing was done),
then over, with a whole assembly or with the refusal that waiting can't mend (a schema of another
version). What may never happen: a command is taken before the schema was checked.
"""

import asyncio
import logging
from collections.abc import Callable
from threading import Event, Thread

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pulseweave.api.problems import problem_response
from pulseweave.kernel.errors import Unavailable, WeaveError
from pulseweave.server.assemble import Assembly

log = logging.getLogger("pulseweave.server")

REST_S_FIRST, REST_S_MAX = 0.25, 2.0
SAY_EVERY_TRIES = 30
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def assemble_when_reachable(
    make: Callable[[], Assembly], *, host: str, port: int, api: bool
) -> Assembly:
    """What ``make`` gives, as soon as the database answers it; meanwhile ``host:port`` tells that.

    Raises what ``make`` raises but for Unavailable. Told to stop meanwhile, the process ends.
    """
    try:
        return make()
    except Unavailable as error:
        log.warning("%s; trying again until it does", error)
    if not api:
        return _try_until_made(make, Event())
    return asyncio.run(_serve_closed(make, host, port))


def _try_until_made(make: Callable[[], Assembly], stop: Event) -> Assembly:
    """Try with a growing rest. Raises the last Unavailable when told to stop."""
    rest_s, tries = REST_S_FIRST, 0
    while True:
        stop.wait(rest_s)
        try:
            made = make()
        except Unavailable as error:
            if stop.is_set():
                raise
            tries, rest_s = tries + 1, min(rest_s * 2, REST_S_MAX)
            if tries % SAY_EVERY_TRIES == 0:
                log.warning("%s; still trying", error)
        else:
            log.info("the database answers")
            return made


async def _serve_closed(make: Callable[[], Assembly], host: str, port: int) -> Assembly:
    """Serve the closed door until the assembly is made, or cannot be."""
    server = uvicorn.Server(
        uvicorn.Config(
            _closed(),
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            # A connection that is kept would go on asking the closed door when the other is open.
            headers=[("Connection", "close")],
        )
    )
    stop, found = Event(), _Found()

    def look() -> None:
        try:
            found.assembly = _try_until_made(make, stop)
        except WeaveError as error:
            found.refusal = error
        server.should_exit = True

    looking = Thread(target=look, name="weave-looking", daemon=True)
    looking.start()
    await server.serve()
    stop.set()
    await asyncio.to_thread(looking.join)
    if found.assembly is None:
        raise found.refusal or Unavailable("stopped before the database answered")
    return found.assembly


class _Found:
    """What the looking thread found; one of the two when it has ended."""

    assembly: Assembly | None = None
    refusal: WeaveError | None = None


def _closed() -> Starlette:
    down = Unavailable("the database has not answered since this server started; nothing was done")

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        told = {"status": "unready", "problems": [f"database: {down.code}"]}
        return JSONResponse(told, status_code=503)

    async def refuse(_: Request) -> Response:
        return problem_response(down)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/{path:path}", refuse, methods=_METHODS),
        ]
    )
