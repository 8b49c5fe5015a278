"""``timer``: a leaf that waits ``for`` a duration, or ``until`` an instant (WEA-11)."""

from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.fields import Fields
from pulseweave.core.weave.definition.model import TimerNode
from pulseweave.core.weave.definition.problems import ProblemCode
from pulseweave.kernel import canonical

FIELDS = ("for", "until", "on_failure")


def _build(builder: Builder, key: str, fields: Fields) -> TimerNode:
    if ("for" in fields) == ("until" in fields):
        message = (
            "a timer has either for, a duration like 24h, or until, an instant like "
            "2026-12-01T09:00:00.000000Z"
        )
        fields.problems.add(fields.place, ProblemCode.MISSING_FIELD, message)
    return TimerNode(
        key=key,
        place=canonical.pointer(fields.place),
        for_ms=fields.duration_ms("for", zero=True),
        until=fields.text_template("until"),
        on_failure=fields.choice("on_failure", builder.on_failure),
    )


TIMER = Kind(FIELDS, _build)
