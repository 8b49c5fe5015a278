"""How a poll's answer is classified: by a value at a path of it, or by conditions (WEA-9).

A classification is certain or there is none: an answer that no value names, that no condition
holds for, that more than one holds for, or over which a condition fails, is unclassified and needs
a person (WEA-7).
"""

from collections.abc import Mapping as Map
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pulseweave.core.weave.definition.template import ExpressionError, Scope, Template
from pulseweave.kernel import canonical

#: The name under which conditions read the answer.
RESULT = "result"


class Classification(StrEnum):
    PENDING = "PENDING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByValue:
    """``path``: the parts of a JSON Pointer into the answer; ``values``: canonical text there →
    what it means.
    """

    path: tuple[str, ...]
    values: Map[str, Classification]

    def classify(self, answer: object) -> Classification | None:
        for part in self.path:
            match answer:
                case dict() if part in answer:
                    answer = answer[part]
                case list() if part.isdecimal() and int(part) < len(answer):
                    answer = answer[int(part)]
                case _:
                    return None
        return self.values.get(canonical.encode(answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class ByCondition:
    """Conditions over ``result``, one for each classification that the answer may have."""

    conditions: tuple[tuple[Classification, Template], ...]

    def classify(self, answer: object) -> Classification | None:
        scope = Scope(input=None, steps={}, names={RESULT: answer})
        found = []
        for classification, condition in self.conditions:
            try:
                value = condition.evaluate(scope)
            except ExpressionError:
                return None
            if not isinstance(value, bool):
                return None
            if value:
                found.append(classification)
        return found[0] if len(found) == 1 else None


Mapping: TypeAlias = ByValue | ByCondition
