"""Decide failure: what a failed leaf means for its instance (WEA-8, WEA-16).

Decided in event order while the instance is RUNNING, paused or not. In NEEDS_REVIEW the failed leaf
becomes a review item instead, and in CANCELLING nothing is decided any more: the first stop stands.
"""

from dataclasses import replace
from typing import assert_never

from pulseweave.core.weave.definition.model import Definition, OnFailure, SignalNode
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.states import (
    CloseReason,
    InstanceState,
    LeafState,
    OutputSource,
    ReviewCause,
    StopKind,
)
from pulseweave.kernel import canonical
from pulseweave.kernel.check import invariant

#: The code of a signal that did not come in time.
TIMED_OUT = "WAIT_TIMED_OUT"


def decide_failure(draft: Draft, leaf: Leaf) -> None:
    """Apply the failed leaf's ``on_failure``, where failures are decided at all."""
    invariant(
        leaf.undecided_failure, "only an undecided failure is decided", step_key=leaf.step_key
    )
    if draft.instance.state is not InstanceState.RUNNING:
        return
    match policy_of(draft.definition, leaf):
        case OnFailure.FAIL:
            stop_for(draft, leaf)
        case OnFailure.REVIEW:
            timed_out = error_of(leaf).get("code") == TIMED_OUT
            draft.review(leaf, ReviewCause.TIMED_OUT if timed_out else ReviewCause.FAILED)
        case OnFailure.IGNORE:
            ignore(draft, leaf)
        case policy:
            assert_never(policy)


def policy_of(definition: Definition, leaf: Leaf) -> OnFailure:
    """What the leaf's failure means: a signal that did not come in time has a policy of its own."""
    node = definition.leaves[leaf.node_key]
    if isinstance(node, SignalNode) and error_of(leaf).get("code") == TIMED_OUT:
        return node.on_timeout
    return node.on_failure


def fail(draft: Draft, leaf: Leaf, error: str | None) -> None:
    """The leaf fails with this error, and its ``on_failure`` is applied."""
    failed = replace(leaf, state=LeafState.FAILED, settled_at=draft.now, error=error)
    draft.close_waits(failed, CloseReason.SETTLED)
    draft.set_leaf(failed)
    decide_failure(draft, draft.leaves[leaf.step_key])


def stop_for(draft: Draft, leaf: Leaf) -> None:
    draft.set_stop(StopKind.FAIL, {**error_of(leaf), "step": leaf.step_key})


def stop_at_deadline(draft: Draft) -> None:
    """A RUNNING instance whose deadline has passed is to stop, whoever looks first (WEA-13).

    One in review stays as it is, for the evidence.
    """
    if draft.instance.state is InstanceState.RUNNING and draft.instance.expired(draft.now):
        message = "the instance's deadline passed before it was done"
        draft.set_stop(StopKind.FAIL, {"code": "DEADLINE_EXCEEDED", "message": message})


def ignore(draft: Draft, leaf: Leaf) -> None:
    """The error becomes the output, final, and the flow goes on."""
    error = leaf.error or ""
    output = OutputRef(source=OutputSource.ERROR, id=leaf.id, digest=canonical.digest(error))
    draft.set_leaf(replace(leaf, ignored=True, output=output))
    draft.payloads = {**draft.payloads, leaf.step_key: canonical.parse(error)}


def error_of(leaf: Leaf) -> dict[str, object]:
    error = canonical.parse(leaf.error or "null")
    return error if isinstance(error, dict) else {"code": "FAILED", "message": ""}
