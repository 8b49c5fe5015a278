"""``sequence``: steps one after the other, under a key of their own."""

from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.fields import Fields
from pulseweave.core.weave.definition.model import SequenceNode


def _build(builder: Builder, key: str, fields: Fields) -> SequenceNode | None:
    if not fields.required("steps", "the array of the steps in this sequence"):
        return None
    return builder.sequence(fields.raw("steps"), fields.at("steps"), key)


SEQUENCE = Kind(("steps",), _build)
