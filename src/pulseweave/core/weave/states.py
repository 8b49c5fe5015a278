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
    WAIT = "WAIT"  # the earliest time that a wait of it waits for
    DEADLINE = "DEADLINE"  # nothing to do before the instance's deadline


class LeafKind(StrEnum):
    TASK = "TASK"
    POLL = "POLL"
    SIGNAL = "SIGNAL"
    TIMER = "TIMER"


class LeafState(StrEnum):
    ACTIVE = "ACTIVE"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


_L = LeafState
#: Within one activation. A retry makes a new activation and leaves the old one as it is (REC-10);
#: ContinuePoll and RearmWait set the same one to wait again.
LEAF_TRANSITIONS: Mapping[LeafState, frozenset[LeafState]] = MappingProxyType(
    {
        _L.ACTIVE: frozenset({_L.NEEDS_REVIEW, _L.SUCCEEDED, _L.FAILED, _L.CANCELLED}),
        _L.NEEDS_REVIEW: frozenset({_L.ACTIVE, _L.SUCCEEDED, _L.FAILED}),
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
    UNCLASSIFIED = "UNCLASSIFIED"  # an answer that the poll's mapping doesn't classify
    ROUNDS_EXHAUSTED = "ROUNDS_EXHAUSTED"  # no round is left
    QUERY_DEADLINE = "QUERY_DEADLINE"  # the poll's time is up
    TIMED_OUT = "TIMED_OUT"  # no signal came in time, and on_timeout is review
    WAIT_LOST = "WAIT_LOST"  # it waits, and nothing is armed for it (WEA-19)


class OutputSource(StrEnum):
    """Which immutable row holds a leaf's output."""

    TASK = "TASK"  # the settled task: its reporting attempt or its verdict
    CONCLUSION = "CONCLUSION"
    SIGNAL = "SIGNAL"  # the signal's payload
    ERROR = "ERROR"  # on_failure ignore: the error is the output
    NULL = "NULL"  # a timer gives null


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
    SUPERSEDED = "SUPERSEDED"  # of a query whose poll a signal had ended before (WEA-9)


class WaitKind(StrEnum):
    """What an armed wait waits for."""

    SIGNAL = "SIGNAL"
    TIMER = "TIMER"
    ROUND = "ROUND"  # the time of a poll's next round


class WaitState(StrEnum):
    ARMED = "ARMED"
    TAKEN = "TAKEN"  # a signal came
    FIRED = "FIRED"  # its time came
    TIMED_OUT = "TIMED_OUT"
    CLOSED = "CLOSED"


class CloseReason(StrEnum):
    """Why a wait was closed with nothing having come."""

    REVIEW = "REVIEW"  # its leaf went into review (WEA-17)
    STOP = "STOP"  # the instance is to stop (WEA-12)
    SETTLED = "SETTLED"  # its leaf ended otherwise
    RETRY = "RETRY"  # its leaf was retried or resolved


_W = WaitState
#: A wait is closed once; re-arming makes the next generation.
WAIT_TRANSITIONS: Mapping[WaitState, frozenset[WaitState]] = MappingProxyType(
    {
        _W.ARMED: frozenset({_W.TAKEN, _W.FIRED, _W.TIMED_OUT, _W.CLOSED}),
        _W.TAKEN: frozenset(),
        _W.FIRED: frozenset(),
        _W.TIMED_OUT: frozenset(),
        _W.CLOSED: frozenset(),
    }
)


class ScopeKind(StrEnum):
    CHOICE = "CHOICE"
    MAP = "MAP"


class QuarantineCause(StrEnum):
    """The closed list of reasons for which a pure decision may set a record aside (WEA-5)."""

    OWNERSHIP_MISMATCH = "OWNERSHIP_MISMATCH"
    TASK_REVISION_MISMATCH = "TASK_REVISION_MISMATCH"
    TASK_STATE_MISMATCH = "TASK_STATE_MISMATCH"
    RESULT_MISSING = "RESULT_MISSING"
    DECISION_FAILED = "DECISION_FAILED"
