"""Random JSON values, as the kernel represents them."""

from hypothesis import strategies as st

from pulseweave.kernel.canonical import Literal
from pulseweave.kernel.json_numbers import INTEGER_BOUND, read_decimal

#: Any string of JSON, lone surrogates and NUL included.
texts = st.text(st.characters(exclude_categories=()), max_size=20)

_number_texts = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})\.[0-9]{1,30}([eE][+-]?[0-9]{1,3})?", fullmatch=True
)


def _in_range(text: str) -> bool:
    return abs(float(text)) != float("inf")


literals = _number_texts.filter(_in_range).map(read_decimal)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-INTEGER_BOUND + 1, INTEGER_BOUND - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | literals
    | st.just(Literal("-0"))
    | texts
)

values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


def shape(value: object) -> object:
    """Equal for two values that are the same JSON, down to the characters of their numbers."""
    match value:
        case bool() | None | str():
            return (type(value).__name__, value)
        case int() | float():
            return ("number", repr(value))
        case list():
            return [shape(child) for child in value]
        case dict():
            return {key: shape(child) for key, child in value.items()}
        case _:
            raise AssertionError(f"no JSON: {value!r}")
