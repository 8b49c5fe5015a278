"""What goes wrong with a database, made to happen at one moment of one request."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from pulseweave.kernel import points
from pulseweave.kernel.errors import OutcomeUnknown
from tests.api.world import ApiWorld


@contextmanager
def answer_lost_at(point: str) -> Iterator[None]:
    """The connection is lost during the commit: before it took (``unit.before_commit``) or behind
    (``unit.after_commit``). The server can't tell which.
    """

    def lose(name: str) -> None:
        if name == point:
            raise OutcomeUnknown("the connection was lost during the commit")

    points.install(lose)
    try:
        yield
    finally:
        points.install(None)


@contextmanager
def database_away(world: ApiWorld) -> Iterator[None]:
    """The SQLite file can't be opened, as when its disk is gone; it comes back unchanged."""
    folder = Path(str(make_url(world.server.url).database)).parent
    aside = folder.with_name(folder.name + "-aside")
    world.database.reader.dispose()
    world.database.writer.dispose()
    folder.rename(aside)
    try:
        yield
    finally:
        aside.rename(folder)
