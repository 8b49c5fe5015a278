"""Waits: what a signal, a timer or a poll between two rounds waits for (WEA-9 to WEA-11).

A wait is armed once and closed once (WAIT_TRANSITIONS); re-arming makes the next generation with
the same name, correlation and instants. What may never happen: a closed wait moves; a deadline or
due time moves; a signal is taken by two waits.
"""

from dataclasses import dataclass

from pulseweave.core.weave.states import CloseReason, WaitKind, WaitState


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Facts of one wait. ``due_at``: when a timer fires or a round is due; ``deadline_at``: until
    when a signal is waited for.
    """

    id: str
    namespace: str
    instance_id: str
    activation_id: str
    step_key: str
    kind: WaitKind
    generation: int
    name: str | None
    correlation: str | None
    due_at: int | None
    deadline_at: int | None
    armed_at: int
    state: WaitState = WaitState.ARMED
    reason: CloseReason | None = None
    closed_at: int | None = None
    signal_id: str | None = None

    @property
    def armed(self) -> bool:
        return self.state is WaitState.ARMED

    @property
    def next_at(self) -> int | None:
        """When something is to be done about it if nothing comes."""
        return self.deadline_at if self.kind is WaitKind.SIGNAL else self.due_at


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSignal:
    """A signal that was accepted and that no wait has taken (WEA-10)."""

    id: str
    name: str
    correlation: str | None
    digest: str
    accepted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalTaken:
    """A kept signal is consumed, once, by one wait."""

    signal_id: str
    wait_id: str
    at: int
