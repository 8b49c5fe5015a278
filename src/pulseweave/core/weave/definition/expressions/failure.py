"""Why an evaluation ends without a value, and the budget that bounds it."""

from enum import StrEnum

#: What one evaluation may cost: visits of nodes, values compared or arranged, characters by 64.
EVALUATION_COST_MAX = 1_000_000


class FailureCode(StrEnum):
    """Stable causes; one stands in the error of a leaf that failed so (WEA-20)."""

    NO_SUCH_KEY = "NO_SUCH_KEY"
    INDEX_OUT_OF_RANGE = "INDEX_OUT_OF_RANGE"
    WRONG_TYPE = "WRONG_TYPE"
    BAD_ARGUMENT = "BAD_ARGUMENT"
    OVERFLOW = "OVERFLOW"
    DIVISION_BY_ZERO = "DIVISION_BY_ZERO"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    NOT_COMPUTABLE = (
        "NOT_COMPUTABLE"  # an integer past 64 bits or a lone surrogate, where one computes
    )
    NOT_JSON = "NOT_JSON"
    TOO_LARGE = "TOO_LARGE"
    TOO_DEEP = "TOO_DEEP"
    TOO_COSTLY = "TOO_COSTLY"


class Failure(Exception):
    """Something has no value; ``&&``, ``||`` and quantifiers may find the answer without it."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Exhausted(Exception):
    """The budget is used up; nothing absorbs this."""


class Meter:
    """What is left of one evaluation's budget."""

    __slots__ = ("_left",)

    def __init__(self, budget: int = EVALUATION_COST_MAX) -> None:
        self._left = budget

    def spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise Exhausted
