"""The exceptions of Weave.

    WeaveError
      Rejected          expected: a stable code, 4xx; no retry with the same facts. Also used as a value.
      Unavailable       nothing was committed; safe to send again (503)
      OutcomeUnknown    may or may not have been committed; repeat the SAME key (503)

InvariantViolation (kernel.check) is none of these: it is a bug or corruption.
"""

from typing import Any

from pulseweave.kernel.check import invariant
from pulseweave.kernel.codes import CODES, Code


class WeaveError(Exception):
    """``code`` is stable, ``detail`` has what a program may want, ``rule`` names the rule behind it."""

    def __init__(
        self, code: str, message: str, *, rule: str | None = None, detail: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.rule = rule
        self.detail = detail or {}

    @property
    def entry(self) -> Code:
        return CODES[self.code]

    @property
    def status(self) -> int:
        return self.entry.status


class Rejected(WeaveError):
    """A refusal. Decisions return it; shells raise it."""

    def with_detail(self, **more: Any) -> "Rejected":
        return Rejected(self.code, self.message, rule=self.rule, detail={**self.detail, **more})


class Unavailable(WeaveError):
    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__("DATABASE_UNAVAILABLE", message, detail=detail)


class OutcomeUnknown(WeaveError):
    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__("OUTCOME_UNKNOWN", message, detail=detail)


def reject(code: str, message: str, *, rule: str | None = None, **detail: Any) -> Rejected:
    """A refusal with a code of the closed table."""
    invariant(code in CODES, "codes are a closed table", code=code)
    return Rejected(code, message, rule=rule, detail=detail)
