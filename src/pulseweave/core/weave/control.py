"""Pause, resume and cancel (WEA-12). They move no deadline and leave no review.

Order of refusals: CONTROL_REVISION_CONFLICT, INSTANCE_ENDED, STOP_REQUESTED, DEADLINE_PASSED
(resume).
"""

from dataclasses import replace
from enum import StrEnum
from typing import assert_never

from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.settle import settle_stop
from pulseweave.core.weave.states import InstanceState, StopKind
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject


class ControlVerb(StrEnum):
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    CANCEL = "CANCEL"


def control(
    draft: Draft, verb: ControlVerb, *, expected_control_revision: int, reason: str
) -> Rejected | None:
    """Move the draft by one control command, or say why not."""
    instance = draft.instance
    refusal = _refusal(draft, verb, expected_control_revision)
    if refusal is not None:
        return refusal
    match verb:
        case ControlVerb.PAUSE:
            draft.instance = replace(instance, paused=True)
        case ControlVerb.RESUME:
            draft.instance = replace(instance, paused=False)
            draft.order_continuation()
        case ControlVerb.CANCEL:
            error = {"code": "CANCELLED", "message": reason or "cancelled on request"}
            draft.set_stop(StopKind.CANCEL, error)
            settle_stop(draft)
        case _:
            assert_never(verb)
    return None


def _refusal(draft: Draft, verb: ControlVerb, expected: int) -> Rejected | None:
    instance = draft.instance
    if instance.control_revision != expected:
        return reject(
            "CONTROL_REVISION_CONFLICT",
            f"control_revision is {instance.control_revision}, not {expected}",
            current_control_revision=str(instance.control_revision),
            current_revision=str(instance.revision),
        )
    if instance.ended:
        return reject("INSTANCE_ENDED", f"the instance has ended: {instance.state}")
    if instance.stop is not None:
        first = canonical.parse(instance.stop.error)
        return reject(
            "STOP_REQUESTED",
            f"a stop was requested before: {instance.stop.kind}",
            stop={"kind": instance.stop.kind.value, "error": first},
        )
    expired = instance.expired(draft.now) and instance.state is InstanceState.RUNNING
    if verb is ControlVerb.RESUME and expired:
        return reject(
            "DEADLINE_PASSED",
            "the deadline passed while the instance was paused; it will end FAILED",
        )
    return None
