"""Settling a stop: what is left of a CANCELLING instance, until it ends (WEA-12, WEA-15).

A stop closes all waits and cancels leaves without tasks; leaves with a task wait for its result. In
the commit in which the last of them is consumed the instance ends as its stop intended.
"""

from dataclasses import replace

from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.states import InstanceState, LeafState, StopKind

_OPEN = frozenset({LeafState.ACTIVE, LeafState.NEEDS_REVIEW})


def settle_stop(draft: Draft) -> None:
    """End a CANCELLING instance whose leaves are all settled."""
    stop = draft.instance.stop
    if stop is None or draft.instance.state is not InstanceState.CANCELLING:
        return
    draft.evaluated()
    if draft.instance.superseded or any(leaf.state in _OPEN for leaf in draft.leaves.values()):
        return
    draft.move(InstanceState.CANCELLED if stop.kind is StopKind.CANCEL else InstanceState.FAILED)
    draft.instance = replace(draft.instance, ended_at=draft.now, error=stop.error)
