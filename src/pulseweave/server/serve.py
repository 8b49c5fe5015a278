"""Running a server in the foreground: uvicorn and the engine's threads, until SIGTERM or SIGINT.

Stopping is graceful: no new requests, running ones finish, loops finish their step, then the
database closes.
"""

import gc
import signal
import socket
from collections.abc import Callable
from threading import Event
from types import FrameType

import uvicorn

from pulseweave.server.assemble import Assembly


def serve(assembly: Assembly, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until told to stop. ``on_ready`` hears the URL once connections are accepted."""
    _spare_the_collector()
    assembly.start()
    try:
        if assembly.asgi is None:
            _wait_for_signal(on_ready)
        else:
            _serve_http(assembly, host, port, on_ready)
    finally:
        assembly.stop()


def _spare_the_collector() -> None:
    """What was loaded stays for good: the collector need not walk it again. Rows and decisions are
    freed by their counts; cycles are few, so that they may wait for more of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _serve_http(assembly: Assembly, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    bound_port = listener.getsockname()[1]
    config = uvicorn.Config(
        assembly.api,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=10,
        timeout_keep_alive=75,
        backlog=512,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            shown = f"[{host}]" if ":" in host else host
            on_ready(f"http://{shown}:{bound_port}")

    Server(config).run(sockets=[listener])


def _wait_for_signal(on_ready: Callable[[str], None]) -> None:
    stop = Event()

    def told(_: int, __: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, told)
    signal.signal(signal.SIGINT, told)
    on_ready("")
    stop.wait()
