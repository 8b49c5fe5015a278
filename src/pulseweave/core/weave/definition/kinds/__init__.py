"""The kinds of steps, one module each. A kind's name is the field that holds the step's key."""

from collections.abc import Mapping
from types import MappingProxyType

from pulseweave.core.weave.definition.builder import Kind
from pulseweave.core.weave.definition.kinds.parallel import PARALLEL
from pulseweave.core.weave.definition.kinds.sequence import SEQUENCE
from pulseweave.core.weave.definition.kinds.task import TASK

KINDS: Mapping[str, Kind] = MappingProxyType(
    {"task": TASK, "parallel": PARALLEL, "sequence": SEQUENCE}
)
