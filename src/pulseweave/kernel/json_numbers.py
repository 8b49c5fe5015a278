"""Numbers of JSON, exactly as they were written.

An integer is an ``int`` of any size up to a bound. Any other number is a ``float`` where the float
writes itself with the same characters, and a ``Literal`` where it doesn't: long decimals,
``1e-400``, ``1E2``, ``1.10`` and ``-0``. So every number comes back with its characters: 1.0 stays
1.0, and two numbers that are written differently have different digests, though they compare equal.

Refused: numbers beyond a float's range (1e400), which nothing could compute with, and endless ones.
"""

import re
from typing import NoReturn, Self

from pulseweave.kernel import limits
from pulseweave.kernel.json_errors import InvalidJson

#: The integers that have at most ``limits.INTEGER_DIGITS_MAX`` digits lie between this and its
#: negative.
INTEGER_BOUND: int = 10**limits.INTEGER_DIGITS_MAX

_INFINITY = float("inf")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SHOWN_CHARS = 40
_SHORT_CHARS = 18


class Literal(float):
    """A number that keeps its characters: computes as the float nearest to it, encodes as written.

    Immutable. Raises InvalidJson for what is no number of JSON, or one that ``read_decimal``
    refuses.
    """

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, text: str) -> Self:
        if _NUMBER.fullmatch(text) is None:
            raise InvalidJson(f"{text[:_SHOWN_CHARS]!r} is no number of JSON")
        self = super().__new__(cls, _in_range(text))
        self._text = text
        return self

    @property
    def text(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._text,)


def read_integer(text: str) -> int | Literal:
    """The value of a JSON number without fraction and exponent."""
    if len(text) <= _SHORT_CHARS and text != "-0":
        return int(text)
    digits = len(text) - text.startswith("-")
    if digits > limits.INTEGER_DIGITS_MAX:
        raise InvalidJson(
            f"an integer of {digits} digits; at most {limits.INTEGER_DIGITS_MAX} are allowed"
        )
    return Literal(text) if text == "-0" else int(text)


def read_decimal(text: str) -> float:
    """The value of any other JSON number: a float, or a Literal."""
    value = _in_range(text)
    return value if repr(value) == text else Literal(text)


def refuse_constant(text: str) -> NoReturn:
    raise InvalidJson(f"{text} is not JSON; null, or a text, can stand for it")


def _in_range(text: str) -> float:
    if len(text) > limits.INTEGER_DIGITS_MAX:
        raise InvalidJson(
            f"a number of {len(text)} characters; at most {limits.INTEGER_DIGITS_MAX} are allowed"
        )
    value = float(text)
    if abs(value) == _INFINITY:
        raise InvalidJson(
            f"the number {text[:_SHOWN_CHARS]} is out of range; a text can carry it exactly"
        )
    return value
