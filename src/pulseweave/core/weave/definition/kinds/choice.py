"""``choice``: the steps of the first case whose condition holds, else those of ``else`` (WEA-2)."""

from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.fields import Fields
from pulseweave.core.weave.definition.model import ChoiceNode, SequenceNode
from pulseweave.core.weave.definition.problems import ProblemCode
from pulseweave.core.weave.definition.template import Template
from pulseweave.kernel import canonical

FIELDS = ("cases", "else")
CASE_FIELDS = ("when", "steps")


def _build(builder: Builder, key: str, fields: Fields) -> ChoiceNode | None:
    if not fields.required("cases", "an array of {when, steps}"):
        return None
    conditions: list[Template] = []
    branches: list[SequenceNode | None] = []
    cases = fields.entries("cases", CASE_FIELDS)
    if not cases:
        fields.note("cases", ProblemCode.OUT_OF_BOUNDS, "at least one case is needed")
    for case in cases:
        case.required("when", "the condition, one expression that gives true or false")
        condition = case.condition("when")
        body = None
        if case.required("steps", "the array of the steps of this case"):
            body = builder.sequence(case.raw("steps"), case.at("steps"))
        if condition is not None and body is not None:
            conditions.append(condition)
            branches.append(body)
    if "else" in fields:
        empty = fields.raw("else") == []
        branches.append(None if empty else builder.sequence(fields.raw("else"), fields.at("else")))
    if not conditions:
        return None
    return ChoiceNode(
        key=key,
        place=canonical.pointer(fields.place),
        conditions=tuple(conditions),
        branches=tuple(branches),
    )


CHOICE = Kind(FIELDS, _build)
