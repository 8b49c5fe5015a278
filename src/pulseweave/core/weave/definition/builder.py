"""What the kinds of steps share while a definition is built: keys seen, depth, defaults, problems.

The builder knows no kind; it finds a step's kind in the table that it was given and lets that kind
build the step (``kinds``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulseweave.core.weave.definition.fields import KEY, Fields
from pulseweave.core.weave.definition.model import Node, OnFailure, SequenceNode
from pulseweave.core.weave.definition.problems import (
    Place,
    ProblemCode,
    Problems,
    did_you_mean,
    json_type,
)
from pulseweave.kernel import canonical, limits


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of step: the fields that it may have, and how to build it from them.

    ``build`` answers None when problems leave nothing to build; it has noted them then.
    """

    fields: tuple[str, ...]
    build: Callable[["Builder", str, Fields], Node | None]


class Builder:
    """State of one compilation.

    ``on_failure`` is the definition's default for its steps; ``names`` those that the maps around
    the step at hand give to its expressions; ``all_built`` tells whether each step that the
    document has became a node.
    """

    def __init__(
        self, kinds: Mapping[str, Kind], problems: Problems, on_failure: OnFailure
    ) -> None:
        self._kinds = kinds
        self.problems = problems
        self.on_failure = on_failure
        self.names: frozenset[str] = frozenset()
        self._places: dict[str, str] = {}
        self._depth = 0
        self.all_built = True

    def sequence(self, value: object, place: Place, key: str | None = None) -> SequenceNode | None:
        """A list of steps; None when there is none that could be built."""
        if not isinstance(value, list):
            message = f"steps are an array, not {json_type(value)}"
            self.problems.add(place, ProblemCode.BAD_TYPE, message)
            return None
        if not value:
            self.problems.add(place, ProblemCode.OUT_OF_BOUNDS, "at least one step is needed")
        if self._depth >= limits.DEFINITION_DEPTH_MAX:
            message = f"steps are nested deeper than {limits.DEFINITION_DEPTH_MAX}"
            self.problems.add(place, ProblemCode.OUT_OF_BOUNDS, message)
            return None
        self._depth += 1
        built = [self._step(step, (*place, at)) for at, step in enumerate(value)]
        self._depth -= 1
        self.all_built &= None not in built
        children = tuple(node for node in built if node is not None)
        if not children:
            return None
        return SequenceNode(key=key, place=canonical.pointer(place), children=children)

    def _step(self, value: object, place: Place) -> Node | None:
        if not isinstance(value, dict):
            message = f"a step is an object, not {json_type(value)}"
            self.problems.add(place, ProblemCode.BAD_TYPE, message)
            return None
        named = [name for name in value if name in self._kinds]
        if len(named) != 1:
            self._no_kind(value, place, named)
            return None
        kind = self._kinds[named[0]]
        known = (named[0], *kind.fields)
        fields = Fields(value, place, known, self.problems, names=self.names)
        return kind.build(self, self._key(named[0], fields), fields)

    def _no_kind(self, value: Mapping[str, object], place: Place, named: list[str]) -> None:
        known = ", ".join(self._kinds)
        if named:
            message = f"a step has one kind, but {' and '.join(named)} are both here"
            self.problems.add(place, ProblemCode.AMBIGUOUS_KIND, message)
            return
        hint = next((hint for name in value if (hint := did_you_mean(name, self._kinds))), "")
        message = f"a step names its kind and key, like 'task: charge'; the kinds are {known}{hint}"
        self.problems.add(place, ProblemCode.UNKNOWN_KIND, message)

    def _key(self, kind: str, fields: Fields) -> str:
        """The step's key, unique in the whole definition."""
        key = fields.name(kind, "step key", KEY)
        if not key:
            return key
        if key in self._places:
            message = f"the key {key!r} is already that of the step at {self._places[key]}"
            fields.note(kind, ProblemCode.DUPLICATE_KEY, message)
        else:
            self._places[key] = canonical.pointer(fields.place)
            if len(self._places) == limits.STEPS_PER_DEFINITION_MAX + 1:
                message = f"a definition has at most {limits.STEPS_PER_DEFINITION_MAX} steps"
                fields.note(kind, ProblemCode.OUT_OF_BOUNDS, message)
        return key
