"""``weave dev`` and ``weave server``."""

import logging
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from pulseweave.cli import output
from pulseweave.cli.commands.database import retention
from pulseweave.cli.options import DEFAULT_DATABASE, DatabaseUrl
from pulseweave.core.identity import Permission
from pulseweave.kernel import points
from pulseweave.kernel.clock import SystemClock
from pulseweave.kernel.entropy import SystemEntropy
from pulseweave.kernel.ids import IdSource
from pulseweave.runtime.loop import LOST_WAITS_REST_MS
from pulseweave.server.assemble import assemble
from pulseweave.server.serve import serve
from pulseweave.server.waiting import assemble_when_reachable
from pulseweave.store.engine import Database, is_a_file, open_database
from pulseweave.store.migrate import upgrade
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token

Role = Literal["all", "api", "engine"]
LostWaitsRest = Annotated[
    int,
    Parameter(
        name="--lost-waits-rest-ms",
        help="how long the search for lost waits rests between two looks",
        env_var="WEAVE_LOST_WAITS_REST_MS",
        validator=Number(gte=1),
    ),
]


def dev(
    *,
    database: DatabaseUrl = DEFAULT_DATABASE,
    host: str = "127.0.0.1",
    port: int = 8420,
    token_file: Annotated[Path | None, Parameter(help="write the token here too, mode 600")] = None,
    lost_waits_rest_ms: LostWaitsRest = LOST_WAITS_REST_MS,
) -> None:
    """Everything in one process on one SQLite file, with a token for all of it."""
    _log()
    opened = open_database(database)
    upgrade(opened)
    create_namespace(opened, "default")
    token = _dev_token(opened)
    opened.close()
    if token_file is not None:
        token_file.touch(mode=0o600)
        token_file.write_text(token + "\n", encoding="ascii")

    def ready(url: str) -> None:
        output.out.print(f"[bold]Weave[/] is ready at [bold]{url}[/] on {database}")
        output.out.print(f"  export WEAVE_URL={url}")
        output.out.print(f"  export WEAVE_TOKEN={token}", soft_wrap=True)
        sys.stdout.flush()

    made = assemble(database, lost_waits_rest_ms=lost_waits_rest_ms)
    serve(made, host=host, port=port, on_ready=ready)


def _dev_token(database: Database) -> str:
    entropy = SystemEntropy()
    order = TokenOrder(
        namespace="default",
        application="default",
        name="dev",
        permissions=frozenset(Permission),
        queues=frozenset(),
        all_queues=True,
        lifetime_ms=None,
    )
    ids = IdSource(SystemClock(), entropy)
    token, _ = create_token(database, order, actor="weave dev", ids=ids, entropy=entropy)
    return token


def server(
    *,
    database: DatabaseUrl = DEFAULT_DATABASE,
    host: str = "127.0.0.1",
    port: int = 8420,
    role: Annotated[Role, Parameter(help="all, or one of the two halves")] = "all",
    pool_size: Annotated[
        int, Parameter(help="database connections for writes, and again for reads")
    ] = 8,
    lost_waits_rest_ms: LostWaitsRest = LOST_WAITS_REST_MS,
    keep_ended: Annotated[
        str | None,
        Parameter(help="prune instances that ended longer ago, like 90d; without it none is"),
    ] = None,
) -> None:
    """Run a server on a database that ``weave db upgrade`` has prepared. Any number of them may
    run. Where the database is down, it waits for it: alive, not ready.
    """
    _log()
    points.arm_from_environment()
    api, engine = role != "engine", role != "api"
    make = partial(
        assemble,
        database,
        api=api,
        engine=engine,
        pool_size=pool_size,
        lost_waits_rest_ms=lost_waits_rest_ms,
        retention_ms=retention(keep_ended) if keep_ended is not None else None,
    )
    if is_a_file(database):
        assembly = make()  # a file that can't be opened now is a mistake, not an outage
    else:
        assembly = assemble_when_reachable(make, host=host, port=port, api=api)

    def ready(url: str) -> None:
        output.as_json({"ready": True, "url": url, "role": role})
        sys.stdout.flush()

    serve(assembly, host=host, port=port, on_ready=ready)


def _log() -> None:
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
