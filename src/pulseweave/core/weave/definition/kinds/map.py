"""``map``: the same steps for each item of an array, some at a time (WEA-2, PUL-16)."""

from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.expressions.names import INPUT, STEPS
from pulseweave.core.weave.definition.fields import Fields, NameForm
from pulseweave.core.weave.definition.mapping import RESULT
from pulseweave.core.weave.definition.model import MapNode
from pulseweave.core.weave.definition.problems import ProblemCode
from pulseweave.core.weave.definition.template import compile_template
from pulseweave.kernel import canonical, limits

FIELDS = ("items", "as", "max_concurrency", "steps")
ITEM = "item"
VARIABLE = NameForm(
    r"[A-Za-z_][A-Za-z0-9_]*", "letters, digits and _, and begins with a letter or _", 64
)
_TAKEN = frozenset({INPUT, STEPS, RESULT})


def _build(builder: Builder, key: str, fields: Fields) -> MapNode | None:
    fields.required("items", "the array to go through, like ${ input.orders }")
    if not fields.required("steps", "the array of the steps for each item"):
        return None
    items = fields.template("items") or compile_template([], fields.place, builder.problems)
    item_name = _item_name(builder, fields)
    outer = builder.names
    builder.names = outer | {item_name, f"{item_name}_index"}
    body = builder.sequence(fields.raw("steps"), fields.at("steps"))
    builder.names = outer
    if body is None:
        return None
    most = limits.UNSETTLED_TASKS_PER_INSTANCE_MAX
    return MapNode(
        key=key,
        place=canonical.pointer(fields.place),
        items=items,
        item_name=item_name,
        max_concurrency=fields.integer("max_concurrency", limits.MAP_CONCURRENCY_DEFAULT, 1, most),
        body=body,
    )


def _item_name(builder: Builder, fields: Fields) -> str:
    """What the body calls the item: a name that nothing around it has."""
    name = fields.name("as", "variable", VARIABLE) if "as" in fields else ITEM
    if name in _TAKEN or builder.names & {name, f"{name}_index"}:
        message = f"the name {name!r} is taken here: name this map's item with as"
        fields.problems.add(
            fields.at("as") if "as" in fields else fields.place, ProblemCode.BAD_NAME, message
        )
    return name or ITEM


MAP = Kind(FIELDS, _build)
