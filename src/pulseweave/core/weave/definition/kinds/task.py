"""``task``: a leaf that a worker executes through a queue.

``task_node`` reads what a poll's query has too.
"""

from pulseweave.core.pulse.policy import DEFAULT_BACKOFF, Backoff, Effect
from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.fields import HANDLER, NAME, Fields
from pulseweave.core.weave.definition.model import TaskNode
from pulseweave.core.weave.definition.problems import ProblemCode
from pulseweave.core.weave.definition.template import compile_template
from pulseweave.kernel import canonical, limits

FIELDS = (
    "queue",
    "handler",
    "input",
    "output",
    "effect",
    "max_attempts",
    "backoff",
    "attempt_timeout",
    "lease",
    "deadline",
    "start_within",
    "priority",
    "concurrency_key",
    "business_key",
    "on_failure",
)
BACKOFF_FIELDS = ("initial", "factor", "max", "jitter")
FACTOR_MAX = 1000


def _build(builder: Builder, key: str, fields: Fields) -> TaskNode:
    return task_node(builder, key, fields, Effect.AT_MOST_ONCE)


def task_node(builder: Builder, key: str, fields: Fields, effect: Effect) -> TaskNode:
    """The node of a task whose effect is ``effect`` where none is given."""
    task_input = fields.template("input") or compile_template({}, fields.place, builder.problems)
    concurrency_key = fields.text_template("concurrency_key")
    business_key = fields.text_template("business_key")
    lease_ms = fields.duration_ms("lease", low_ms=limits.LEASE_MS_MIN, high_ms=limits.LEASE_MS_MAX)
    return TaskNode(
        key=key,
        place=canonical.pointer(fields.place),
        queue=fields.name("queue", "queue name", NAME),
        handler=fields.name("handler", "handler name", HANDLER),
        input=task_input,
        output_contract=fields.contract("output"),
        effect=fields.choice("effect", effect),
        max_attempts=fields.integer("max_attempts", 1, 1, limits.ATTEMPTS_MAX),
        backoff=_backoff(fields.fields("backoff", BACKOFF_FIELDS)),
        attempt_timeout_ms=fields.duration_ms("attempt_timeout"),
        lease_ms=lease_ms or limits.LEASE_DEFAULT_MS,
        deadline_ms=fields.duration_ms("deadline"),
        start_within_ms=fields.duration_ms("start_within"),
        priority=fields.integer("priority", 0, -limits.PRIORITY_MAX, limits.PRIORITY_MAX),
        concurrency_key=concurrency_key,
        business_key=business_key,
        on_failure=fields.choice("on_failure", builder.on_failure),
    )


def _backoff(fields: Fields) -> Backoff:
    initial_ms = fields.duration_ms("initial", zero=True)
    max_ms = fields.duration_ms("max", zero=True)
    backoff = Backoff(
        initial_ms=DEFAULT_BACKOFF.initial_ms if initial_ms is None else initial_ms,
        factor=fields.number("factor", DEFAULT_BACKOFF.factor, 1, FACTOR_MAX),
        max_ms=DEFAULT_BACKOFF.max_ms if max_ms is None else max_ms,
        jitter=fields.number("jitter", DEFAULT_BACKOFF.jitter, 0, 1),
    )
    if backoff.max_ms < backoff.initial_ms:
        field = "max" if "max" in fields else "initial"
        message = "the longest delay (max) is not shorter than the first (initial)"
        fields.note(field, ProblemCode.OUT_OF_BOUNDS, message)
    return backoff


TASK = Kind(FIELDS, _build)
