"""Records of one instance that wait: quarantined ones and those behind them, in stream order."""

from sqlalchemy import bindparam, select

from pulseweave.core.weave.inbox import StreamEvent
from pulseweave.core.weave.states import WAITING
from pulseweave.store import schema as t
from pulseweave.store.facts.stream import event_from_row
from pulseweave.store.tx import Tx
from pulseweave.store.types import one_of

_x, _e = t.inbox.c, t.result_events.c
_WAITING = (
    select(t.result_events, t.late_reports.c.outcome.label("late_outcome"))
    .select_from(
        t.inbox.join(
            t.result_events, (_e.partition_id == _x.partition_id) & (_e.seq == _x.seq)
        ).outerjoin(t.late_reports, t.late_reports.c.id == _e.late_report_id)
    )
    .where(
        _x.instance_id == bindparam("instance_id"),
        one_of(_x.state, WAITING),
    )
    .order_by(_e.seq)
)


def waiting_events(tx: Tx, instance_id: str) -> list[StreamEvent]:
    """The events behind the waiting records, as the stream has them."""
    rows = tx.rows(_WAITING, {"instance_id": instance_id})
    return [event_from_row(row) for row in rows]
