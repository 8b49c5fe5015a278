"""``python -m bench``: the measurements on SQLite and on a throw-away durable PostgreSQL.

``--instances N`` for the process runs, ``--only cost|processes``, ``--database sqlite|postgresql``.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import cost, processes
from tests.servers.postgres import PostgresServer

console = Console(highlight=False)


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[Iterator[str]]:
    """URLs of new empty databases, one after the other."""
    if kind == "sqlite":
        yield (f"sqlite:///{folder / f'bench{n}.db'}" for n in range(1000))
        return
    with PostgresServer(durable=True) as server:
        yield (server.create_database(f"bench{n}") for n in range(1000))


def show_costs(kind: str, urls: Iterator[str]) -> None:
    table = Table(
        "BATCH", "STEPS", "STEPS/S", "TRANSACTIONS/STEP", "STATEMENTS/STEP", "ROW WRITES/STEP",
        title=f"cost of a step on {kind}, in process", box=None,
    )  # fmt: skip
    for batch, rounds in ((1, 40), (20, 20), (100, 6)):
        found = cost.measure(next(urls), batch, rounds)
        table.add_row(
            str(batch),
            str(found.steps),
            f"{found.steps_per_second:.0f}",
            f"{found.transactions:.2f}",
            f"{found.statements:.2f}",
            f"{found.row_writes:.2f}",
        )
    console.print(table)


def show_throughput(kind: str, urls: Iterator[str], folder: Path, instances: int) -> None:
    with console.status(f"{instances} instances on {kind}"):
        found = processes.measure(next(urls), folder, instances, slots=200)
    console.print(
        f"{kind}: {found.instances} instances of 3 steps in {found.seconds:.1f} s: "
        f"[bold]{found.steps_per_second:.0f} steps/s[/]; server peak {found.server_mb:.0f} MB, "
        f"CPU server {found.server_cpu_s:.1f} s, worker {found.worker_cpu_s:.1f} s"
    )


def main() -> None:
    options = argparse.ArgumentParser(prog="bench", description=__doc__)
    options.add_argument("--instances", type=int, default=1000)
    options.add_argument("--only", choices=("cost", "processes"))
    options.add_argument("--database", choices=("sqlite", "postgresql"))
    given = options.parse_args()
    for kind in ("sqlite", "postgresql"):
        if given.database not in (None, kind):
            continue
        with (
            tempfile.TemporaryDirectory(prefix="weave-bench-") as made,
            databases(kind, Path(made)) as urls,
        ):
            if given.only != "processes":
                show_costs(kind, urls)
            if given.only != "cost":
                show_throughput(kind, urls, Path(made), given.instances)


main()
