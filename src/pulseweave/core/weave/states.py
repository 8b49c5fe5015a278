"""The closed vocabularies of Weave: states, causes and dispositions, each with its allowed moves.

The database's CHECKs, the documentation's tables and the exhaustive tests are made from these.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class InstanceState(StrEnum):
    """WEA-6. ``paused``, ``stop_kind`` and the deadline are separate facts."""

    RUNNING = "RUNNING"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED = frozenset({InstanceState.SUCCEEDED, InstanceState.FAILED, InstanceState.CANCELLED})

_I = InstanceState
#: From NEEDS_REVIEW only Continue leads on; an ended state leads nowhere.
INSTANCE_TRANSITIONS: Mapping[InstanceState, frozenset[InstanceState]] = MappingProxyType(
    {
        _I.RUNNING: frozenset(
            {_I.NEEDS_REVIEW, _I.CANCELLING, _I.SUCCEEDED, _I.FAILED, _I.CANCELLED}
        ),
        _I.NEEDS_REVIEW: frozenset({_I.RUNNING, _I.CANCELLING}),
        _I.CANCELLING: frozenset({_I.NEEDS_REVIEW, _I.FAILED, _I.CANCELLED}),
        _I.SUCCEEDED: frozenset(),
        _I.FAILED: frozenset(),
        _I.CANCELLED: frozenset(),
    }
)


class StopKind(StrEnum):
    """Why the instance is to end; set once, never withdrawn."""

    CANCEL = "CANCEL"
    FAIL = "FAIL"


class WakeReason(StrEnum):
    """Why the continuation is there."""

    ADVANCE = "ADVANCE"  # evaluate again from the root
    QUOTA = "QUOTA"  # an advance was deferred (PUL-12)
    DEADLINE = "DEADLINE"  # nothing to do before the instance's deadline


class LeafKind(StrEnum):
    TASK = "TASK"


class LeafState(StrEnum):
    ACTIVE = "ACTIVE"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


_L = LeafState
#: Within one activation. A retry makes a new activation and leaves the old one as it is (REC-10).
LEAF_TRANSITIONS: Mapping[LeafState, frozenset[LeafState]] = MappingProxyType(
    {
        _L.ACTIVE: frozenset({_L.NEEDS_REVIEW, _L.SUCCEEDED, _L.FAILED, _L.CANCELLED}),
        _L.NEEDS_REVIEW: frozenset({_L.SUCCEEDED, _L.FAILED}),
        _L.SUCCEEDED: frozenset(),
        _L.FAILED: frozenset({_L.SUCCEEDED, _L.FAILED}),
        _L.CANCELLED: frozenset({_L.SUCCEEDED, _L.FAILED}),
    }
)


class ReviewCause(StrEnum):
    """Why a leaf waits for a person (WEA-7)."""

    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"  # its task is in NEEDS_REVIEW
    OUTPUT_CONTRACT = "OUTPUT_CONTRACT"  # a result breaks the output contract
    FAILED = "FAILED"  # it failed and on_failure is review
    CANCELLED = "CANCELLED"  # cancelled without a stop intent


class OutputSource(StrEnum):
    """Which immutable row holds a leaf's output."""

    TASK = "TASK"  # the settled task: its reporting attempt or its verdict
    CONCLUSION = "CONCLUSION"
    ERROR = "ERROR"  # on_failure ignore: the error is the output


class InboxState(StrEnum):
    PENDING = "PENDING"
    PROCESSED = "PROCESSED"
    QUARANTINED = "QUARANTINED"


#: Records that the events behind them wait for, in order (WEA-5).
WAITING = (InboxState.PENDING, InboxState.QUARANTINED)


class Disposition(StrEnum):
    """What a processed event did."""

    APPLIED = "APPLIED"  # moved its leaf
    EVIDENCE = "EVIDENCE"  # recorded on a leaf in review (WEA-17)
    STALE = "STALE"  # of an activation that is not its leaf's current one (WEA-5)
    LATE = "LATE"  # a fact that came after settlement (PUL-17)


class QuarantineCause(StrEnum):
    """The closed list of reasons for which a pure decision may set a record aside (WEA-5)."""

    OWNERSHIP_MISMATCH = "OWNERSHIP_MISMATCH"
    TASK_REVISION_MISMATCH = "TASK_REVISION_MISMATCH"
    TASK_STATE_MISMATCH = "TASK_STATE_MISMATCH"
    RESULT_MISSING = "RESULT_MISSING"
    DECISION_FAILED = "DECISION_FAILED"
