"""Decide failure: what a failed leaf means for its instance (WEA-8, WEA-16).

Decided in event order while the instance is RUNNING, paused or not. In NEEDS_REVIEW the failed leaf
becomes a review item instead, and in CANCELLING nothing is decided any more: the first stop stands.
"""

from dataclasses import replace
from typing import assert_never

from pulseweave.core.weave.definition.model import OnFailure
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf, OutputRef
from pulseweave.core.weave.states import InstanceState, OutputSource, ReviewCause, StopKind
from pulseweave.kernel import canonical
from pulseweave.kernel.check import invariant


def decide_failure(draft: Draft, leaf: Leaf) -> None:
    """Apply the failed leaf's ``on_failure``, where failures are decided at all."""
    invariant(
        leaf.undecided_failure, "only an undecided failure is decided", step_key=leaf.step_key
    )
    if draft.instance.state is not InstanceState.RUNNING:
        return
    match draft.definition.leaves[leaf.node_key].on_failure:
        case OnFailure.FAIL:
            stop_for(draft, leaf)
        case OnFailure.REVIEW:
            draft.review(leaf, ReviewCause.FAILED)
        case OnFailure.IGNORE:
            ignore(draft, leaf)
        case policy:
            assert_never(policy)


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
