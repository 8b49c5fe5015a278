"""The exceptions of Weave.

    WeaveError            a stable code of ``codes.CODES``
      Rejected            expected: the same facts give the same refusal
        InvalidCommand      400, 413, 422: its form or content
        Denied              401, 403
        NotFound            404, 405
        Conflict            409, 410: the facts are against it
        QuotaExceeded       429
      Unavailable         nothing was committed; safe to send again (503)
      OutcomeUnknown      may or may not have been committed; repeat the SAME key (503)

InvariantViolation (``kernel.check``) is none of these: it is a bug or corruption. Decisions return
a refusal as a value, shells raise it.
"""

from copy import copy
from typing import Any, Self

from pulseweave.kernel.check import invariant
from pulseweave.kernel.codes import CODES, Code


class WeaveError(Exception):
    """``message`` says what was wrong, for people; ``detail`` says it for programs, as JSON.

    ``rule`` is the id of the rule behind it: the one given, else the first of the code's.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        rule: str | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        known = CODES.get(code)
        self.rule = rule if rule is not None or known is None else next(iter(known.rules), None)
        self.detail = detail or {}

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def entry(self) -> Code:
        """The code's entry; a code of a newer server counts as INTERNAL."""
        return CODES.get(self.code, CODES["INTERNAL"])

    @property
    def status(self) -> int:
        return self.entry.status


def _restored(
    kind: type[WeaveError], args: tuple[object, ...], fields: dict[str, Any]
) -> WeaveError:
    """A copy or an unpickled one, whatever the arguments of the class are."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class Rejected(WeaveError):
    """A refusal."""

    def with_detail(self, **more: Any) -> Self:
        """The same refusal with more detail."""
        fuller = copy(self)
        fuller.detail = {**self.detail, **more}
        return fuller


class InvalidCommand(Rejected):
    """The form or the content of the command is wrong."""


class Denied(Rejected):
    """No credential, or one that doesn't suffice."""


class NotFound(Rejected):
    """There is no such thing, or none that the credential may know of."""


class Conflict(Rejected):
    """The facts are against the command."""


class QuotaExceeded(Rejected):
    """A quota is full."""


class Unavailable(WeaveError):
    """Nothing was committed; the same command is safe to send again."""

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__("DATABASE_UNAVAILABLE", message, detail=detail)


class OutcomeUnknown(WeaveError):
    """The command may or may not have been committed; only the SAME key is safe to send again."""

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__("OUTCOME_UNKNOWN", message, detail=detail)


_KINDS: dict[int, type[Rejected]] = {
    400: InvalidCommand,
    401: Denied,
    403: Denied,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    410: Conflict,
    413: InvalidCommand,
    422: InvalidCommand,
    429: QuotaExceeded,
}


def kind_of_refusal(status: int) -> type[Rejected]:
    """The class of the refusals with an HTTP status."""
    return _KINDS.get(status, Rejected)


def reject(code: str, message: str, *, rule: str | None = None, **detail: Any) -> Rejected:
    """A refusal with a code of the closed table, in the class of its status; not raised here."""
    known = CODES.get(code)
    invariant(known is not None and known.status < 500, "refusals have a known code", code=code)
    return kind_of_refusal(CODES[code].status)(code, message, rule=rule, detail=detail)
