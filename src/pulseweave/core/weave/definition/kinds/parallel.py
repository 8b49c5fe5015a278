"""``parallel``: named branches side by side, each a sequence; complete when all are."""

from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.fields import KEY, Fields
from pulseweave.core.weave.definition.model import ParallelNode, SequenceNode
from pulseweave.core.weave.definition.problems import ProblemCode, json_type
from pulseweave.kernel import canonical


def _build(builder: Builder, key: str, fields: Fields) -> ParallelNode | None:
    if not fields.required("branches", "an object of named arrays of steps"):
        return None
    value = fields.raw("branches")
    if not isinstance(value, dict):
        message = f"branches are an object of named arrays of steps, not {json_type(value)}"
        fields.note("branches", ProblemCode.BAD_TYPE, message)
        return None
    if not value:
        fields.note("branches", ProblemCode.OUT_OF_BOUNDS, "at least one branch is needed")
    branches: list[tuple[str, SequenceNode]] = []
    for name, steps in value.items():
        place = (*fields.at("branches"), name)
        complaint = KEY.complain("branch name", name)
        if complaint is not None:
            builder.problems.add(place, ProblemCode.BAD_NAME, complaint)
        branch = builder.sequence(steps, place)
        if branch is not None:
            branches.append((name, branch))
    return ParallelNode(key=key, place=canonical.pointer(fields.place), branches=tuple(branches))


PARALLEL = Kind(("branches",), _build)
