"""Invariants that stay on in production, before a row is written and after it is read."""


class InvariantViolation(Exception):  # noqa: N818
    """A bug or a corrupt row: roll back and raise the alarm. Never a client's error."""

    def __init__(self, message: str, facts: dict[str, object]) -> None:
        told = ", ".join(f"{name}={value!r}" for name, value in facts.items())
        super().__init__(f"{message} ({told})" if told else message)
        self.facts = facts


def invariant(condition: bool, message: str, **facts: object) -> None:
    """Raise InvariantViolation unless the condition holds."""
    if not condition:
        raise InvariantViolation(message, facts)
