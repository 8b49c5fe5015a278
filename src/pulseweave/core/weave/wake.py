"""Wake: what the engine does for an instance whose continuation is due (WEA-13, WEA-14, PUL-12)."""

from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import stop_at_deadline
from pulseweave.core.weave.settle import settle_stop


def wake(draft: Draft) -> None:
    """A RUNNING instance: deadline first, then evaluate from the root. A CANCELLING one goes on
    settling.
    """
    stop_at_deadline(draft)
    advance(draft)
    settle_stop(draft)
