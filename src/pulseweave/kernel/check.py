"""Invariants that stay on in production, before a row is written and after it is read.

A broken one is a bug or a corrupt row, never a client's error: roll back, alarm, answer 500.
"""

_SHOWN_CHARS = 200


class InvariantViolation(Exception):
    """What must always hold did not. ``facts`` are the values that show it."""

    def __init__(self, message: str, facts: dict[str, object] | None = None) -> None:
        super().__init__(message, facts)
        self.message = message
        self.facts = facts or {}

    def __str__(self) -> str:
        told = ", ".join(f"{name}={_shown(value)}" for name, value in self.facts.items())
        return f"{self.message} ({told})" if told else self.message


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def invariant(condition: bool, message: str, **facts: object) -> None:
    """Raise InvariantViolation unless the condition holds. Facts are written out only then."""
    if not condition:
        raise InvariantViolation(message, facts)
