"""``poll``: a leaf that asks through a queue, round by round, until the answer is final (WEA-9)."""

from pulseweave.core.pulse.policy import Effect
from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.expressions.names import INPUT
from pulseweave.core.weave.definition.fields import NAME, Fields
from pulseweave.core.weave.definition.kinds import task
from pulseweave.core.weave.definition.mapping import (
    RESULT,
    ByCondition,
    ByValue,
    Classification,
    Mapping,
)
from pulseweave.core.weave.definition.model import FinalSignal, OnExhausted, PollNode
from pulseweave.core.weave.definition.problems import ProblemCode, json_type
from pulseweave.core.weave.definition.template import Template
from pulseweave.kernel import canonical, limits

FIELDS = (
    *task.FIELDS,
    "interval",
    "max_rounds",
    "query_deadline",
    "mapping",
    "on_exhausted",
    "final_signal",
)
MAPPING_FIELDS = ("path", "pending", "succeeded", "failed")
FINAL_SIGNAL_FIELDS = ("name", "correlation")


def _build(builder: Builder, key: str, fields: Fields) -> PollNode | None:
    query = task.task_node(builder, key, fields, Effect.IDEMPOTENT)
    fields.required("interval", "how long to wait between two rounds, like 30s")
    fields.required("max_rounds", "how many times to ask at most")
    interval_ms = fields.duration_ms("interval", zero=True)
    mapping = _mapping(fields)
    final_signal = _final_signal(fields) if "final_signal" in fields else None
    if mapping is None:
        return None
    return PollNode(
        query=query,
        interval_ms=interval_ms or 0,
        max_rounds=fields.integer("max_rounds", 1, 1, limits.ROUNDS_MAX),
        query_deadline_ms=fields.duration_ms("query_deadline"),
        mapping=mapping,
        on_exhausted=fields.choice("on_exhausted", OnExhausted.REVIEW),
        final_signal=final_signal,
    )


def _final_signal(fields: Fields) -> FinalSignal:
    inner = fields.fields("final_signal", FINAL_SIGNAL_FIELDS)
    return FinalSignal(
        name=inner.name("name", "signal name", NAME),
        correlation=inner.text_template("correlation"),
    )


def _mapping(fields: Fields) -> Mapping | None:
    """By value where a path is given, by conditions otherwise."""
    if not fields.required("mapping", "what an answer means: pending, succeeded, failed"):
        return None
    inner = fields.fields("mapping", MAPPING_FIELDS)
    named = [c for c in Classification if c.value.lower() in inner]
    if Classification.SUCCEEDED not in named:
        inner.required("succeeded", "a poll that can never succeed never ends")
        return None
    return _by_value(inner, named) if "path" in inner else _by_condition(inner, named)


def _by_value(fields: Fields, named: list[Classification]) -> Mapping | None:
    path = fields.text("path", limits.MESSAGE_CHARS_MAX) or ""
    if path and not path.startswith("/"):
        message = "path is a JSON Pointer into the answer, like /status"
        fields.note("path", ProblemCode.BAD_CHOICE, message)
        return None
    parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    values: dict[str, Classification] = {}
    for classification in named:
        field = classification.value.lower()
        listed = fields.raw(field)
        if not isinstance(listed, list):
            message = f"{field} is an array of values, not {json_type(listed)}"
            fields.note(field, ProblemCode.BAD_TYPE, message)
            continue
        for value in listed:
            text = canonical.encode(value)
            if text in values:
                message = f"{text[:80]} already means {values[text].value.lower()}"
                fields.note(field, ProblemCode.DUPLICATE_KEY, message)
            values[text] = classification
    return ByValue(path=parts, values=values)


def _by_condition(fields: Fields, named: list[Classification]) -> Mapping | None:
    conditions: list[tuple[Classification, Template]] = []
    for classification in named:
        field = classification.value.lower()
        condition = fields.condition(field, RESULT)
        if condition is None:
            continue
        if condition.reads or INPUT in condition.names:
            message = "a mapping reads nothing but result: it is fixed with the definition"
            fields.note(field, ProblemCode.BAD_EXPRESSION, message)
        conditions.append((classification, condition))
    return ByCondition(conditions=tuple(conditions))


POLL = Kind(FIELDS, _build)
