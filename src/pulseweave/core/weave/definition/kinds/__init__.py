"""The kinds of steps, one module each. A kind's name is the field that holds the step's key."""

from collections.abc import Mapping
from types import MappingProxyType

from pulseweave.core.weave.definition.builder import Kind
from pulseweave.core.weave.definition.kinds.choice import CHOICE
from pulseweave.core.weave.definition.kinds.map import MAP
from pulseweave.core.weave.definition.kinds.parallel import PARALLEL
from pulseweave.core.weave.definition.kinds.poll import POLL
from pulseweave.core.weave.definition.kinds.sequence import SEQUENCE
from pulseweave.core.weave.definition.kinds.signal import SIGNAL
from pulseweave.core.weave.definition.kinds.task import TASK
from pulseweave.core.weave.definition.kinds.timer import TIMER

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "task": TASK,
        "poll": POLL,
        "signal": SIGNAL,
        "timer": TIMER,
        "parallel": PARALLEL,
        "sequence": SEQUENCE,
        "choice": CHOICE,
        "map": MAP,
    }
)
