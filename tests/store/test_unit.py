"""The unit of work: whole or not at all, bounded retries, and honesty about a lost commit."""

import threading

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, select, update

from pulseweave.kernel import points
from pulseweave.kernel.errors import OutcomeUnknown, Unavailable
from pulseweave.store.engine import Database, open_database
from pulseweave.store.errors import Moved, StaleWrite
from pulseweave.store.setwise import SetUpdate
from pulseweave.store.tx import Tx
from pulseweave.store.types import Key, Payload
from pulseweave.txn.unit import read, run
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import DatabaseServer

metadata = MetaData()
box = Table(
    "box",
    metadata,
    Column("id", Key(20), primary_key=True),
    Column("n", Integer, nullable=False),
    Column("note", Payload),
    Column("mark", Key(20)),
)
_ALL = select(box).order_by(box.c.id)
_ADD = update(box).where(box.c.id == bindparam("of_id")).values(n=box.c.n + bindparam("more"))


@pytest.fixture
def boxes(database: Database) -> Database:
    metadata.create_all(database.writer)
    rows = [{"id": name, "n": 0, "note": None, "mark": None} for name in "abc"]
    run(database, lambda tx: tx.insert_many(box, rows))
    return database


def held(database: Database) -> dict[str, int]:
    return {row.id: row.n for row in read(database, lambda tx: tx.rows(_ALL, {}))}


def add(tx: Tx, name: str, more: int = 1) -> None:
    tx.expect(_ADD, {"of_id": name, "more": more}, rows=1, what="box")


def test_what_raises_leaves_nothing_behind(boxes: Database) -> None:
    def work(tx: Tx) -> None:
        add(tx, "a")
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        run(boxes, work)
    assert held(boxes) == {"a": 0, "b": 0, "c": 0}


def test_a_write_that_meets_other_rows_rolls_back_and_is_run_again(boxes: Database) -> None:
    tries: list[int] = []

    def work(tx: Tx) -> None:
        tries.append(1)
        add(tx, "a")
        add(tx, "a" if len(tries) == 3 else "missing")

    run(boxes, work)
    assert len(tries) == 3
    assert held(boxes)["a"] == 2
    assert boxes.retries == 2


def test_retries_are_bounded(boxes: Database) -> None:
    tries: list[int] = []

    def work(_: Tx) -> None:
        tries.append(1)
        raise Moved("again")

    with pytest.raises(Unavailable):
        run(boxes, work, attempts=4)
    assert len(tries) == 4


def test_a_probe_that_finds_nothing_takes_no_write_lock(database_url: str, boxes: Database) -> None:
    other = open_database(database_url)
    entered, leave = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        add(tx, "a")
        entered.set()
        leave.wait(20)

    writer = threading.Thread(target=run, args=(other, hold))
    writer.start()
    entered.wait(20)
    seen = run(boxes, lambda tx: len(tx.rows(_ALL, {})), probe=lambda _: False)
    leave.set()
    writer.join()
    other.close()
    assert seen == 3


