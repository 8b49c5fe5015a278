"""Wake: what the engine does for an instance whose continuation is due (WEA-13, WEA-14, PUL-12)."""

from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.due import collect_due
from pulseweave.core.weave.failure import stop_at_deadline
from pulseweave.core.weave.settle import settle_stop


def wake(draft: Draft) -> None:
    """A RUNNING instance: deadline first, then what is due, then evaluate from the root. In review
    only what is due is collected. A CANCELLING one goes on settling.
    """
    stop_at_deadline(draft)
    collect_due(draft)
    advance(draft)
    settle_stop(draft)
