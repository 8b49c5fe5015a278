"""How the databases run what Pulse asks of them: by its indexes, whatever the size of the tables.

A scan would be slow on SQLite, where it was seen: there a partial index serves only a statement
that says its condition. On MariaDB it would be wrong, for what is scanned there is locked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event

from pulseweave.core.pulse.policy import Effect
from tests.pulse.world import World, failed, succeeded, unknown

Statements = dict[str, Any]


@contextmanager
def recorded(world: World) -> Iterator[Statements]:
    """SQL text → its parameters, for what is executed meanwhile."""
    found: Statements = {}

    def note(_: Connection, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if not isinstance(parameters, list):
            found[statement] = parameters

    engines = {world.database.writer, world.database.reader}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


def a_little_of_everything(world: World) -> None:
    world.application(max_open_tasks=100)
    world.queue(max_running=10, max_open=100)
    for key in (None, None, None, "k", "k"):
        world.create(concurrency_key=key, effect=Effect.IDEMPOTENT)
    world.claim(2)
    first, *others = world.claim(10)
    world.claim(10)
    world.start(first)
    world.report(first, unknown())
    world.report(first, succeeded())
    for lease in others:
        world.start(lease)
        world.heartbeat(lease)
        world.report(lease, failed(retryable=False))
    world.pass_ms(20_000)
    world.sweep()
    world.promote()
    world.set_gate("instance", is_open=False)


def explain(world: World, statement: str, parameters: Any) -> list[Any]:
    """The plan's rows, with names for their columns."""
    prefix = "EXPLAIN QUERY PLAN" if world.database.capabilities.name == "sqlite" else "EXPLAIN"
    with world.database.writer.connect() as connection:
        if world.database.capabilities.name == "postgresql":
            connection.exec_driver_sql("SET enable_seqscan = off")
        return list(connection.exec_driver_sql(f"{prefix} {statement}", parameters))


def scans_sqlite(rows: list[Any]) -> list[str]:
    return [row.detail for row in rows if row.detail.startswith("SCAN ")]


def scans_postgresql(rows: list[Any]) -> list[str]:
    lines = [row[0] for row in rows]
    return [line for line in lines if "Seq Scan" in line or "Function Scan" in line]


def scans_mariadb(rows: list[Any]) -> list[str]:
    return [f"SCAN {row.table}" for row in rows if row.type in ("ALL", "index")]


SCANS: dict[str, Callable[[list[Any]], list[str]]] = {
    "sqlite": scans_sqlite,
    "postgresql": scans_postgresql,
    "mariadb": scans_mariadb,
}
#: The rows that a statement brings along are all looked at.
BROUGHT_ALONG = ("SCAN json_each", "Function Scan on json_", "SCAN v")
TABLES = ("tasks", "attempts", "late_reports", "held_keys", "result_partitions")


def test_no_statement_scans_a_table(world: World) -> None:
    name = world.database.capabilities.name
    with recorded(world) as statements:
        a_little_of_everything(world)
    looked_at = 0
    for statement, parameters in statements.items():
        words = statement.replace('"', " ").replace("`", " ").split()
        locks = statement.endswith(("FOR UPDATE", "SKIP LOCKED")) or "SELECT" not in words
        if not set(words) & set(TABLES) or words[0] == "INSERT":
            continue
        if name == "mariadb" and not locks:
            continue  # what is only read may be scanned while the table is small
        plan = explain(world, statement, parameters)
        scans = [s for s in SCANS[name](plan) if not any(b in s for b in BROUGHT_ALONG)]
        assert scans == [], statement
        looked_at += 1
    assert looked_at > 8


@pytest.mark.rule("PUL-10")
def test_the_claim_index_serves_the_claim(world: World) -> None:
    world.create()
    with recorded(world) as statements:
        world.claim()
    name = world.database.capabilities.name
    claims = [
        (statement, parameters)
        for statement, parameters in statements.items()
        if "ORDER BY tasks.priority_order" in statement
    ]
    assert claims
    for statement, parameters in claims:
        plan = "\n".join(str(tuple(row)) for row in explain(world, statement, parameters))
        assert "ix_tasks_claim" in plan, f"{name}: {plan}"
