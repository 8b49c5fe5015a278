"""Putting a server together from its parts; used by the command, the embedded client and tests
alike.
"""

from dataclasses import dataclass

from starlette.applications import Starlette

from pulseweave.api.asgi import make_asgi
from pulseweave.app.core import Core
from pulseweave.app.facade import Facade
from pulseweave.kernel.check import InvariantViolation
from pulseweave.kernel.clock import Clock, SystemClock
from pulseweave.kernel.entropy import Entropy, SystemEntropy
from pulseweave.kernel.errors import WeaveError
from pulseweave.runtime.loop import LOST_WAITS_REST_MS, Engine
from pulseweave.runtime.steps import Steps
from pulseweave.server.health import health_routes
from pulseweave.store.engine import Database, open_database
from pulseweave.store.migrate import check_schema


@dataclass(slots=True)
class Assembly:
    """A server's parts. ``asgi`` None: engine only; ``engine`` None: API only."""

    database: Database
    app: Facade
    asgi: Starlette | None
    engine: Engine | None

    @property
    def api(self) -> Starlette:
        """The API's application; asked only of an assembly that has one."""
        if self.asgi is None:
            raise InvariantViolation("this assembly has an API", {})
        return self.asgi

    def start(self) -> None:
        if self.engine is not None:
            self.engine.start()

    def stop(self) -> None:
        if self.engine is not None:
            self.engine.stop()
        if self.asgi is not None:
            self.asgi.state.api.pool.shutdown()
        self.database.close()


def assemble(
    url: str,
    *,
    api: bool = True,
    engine: bool = True,
    pool_size: int = 8,
    lost_waits_rest_ms: int = LOST_WAITS_REST_MS,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    retention_ms: int | None = None,
) -> Assembly:
    """Open the database, check its schema, and build what was asked for. Nothing runs yet."""
    known_clock, known_entropy = clock or SystemClock(), entropy or SystemEntropy()
    database = open_database(url, pool_size=pool_size, clock=known_clock)
    try:
        check_schema(database)
    except WeaveError:
        database.close()
        raise
    core = Core(database=database, clock=known_clock, entropy=known_entropy)
    app = Facade(core)
    steps = Steps(database, core.ids, known_entropy, retention_ms)
    loops = Engine(steps, lost_waits_rest_ms=lost_waits_rest_ms) if engine else None
    threads = max(4, pool_size)
    asgi = make_asgi(app, threads=threads, extra=health_routes(app, loops)) if api else None
    return Assembly(database=database, app=app, asgi=asgi, engine=loops)
