"""Start: a new instance and its first leaves, in one plan (WEA-3, WEA-20)."""

from collections.abc import Callable
from dataclasses import dataclass

from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.definition.model import Definition
from pulseweave.core.weave.draft import Draft, InstanceFacts
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.order import after_ms
from pulseweave.core.weave.plan import InstancePlan
from pulseweave.core.weave.settle import settle_stop
from pulseweave.core.weave.signal import signal_names
from pulseweave.core.weave.states import InstanceState
from pulseweave.core.weave.values import INPUT, SIGNALS
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import Rejected, reject


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommand:
    """A start as the door let it in. ``input`` is canonical JSON text."""

    namespace: str
    application: str
    instance_key: str
    input: str
    partition_id: int
    actor: str


def check_input(definition: Definition, input_text: str) -> Rejected | None:
    """Whether the input meets the definition's contract; every problem with its place."""
    if definition.input_contract is None:
        return None
    problems = definition.input_contract.check(canonical.parse(input_text))
    if not problems:
        return None
    return reject(
        "CONTRACT_VIOLATION",
        f"the input does not meet the contract of {definition.name} version {definition.version}",
        problems=[{"pointer": p.pointer, "message": p.message} for p in problems],
    )


def start(
    definition: Definition,
    definition_id: str,
    command: StartCommand,
    *,
    now: int,
    new_id: Callable[[], str],
) -> InstancePlan:
    """The plan of a new instance. The instance's deadline is fixed here and never moves."""
    instance = Instance(
        id=new_id(),
        namespace=command.namespace,
        application=command.application,
        definition_id=definition_id,
        definition_name=definition.name,
        definition_version=definition.version,
        instance_key=command.instance_key,
        partition_id=command.partition_id,
        input_digest=canonical.digest(command.input),
        deadline_at=after_ms(now, definition.deadline_ms),
        created_at=now,
        created_by=command.actor,
        state=InstanceState.RUNNING,
        revision=1,
        control_revision=1,
        journal_at=now,
    )
    payloads: dict[str, object] = {INPUT: canonical.parse(command.input)}
    payloads |= {SIGNALS + name: () for name in signal_names(definition)}
    facts = InstanceFacts(definition=definition, instance=instance, leaves={}, payloads=payloads)
    draft = Draft(facts, now=now, new_id=new_id, created=True)
    draft.keep["input"] = command.input
    advance(draft)
    settle_stop(draft)
    return draft.finish(actor=command.actor, cause="START")