def test_many_rows_are_updated_as_expected_or_not_at_all(boxes: Database) -> None:
    change = SetUpdate(box, keys=("id",), expect=("n", "mark"), set=("n", "note", "mark"))

    def rows(*expected: int) -> list[dict[str, object]]:
        return [
            {
                "id": name,
                "expect_n": n,
                "expect_mark": None,
                "n": n + 5,
                "note": '"\\u0000 \\ud800 \\u00e9"',
                "mark": None,
            }
            for name, n in zip("abc", expected, strict=True)
        ]

    run(boxes, lambda tx: tx.update_many(change, rows(0, 0, 0)))
    assert held(boxes) == {"a": 5, "b": 5, "c": 5}
    notes = {row.note for row in read(boxes, lambda tx: tx.rows(_ALL, {}))}
    assert notes == {'"\\u0000 \\ud800 \\u00e9"'}

    def stale(tx: Tx) -> None:
        with pytest.raises(StaleWrite):
            tx.update_many(change, rows(5, 4, 5))
        raise KeyError

    with pytest.raises(KeyError):
        run(boxes, stale)
    assert held(boxes) == {"a": 5, "b": 5, "c": 5}


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_deadlock_victim_runs_again_whole(request: pytest.FixtureRequest, kind: str) -> None:
    fixture = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}[kind]
    server: DatabaseServer = request.getfixturevalue(fixture)
    name = f"deadlock_{kind}"
    opened = open_database(server.create_database(name))
    metadata.create_all(opened.writer)
    rows = [{"id": one, "n": 0, "note": None, "mark": None} for one in "ab"]
    run(opened, lambda tx: tx.insert_many(box, rows))
    meeting = threading.Barrier(2, timeout=20)
    tries = {"ab": 0, "ba": 0}

    def cross(order: str) -> None:
        def work(tx: Tx) -> None:
            tries[order] += 1
            add(tx, order[0])
            if tries[order] == 1:
                meeting.wait()
            add(tx, order[1])

        run(opened, work)

    threads = [threading.Thread(target=cross, args=(order,)) for order in tries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(opened) == {"a": 2, "b": 2}
    assert sum(tries.values()) == 3
    assert opened.retries == 1
    opened.close()
    server.drop_database(name)


@pytest.mark.parametrize("server_type", [PostgresServer, MariadbServer])
def test_a_database_that_dies_is_unavailable_and_then_serves_again(
    server_type: type[DatabaseServer],
) -> None:
    with server_type(durable=False) as server:
        opened = open_database(server.create_database("dies"))
        metadata.create_all(opened.writer)
        rows = [{"id": "a", "n": 0, "note": None, "mark": None}]
        run(opened, lambda tx: tx.insert_many(box, rows))

        def work(tx: Tx) -> None:
            add(tx, "a")
            if server.running:
                server.kill()
            add(tx, "a")

        with pytest.raises(Unavailable):
            run(opened, work, attempts=2)
        server.restart()
        run(opened, lambda tx: add(tx, "a"))
        assert held(opened) == {"a": 1}
        opened.close()


@pytest.mark.parametrize("server_type", [PostgresServer, MariadbServer])
def test_a_connection_lost_during_the_commit_is_an_unknown_outcome(
    server_type: type[DatabaseServer],
) -> None:
    with server_type(durable=False) as server:
        opened = open_database(server.create_database("lost"))
        metadata.create_all(opened.writer)
        rows = [{"id": "a", "n": 0, "note": None, "mark": None}]
        run(opened, lambda tx: tx.insert_many(box, rows))

        def die(name: str) -> None:
            if name == "unit.before_commit":
                server.kill()

        points.install(die)
        try:
            with pytest.raises(OutcomeUnknown):
                run(opened, lambda tx: add(tx, "a"))
        finally:
            points.install(None)
        server.restart()
        assert held(opened)["a"] in (0, 1)
        opened.close()


@pytest.mark.rule("PUL-15")
def test_the_clock_is_the_databases_and_is_read_after_the_last_lock(database: Database) -> None:
    def work(tx: Tx) -> tuple[int, int, int]:
        first = tx.now()
        same = tx.now()
        later = tx.clock_now()
        return first, same, later

    first, same, later = run(database, work)
    assert first == same <= later
    assert abs(later - database.clock.now()) < 5_000_000


def test_a_name_is_compared_byte_by_byte(boxes: Database) -> None:
    more = [{"id": name, "n": 1, "note": None, "mark": None} for name in ("A", "á")]
    run(boxes, lambda tx: tx.insert_many(box, more))
    assert [row.id for row in read(boxes, lambda tx: tx.rows(_ALL, {}))] == sorted(
        ["a", "b", "c", "A", "á"]
    )
    found = read(boxes, lambda tx: tx.rows(select(box).where(box.c.id == "a"), {}))
    assert len(found) == 1


def test_reads_see_one_snapshot(database_url: str, boxes: Database) -> None:
    other = open_database(database_url)

    def work(tx: Tx) -> tuple[int, int]:
        before = sum(row.n for row in tx.rows(_ALL, {}))
        run(other, lambda writer: add(writer, "a", 7))
        return before, sum(row.n for row in tx.rows(_ALL, {}))

    assert read(boxes, work) == (0, 0)
    other.close()


def test_passwords_are_never_told(postgres_server: PostgresServer) -> None:
    url = postgres_server.url("postgres")
    opened = open_database(url)
    assert opened.url.password
    assert opened.url.password not in repr(opened)
    opened.close()
