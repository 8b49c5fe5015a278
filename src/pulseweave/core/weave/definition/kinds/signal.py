"""``signal``: a leaf that waits for something to be told from outside (WEA-10)."""

from pulseweave.core.weave.definition.builder import Builder, Kind
from pulseweave.core.weave.definition.fields import NAME, Fields
from pulseweave.core.weave.definition.model import SignalNode
from pulseweave.kernel import canonical

FIELDS = ("name", "correlation", "output", "timeout", "on_timeout", "on_failure")


def _build(builder: Builder, key: str, fields: Fields) -> SignalNode:
    on_failure = fields.choice("on_failure", builder.on_failure)
    return SignalNode(
        key=key,
        place=canonical.pointer(fields.place),
        name=fields.name("name", "signal name", NAME) if "name" in fields else key,
        correlation=fields.text_template("correlation"),
        output_contract=fields.contract("output"),
        timeout_ms=fields.duration_ms("timeout"),
        on_timeout=fields.choice("on_timeout", on_failure),
        on_failure=on_failure,
    )


SIGNAL = Kind(FIELDS, _build)
