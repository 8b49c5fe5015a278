"""Liveness and readiness, for whoever runs the process."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pulseweave.app.facade import Facade
from pulseweave.kernel.errors import WeaveError
from pulseweave.runtime.loop import Engine
from pulseweave.txn.unit import read


def health_routes(app: Facade, engine: Engine | None) -> list[Route]:
    """``/healthz``: the process serves. ``/readyz``: the database answers and no loop is
    failing.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        problems = [f"loop {name} is failing" for name in engine.failing] if engine else []
        try:
            await asyncio.to_thread(read, app.core.database, lambda tx: tx.clock_now())
        except WeaveError as error:
            problems.append(f"database: {error.code}")
        status = "ok" if not problems else "unready"
        return JSONResponse(
            {"status": status, "problems": problems}, status_code=200 if not problems else 503
        )

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
