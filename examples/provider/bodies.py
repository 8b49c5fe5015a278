"""What callers may send: each field with its form, and a 400 that says what would be right."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from examples.provider.faults import Mode
from examples.provider.ledger import EFFECTS, Refused
from examples.provider.provisioning import STATUS, End

#: The kind of the requests that only read.
QUERY = "query"
FIELDS = dict.fromkeys(EFFECTS, ("order_id",)) | {
    "charge": ("order_id", "amount", "currency"),
    "transfer": ("order_id", "amount", "currency"),
    "refund": ("charge_id",),
    "configuration": ("order_id", "machine"),
}
_KINDS = (*EFFECTS, QUERY, STATUS)
_MODES = tuple(mode.value for mode in Mode)
_ENDS = tuple(end.value for end in End)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


def _is_integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_currency(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 3 and value.isascii() and value.isupper()


#: Field → whether a value has the right form, and how to say what that is.
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "order_id": (_is_text, "a text of 1 to 200 characters"),
    "machine": (_is_text, "a text of 1 to 200 characters"),
    "pending": (lambda value: _is_integer(value, 0, 10**6), "an integer from 0"),
    "end": (lambda value: value in _ENDS, f"one of {', '.join(_ENDS)}"),
    "charge_id": (_is_text, "a text of 1 to 200 characters"),
    "amount": (
        lambda value: _is_integer(value, 1, 10**12),
        "an integer from 1, in the currency's smallest unit",
    ),
    "currency": (_is_currency, "three capital letters, such as EUR"),
    "kind": (lambda value: value in _KINDS, f"one of {', '.join(_KINDS)}"),
    "mode": (lambda value: value in _MODES, f"one of {', '.join(_MODES)}"),
    "times": (lambda value: _is_integer(value, 1, 10**6), "an integer from 1"),
    "delay_ms": (lambda value: _is_integer(value, 0, 3_600_000), "an integer from 0, at most 1 h"),
    "timeout_ms": (lambda value: _is_integer(value, 0, 600_000), "an integer, at most 10 min"),
}


def parse(raw: bytes, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a JSON object. Raises Refused with 400."""
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(400, "invalid_request", f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused(400, "invalid_request", "the body is a JSON object")
    return check(body, required, optional)


def check(
    fields: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The same fields, each of the right form. Raises Refused with 400."""
    for name in required:
        if name not in fields:
            raise Refused(400, "invalid_request", f"{name} is missing: {_FORMS[name][1]}")
    for name, value in fields.items():
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise Refused(400, "invalid_request", f"there is no field {name!r}; there are {known}")
        is_right, told = _FORMS[name]
        if not is_right(value):
            raise Refused(400, "invalid_request", f"{name} is {told}")
    return dict(fields)
