"""Values that a JSON Schema of our OpenAPI document allows, and some that it doesn't.

Knows the words that msgspec writes; another one is an error, so that nothing goes untried.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Schema = Mapping[str, Any]
Values = SearchStrategy[Any]

_SAID = {"title", "description", "default", "discriminator"}
_WORDS = _SAID | {
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "enum",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
}

TEXTS = st.text(st.characters(exclude_categories=()), max_size=12)
ANYTHING: Values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


class Allowed:
    """Strategies by schema; ``components`` has what references name."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components

    def values(self, schema: Schema) -> Values:
        unknown = schema.keys() - _WORDS
        if unknown:
            raise NotImplementedError(f"words of JSON Schema that nobody reads: {unknown}")
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return st.deferred(lambda: self.values(self._components[name]))
        if "anyOf" in schema:
            return st.one_of([self.values(option) for option in schema["anyOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "const" in schema:
            return st.just(schema["const"])
        return self._of_type(schema)

    def _of_type(self, schema: Schema) -> Values:
        match schema.get("type"):
            case None:
                return ANYTHING
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "integer":
                return st.integers(schema.get("minimum"), schema.get("maximum"))
            case "string":
                return self._texts(schema)
            case "array":
                most = min(schema.get("maxItems", 3), 3)
                items = self.values(schema.get("items", {}))
                return st.lists(items, min_size=schema.get("minItems", 0), max_size=most)
            case "object":
                return self._objects(schema)
            case other:
                raise NotImplementedError(f"no values of type {other}")

    def _texts(self, schema: Schema) -> Values:
        if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        least, most = schema.get("minLength", 0), schema.get("maxLength", 40)
        characters = st.characters(exclude_categories=())
        return st.text(characters, min_size=least, max_size=min(most, 40))

    def _objects(self, schema: Schema) -> Values:
        fields = {name: self.values(of) for name, of in schema.get("properties", {}).items()}
        needed = set(schema.get("required", ()))
        return st.fixed_dictionaries(
            {name: of for name, of in fields.items() if name in needed},
            optional={name: of for name, of in fields.items() if name not in needed},
        )


@st.composite
def nearly(draw: st.DrawFn, values: Values) -> Any:
    """An allowed value with one part replaced by anything, left out, or put beside."""
    value = draw(values)
    if not isinstance(value, dict) or not value:
        return draw(ANYTHING)
    name = draw(st.sampled_from(sorted(value)))
    match draw(st.integers(0, 2)):
        case 0:
            return {**value, name: draw(ANYTHING)}
        case 1:
            return {kept: value[kept] for kept in value if kept != name}
        case _:
            return {**value, draw(TEXTS): draw(ANYTHING)}
