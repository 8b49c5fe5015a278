"""What CEL's library computes: one operator or function on scalars at a time.

Each is a program compiled once. A scalar that the library would change or choke on (an integer past
64 bits, a lone surrogate) is refused before it gets there; an error comes back as a coded failure
without values.
"""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

import cel

from pulseweave.core.weave.definition.expressions.failure import Failure, FailureCode, Meter
from pulseweave.core.weave.definition.expressions.values import (
    has_surrogate,
    int64,
    kind_of,
)


def _compiled(form: str, names: str) -> Mapping[str, cel.Program]:
    return MappingProxyType({name: cel.compile(form.format(name)) for name in names.split()})


ARITHMETIC = _compiled("a {} b", "+ - * / %")
#: Functions of one value: ``int("5")``.
CONVERSIONS = _compiled("{}(a)", "string int double timestamp duration")
#: Methods of a text with one argument: ``name.startsWith("a")``.
PREDICATES = _compiled("a.{}(b)", "contains startsWith endsWith matches")
#: Methods of a timestamp (UTC) or a duration.
PARTS = _compiled(
    "a.{}()",
    "getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear "
    "getHours getMinutes getSeconds getMilliseconds",
)

_PATTERN_COST = 20  # a pattern is compiled anew each time
_DURATION_MAX = timedelta(days=106_751)  # beyond, the library saturates in silence


def compute(program: cel.Program, name: str, arguments: tuple[object, ...], meter: Meter) -> object:
    """The program's value for ``a`` and ``b``. Raises Failure."""
    variables = {
        variable: _computable(argument, name, meter)
        for variable, argument in zip("ab", arguments, strict=False)
    }
    if name == "matches":
        meter.spend(_PATTERN_COST)
    try:
        value: object = program.execute(variables)
    except OverflowError:
        raise Failure(FailureCode.OVERFLOW, f"{name}: the result is out of range") from None
    except ZeroDivisionError:
        raise Failure(FailureCode.DIVISION_BY_ZERO, f"{name}: division by zero") from None
    except (TypeError, RuntimeError, ValueError) as error:
        raise _failure(name, arguments, error) from None
    if isinstance(value, timedelta) and abs(value) >= _DURATION_MAX:
        raise Failure(FailureCode.OVERFLOW, f"{name}: the duration is out of range")
    return value


def _computable(value: object, name: str, meter: Meter) -> object:
    match value:
        case None | bool():
            return value
        case int():
            return int64(name, value)
        case float():
            return float(value)
        case str():
            meter.spend(len(value) >> 6)
            if has_surrogate(value):
                message = f"{name} can't compute with a text that has a lone surrogate"
                raise Failure(FailureCode.NOT_COMPUTABLE, message)
            return value
        case list() | dict():
            raise Failure(FailureCode.WRONG_TYPE, f"{name} is not defined for {kind_of(value)}")
        case _:
            return value


def _failure(name: str, arguments: tuple[object, ...], error: Exception) -> Failure:
    """The library's own texts may hold parts of the payload, so they are not passed on."""
    if isinstance(error, TypeError) or str(error).startswith("Undefined"):
        kinds = " and ".join(kind_of(argument) for argument in arguments)
        return Failure(FailureCode.WRONG_TYPE, f"{name} is not defined for {kinds}")
    return Failure(FailureCode.BAD_ARGUMENT, f"{name} can't make anything of its argument")
