"""The first schema: identity, Pulse, Weave, receipts and audits, and the stripes that stand for
keys.

Made from the tables as they are while the project is unreleased; from the first release on it is
frozen.
"""

from alembic import op
from sqlalchemy import insert

from pulseweave.store.locks import KEY, OPERATION, STRIPES
from pulseweave.store.schema import metadata, stripes

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    metadata.create_all(connection)
    known = connection.execute(stripes.select()).all()
    if not known:
        rows = [{"kind": kind, "number": n} for kind in (OPERATION, KEY) for n in range(STRIPES)]
        connection.execute(insert(stripes), rows)
