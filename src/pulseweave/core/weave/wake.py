"""Wake: what the engine does for an instance whose continuation is due (WEA-13, WEA-14, PUL-12)."""

from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.settle import settle_stop
from pulseweave.core.weave.states import InstanceState, StopKind


def wake(draft: Draft) -> None:
    """A RUNNING instance: deadline first, then evaluate from the root. A CANCELLING one goes on
    settling.
    """
    if draft.instance.state is InstanceState.RUNNING and draft.instance.expired(draft.now):
        message = "the instance's deadline passed before it was done"
        draft.set_stop(StopKind.FAIL, {"code": "DEADLINE_EXCEEDED", "message": message})
    advance(draft)
    settle_stop(draft)
