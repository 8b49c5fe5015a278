"""What a worker's call is told: accepted or refused, and what is to be written either way.

A refusal may come with a change: a report under a stale token is refused *and* kept as evidence; a
start after the deadline is refused *and* expires the task.
"""

from dataclasses import dataclass

from pulseweave.core.pulse.change import TaskChange
from pulseweave.kernel.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``change`` None: nothing is written. ``repeated``: the same report again, the same answer."""

    change: TaskChange | None = None
    rejected: Rejected | None = None
    attempt: int | None = None
    lease_ms: int | None = None
    stop_at: int | None = None
    cancel: bool = False
    state: str | None = None
    late_report_id: str | None = None
    repeated: bool = False
