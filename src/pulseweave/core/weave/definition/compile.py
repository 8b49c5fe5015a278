"""From a document, a JSON value, to a definition or to all that is wrong with it (WEA-1).

Compiling is deterministic and touches nothing outside. The digest is that of the document as it was
given, defaults not filled in. What is compiled is the canonical text, as the engine will read it
from its store, so that one digest means one definition whatever the order of keys.
"""

from types import MappingProxyType

from pulseweave.core.weave.definition.builder import Builder
from pulseweave.core.weave.definition.fields import NAME, Fields
from pulseweave.core.weave.definition.kinds import KINDS
from pulseweave.core.weave.definition.model import (
    ChoiceNode,
    Definition,
    MapNode,
    OnFailure,
    PollNode,
    SequenceNode,
    TaskNode,
    around_of,
    leaves_of,
    nodes_of,
)
from pulseweave.core.weave.definition.problems import (
    DefinitionInvalid,
    Problem,
    ProblemCode,
    Problems,
    json_type,
)
from pulseweave.core.weave.definition.references import check_references
from pulseweave.kernel import canonical, limits

FIELDS = (
    "name",
    "version",
    "description",
    "deadline",
    "on_failure",
    "input",
    "output",
    "steps",
)
VERSION_MAX = 2**31 - 1


def compile_definition(document: object) -> Definition:
    """The definition of a document. Raises DefinitionInvalid with every problem."""
    text, value = _canonical(document)
    if not isinstance(value, dict):
        message = f"a definition is an object, not {json_type(value)}"
        raise DefinitionInvalid([Problem("", ProblemCode.BAD_TYPE, message)])
    problems = Problems()
    fields = Fields(value, (), FIELDS, problems)
    name = fields.name("name", "definition name", NAME)
    version = _version(fields)
    on_failure = fields.choice("on_failure", OnFailure.FAIL)
    description = fields.text("description", limits.MESSAGE_CHARS_MAX)
    deadline_ms = fields.duration_ms("deadline")
    input_contract = fields.contract("input")
    output = fields.template("output")
    builder = Builder(KINDS, problems, on_failure)
    root = _root(fields, builder)
    if root is not None:
        check_references(root, output, problems, all_built=builder.all_built)
    if root is None or problems.found:
        raise DefinitionInvalid(problems.found)
    nodes = {node.key: node for node in nodes_of(root) if node.key}
    return Definition(
        name=name,
        version=version,
        description=description,
        digest=canonical.digest(text),
        document_text=text,
        input_contract=input_contract,
        output=output,
        root=root,
        leaves=MappingProxyType({leaf.key: leaf for leaf in leaves_of(root)}),
        nodes=MappingProxyType(nodes),
        around=MappingProxyType(dict(around_of(root))),
        queues=tuple(
            sorted(
                {leaf.queue for leaf in leaves_of(root) if isinstance(leaf, TaskNode | PollNode)}
            )
        ),
        deadline_ms=deadline_ms,
        on_failure=on_failure,
        waits=any(not isinstance(leaf, TaskNode) for leaf in leaves_of(root)),
        scoped=any(isinstance(node, ChoiceNode | MapNode) for node in nodes_of(root)),
    )


def _canonical(document: object) -> tuple[str, object]:
    """The document's text, and its value as the engine will read it."""
    try:
        text = canonical.encode(document, depth_max=limits.JSON_DEPTH_MAX)
    except canonical.InvalidJson as invalid:
        problem = Problem(invalid.pointer or "", ProblemCode.INVALID_JSON, invalid.message)
        raise DefinitionInvalid([problem]) from None
    if len(text) > limits.PAYLOAD_BYTES_MAX:
        message = f"a definition has at most {limits.PAYLOAD_BYTES_MAX} bytes, not {len(text)}"
        raise DefinitionInvalid([Problem("", ProblemCode.OUT_OF_BOUNDS, message)])
    return text, canonical.parse(text)


def _version(fields: Fields) -> int:
    fields.required("version", "an integer from 1, larger for each new content")
    return fields.integer("version", 1, 1, VERSION_MAX)


def _root(fields: Fields, builder: Builder) -> SequenceNode | None:
    if not fields.required("steps", "the array of the definition's steps"):
        return None
    return builder.sequence(fields.raw("steps"), fields.at("steps"))
