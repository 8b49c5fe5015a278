"""Contracts: JSON Schema 2020-12 for the input of an instance and the output of a step (WEA-2).

Every reference is local (``#…``): nothing is ever fetched. ``format`` is an annotation and not
asserted. A ``pattern`` has neither look-around nor back-references, so that it is matched in linear
time. Numbers compare exactly, whatever their size; only one that is closer to zero than 1e-400
counts as zero. Texts with lone surrogates, which the validator cannot take, are checked in a copy
that has one private character in place of each; lengths, equality and patterns come out the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice

import jsonschema_rs

from pulseweave.core.weave.definition.expressions.values import has_surrogate
from pulseweave.core.weave.definition.problems import Place, ProblemCode, Problems
from pulseweave.kernel import canonical

VIOLATIONS_MAX = 50

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LINEAR = jsonschema_rs.RegexOptions()
_META = jsonschema_rs.Draft202012Validator({"$ref": _DIALECT}, offline=True)
_MASK = "the value"  # stands for the payload in messages
_EXPONENT_MAX = 400
_TYPES = "array, boolean, integer, null, number, object, string"
#: Keywords whose values are instances, not schemas.
_INSTANCES = frozenset({"const", "enum", "default", "examples"})
_REFERENCES = ("$ref", "$dynamicRef")

_SURROGATES = range(0xD800, 0xE000)
_PRIVATE = 0xF_0000
_REPLACE = {code: _PRIVATE + code - _SURROGATES.start for code in _SURROGATES}
_RESTORE = {private: code for code, private in _REPLACE.items()}


@dataclass(frozen=True, slots=True)
class Violation:
    """Where a value breaks its contract, and how. The message never repeats the value."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class Contract:
    """A compiled schema. Immutable, safe to share between threads."""

    _validator: jsonschema_rs.Draft202012Validator

    def check(self, value: object) -> list[Violation]:
        """What is wrong with a JSON value, VIOLATIONS_MAX at most; empty: it meets the contract."""
        errors = self._validator.iter_errors(_portable(value))
        return [
            Violation(
                canonical.pointer(_restored(str(part)) for part in error.instance_path),
                _restored(error.message),
            )
            for error in islice(errors, VIOLATIONS_MAX)
        ]


def compile_contract(schema: object, place: Place, problems: Problems) -> Contract | None:
    """The contract of a schema that stands at ``place``; None when it has problems."""
    checked = _portable(schema)
    found = sorted(set(_complaints(checked, ())), key=repr)
    if not found:
        try:
            _validator(checked)  # its messages show the schema; the next one's hide the payload
            return Contract(_validator(checked, mask=_MASK))
        except ValueError as error:  # jsonschema_rs.ValidationError, in all cases that are known
            inner = tuple(getattr(error, "instance_path", ()))
            found = [(inner, _explained(str(getattr(error, "message", error))))]
    for inner, message in found:
        restored = [_restored(part) if isinstance(part, str) else part for part in inner]
        problems.add((*place, *restored), ProblemCode.BAD_CONTRACT, _restored(message))
    return None


def _validator(schema: object, mask: str | None = None) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        schema,  # type: ignore[arg-type]  # the meta-schema has been asked
        validate_formats=False,
        pattern_options=_LINEAR,
        offline=True,
        mask=mask,
    )


def _complaints(schema: object, place: Place) -> Iterator[tuple[Place, str]]:
    for error in _META.iter_errors(schema):
        wrong_type = error.schema_path[-3:] == ["properties", "type", "anyOf"]
        message = f"a type is one of {_TYPES}, or a list of them" if wrong_type else error.message
        yield tuple(error.instance_path), message
    yield from _foreign(schema, place)


def _foreign(schema: object, place: Place) -> Iterator[tuple[Place, str]]:
    """References that lead out of the schema, and other dialects."""
    match schema:
        case list():
            for at, item in enumerate(schema):
                yield from _foreign(item, (*place, at))
        case dict():
            for key, child in schema.items():
                inner = (*place, key)
                if key in _REFERENCES and isinstance(child, str) and not child.startswith("#"):
                    message = (
                        f"the reference {child!r} is not local: only references like #/$defs/x are"
                    )
                    yield inner, message
                elif key == "$schema" and isinstance(child, str) and child.rstrip("#") != _DIALECT:
                    yield inner, f"contracts are written in {_DIALECT}"
                elif key not in _INSTANCES:
                    yield from _foreign(child, inner)
        case _:
            pass


def _explained(message: str) -> str:
    """A hint where the usual reason is not what the message suggests."""
    if message.endswith('is not a "regex"'):
        return f"{message}; look-around and back-references are not supported"
    return message


def _portable(value: object) -> object:
    """A copy that the validator can take, and that it judges as it would the original."""
    match value:
        case canonical.Literal():
            return _number(value)
        case str():
            return value.translate(_REPLACE) if has_surrogate(value) else value
        case list():
            return list(map(_portable, value))
        case dict():
            keys, values = map(_portable, value), map(_portable, value.values())
            return dict(zip(keys, values, strict=True))
        case _:
            return value


def _number(literal: canonical.Literal) -> Decimal | float:
    try:
        exact = Decimal(literal.text)
    except InvalidOperation:
        return float(literal)
    return exact if abs(exact.adjusted()) <= _EXPONENT_MAX else float(literal)


def _restored(text: str) -> str:
    return text if text.isascii() else text.translate(_RESTORE)
