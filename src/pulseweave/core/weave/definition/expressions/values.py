"""Values as an expression sees them: JSON's, and timestamps and durations between functions."""

import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import cast

from pulseweave.core.weave.definition.expressions.failure import Failure, FailureCode, Meter

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind_of(value: object) -> str:
    """CEL's name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            return "list"
        case dict():
            return "map"
        case datetime():
            return "timestamp"
        case _:
            return "duration"  # there is nothing else


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def int64(name: str, value: int) -> int:
    """The integer, if the library can compute with it exactly."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    message = f"{name} computes with integers of 64 bits, not with larger ones"
    raise Failure(FailureCode.NOT_COMPUTABLE, message)


def same(left: object, right: object, meter: Meter) -> bool:
    """CEL's ``==``: numbers by value, exactly; other types only with their own; deeply."""
    meter.spend(1)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            same(one, other, meter) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same(value, right[key], meter) for key, value in left.items()
        )
    if is_number(left) and is_number(right):
        return left == right
    if isinstance(left, str) and isinstance(right, str):
        meter.spend(len(left) >> 6)
    return kind_of(left) == kind_of(right) and left == right


def order(symbol: str, left: object, right: object) -> bool:
    """CEL's ``< <= > >=`` within a type, and between int and double, exactly."""
    comparable = kind_of(left) == kind_of(right) or (is_number(left) and is_number(right))
    if not comparable or kind_of(left) in {"null", "list", "map"}:
        raise Failure(
            FailureCode.WRONG_TYPE,
            f"{symbol} does not compare {kind_of(left)} with {kind_of(right)}",
        )
    # of one ordered type, whichever it is
    return _ORDERS[symbol](cast("float", left), cast("float", right))


def has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)
