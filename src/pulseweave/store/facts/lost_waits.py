"""Where to look for waits that were lost (WEA-19). A leaf found here is only suspected."""

from sqlalchemy import and_, bindparam, exists, or_, select

from pulseweave.core.pulse.task import TaskState
from pulseweave.core.weave.states import LeafKind, LeafState, WaitKind, WaitState
from pulseweave.store import schema as t
from pulseweave.store.tx import Tx
from pulseweave.store.types import one_of

_a, _w = t.activations.c, t.waits.c
_ARMED = exists().where(
    _w.activation_id == _a.id,
    one_of(_w.state, (WaitState.ARMED,)),
    or_(
        one_of(_a.kind, (LeafKind.SIGNAL, LeafKind.TIMER)),
        one_of(_w.kind, (WaitKind.ROUND,)),
    ),
)
_SUSPECTED = (
    select(_a.instance_id)
    .where(
        _a.current.is_not(None),
        one_of(_a.state, (LeafState.ACTIVE,)),
        or_(
            one_of(_a.kind, (LeafKind.SIGNAL, LeafKind.TIMER)),
            and_(
                one_of(_a.kind, (LeafKind.POLL,)),
                one_of(_a.task_state, (TaskState.SUCCEEDED,)),
            ),
        ),
        ~_ARMED,
    )
    .distinct()
    .limit(bindparam("limit"))
)


def instances_with_lost_waits(tx: Tx, limit: int) -> list[str]:
    """Instances with an active leaf that waits for something that is not armed."""
    return [row.instance_id for row in tx.rows(_SUSPECTED, {"limit": limit})]
