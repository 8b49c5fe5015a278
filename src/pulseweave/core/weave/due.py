"""What is due: timers that fire, signals that did not come in time (WEA-10, WEA-11, WEA-16).

Collected in every open state that isn't CANCELLING, paused or in review too. The start of a poll's
next round is no collecting but advancing (``poll.next_round``).
"""

from dataclasses import replace

from pulseweave.core.weave.definition.model import SignalNode
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.failure import TIMED_OUT, fail
from pulseweave.core.weave.leaf import OutputRef
from pulseweave.core.weave.states import (
    InstanceState,
    LeafState,
    OutputSource,
    WaitKind,
    WaitState,
)
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical

_COLLECTING = frozenset({InstanceState.RUNNING, InstanceState.NEEDS_REVIEW})


def collect_due(draft: Draft) -> None:
    """Fire due timers and time out signals, the earliest first."""
    timed = [(wait.next_at, wait.id) for wait in draft.armed() if wait.next_at is not None]
    for at, wait_id in sorted(timed):
        wait = draft.waits[wait_id]
        if draft.instance.state not in _COLLECTING or at > draft.now or not wait.armed:
            continue
        if wait.kind is WaitKind.TIMER:
            fire(draft, wait)
        elif wait.kind is WaitKind.SIGNAL:
            _time_out(draft, wait)


def fire(draft: Draft, wait: Wait) -> None:
    """The timer's time has come; its output is null."""
    draft.close_wait(wait, WaitState.FIRED)
    leaf = draft.leaves[wait.step_key]
    output = OutputRef(source=OutputSource.NULL, id=leaf.id, digest=canonical.digest("null"))
    draft.set_leaf(replace(leaf, state=LeafState.SUCCEEDED, output=output, settled_at=draft.now))
    draft.payloads = {**draft.payloads, leaf.step_key: None}


def _time_out(draft: Draft, wait: Wait) -> None:
    """No signal came. A poll's final signal is then just waited for no more: the poll ends by its
    own limits.
    """
    draft.close_wait(wait, WaitState.TIMED_OUT)
    leaf = draft.leaves[wait.step_key]
    if isinstance(draft.definition.leaves[leaf.node_key], SignalNode):
        message = f"no signal {wait.name} came in time"
        fail(draft, leaf, canonical.encode({"code": TIMED_OUT, "message": message}))
