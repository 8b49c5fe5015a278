"""A signal in its transaction: accepted once per key, kept, and given to the wait that it is for
(WEA-10).

The same key and signal again gets the first answer; the same key with another signal conflicts. A
signal that no wait takes changes nothing of the instance (WEA-4).
"""

from dataclasses import dataclass
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.weave.advance import advance
from pulseweave.core.weave.due import collect_due
from pulseweave.core.weave.failure import stop_at_deadline
from pulseweave.core.weave.settle import settle_stop
from pulseweave.core.weave.signal import deliver, refuse_payload
from pulseweave.core.weave.wait import KeptSignal
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store.changes.waiting import insert_signal
from pulseweave.store.engine import Database
from pulseweave.store.facts import waits as wait_facts
from pulseweave.store.rows_waits import text_row
from pulseweave.store.tx import Tx
from pulseweave.txn.identity import read_principal
from pulseweave.txn.unit import run
from pulseweave.txn.weave.catalogue import definitions_of
from pulseweave.txn.weave.held import hold_instance, identity_of
from pulseweave.txn.weave.pump import lock_works
from pulseweave.txn.weave.settle import Decided, Make, Work, settle


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRequest:
    """``payload``: canonical JSON text."""

    principal: Principal
    instance_id: str
    signal_key: str
    name: str
    correlation: str | None
    payload: str

    @property
    def digest(self) -> str:
        return canonical.digest_of([self.name, self.correlation, canonical.digest(self.payload)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """``wait_id``: the wait that has taken it, None while it is kept. ``created``: False when the
    key was known.
    """

    signal_id: str
    accepted_at: int
    wait_id: str | None
    created: bool


def execute(database: Database, request: SignalRequest, *, ids: IdSource) -> Accepted:
    """Raises Rejected."""
    return run(database, lambda tx: _accept(tx, request, ids))


def _accept(tx: Tx, request: SignalRequest, ids: IdSource) -> Accepted:
    namespace = request.principal.namespace
    identity = identity_of(tx, namespace, request.instance_id)
    quotas = lock_works(tx, {identity.id: identity})
    instance = hold_instance(tx, namespace, request.instance_id)
    principal = read_principal(tx, request.principal.credential_id, now=tx.now())
    refusal = principal.refuse_permission(Permission.WORKFLOWS_SIGNAL)
    if refusal is not None:
        raise refusal
    known: Any = wait_facts.signal_by_key(tx, request.instance_id, request.signal_key)
    if known is not None:
        return _found(known, request)
    definition = definitions_of(tx, [identity.definition_id])[identity.definition_id]
    value = canonical.parse(request.payload)
    refusal = (
        _refuse_state(instance.ended, instance.state.value, stopped=instance.stop is not None)
        or refuse_payload(definition, request.name, value)
        or _refuse_full(tx, request.instance_id)
    )
    if refusal is not None:
        raise refusal
    now = max(tx.now(), instance.journal_at)
    signal = KeptSignal(
        id=ids.next(),
        name=request.name,
        correlation=request.correlation,
        digest=canonical.digest(request.payload),
        accepted_at=now,
    )
    insert_signal(tx, _row(request, signal, principal.actor))

    def decide(make: Make) -> Decided:
        draft = make()
        stop_at_deadline(draft)
        collect_due(draft)
        if deliver(draft, signal, value):
            advance(draft)
        settle_stop(draft)
        return Decided(draft)

    work = Work(instance_id=instance.id, decide=decide, actor=principal.actor, cause="SIGNAL")
    settled = settle(tx, [work], {instance.id: instance}, quotas=quotas, new_id=ids.next)
    taken = {t.signal_id: t.wait_id for t in settled.plans[instance.id].signals}
    return Accepted(
        signal_id=signal.id, accepted_at=now, wait_id=taken.get(signal.id), created=True
    )


def _found(row: Any, request: SignalRequest) -> Accepted:
    if row.command_digest != request.digest:
        raise reject(
            "IDEMPOTENCY_CONFLICT",
            f"the key {request.signal_key} was used for another signal of this instance",
            rule="WEA-10",
        )
    return Accepted(
        signal_id=row.id, accepted_at=row.accepted_at, wait_id=row.wait_id, created=False
    )


def _refuse_state(ended: bool, state: str, *, stopped: bool) -> Rejected | None:  # noqa: FBT001
    if ended:
        return reject("INSTANCE_ENDED", f"the instance has ended: {state}", rule="WEA-10")
    if stopped:
        return reject(
            "STOP_REQUESTED", "a stop was requested: no signal is taken any more", rule="WEA-12"
        )
    return None


def _refuse_full(tx: Tx, instance_id: str) -> Rejected | None:
    if wait_facts.has_room_for_signal(tx, instance_id):
        return None
    return reject(
        "QUOTA_EXCEEDED",
        f"the instance keeps {limits.SIGNALS_KEPT_MAX} signals that no wait has taken",
        rule="WEA-10",
    )


def _row(request: SignalRequest, signal: KeptSignal, actor: str) -> dict[str, Any]:
    return {
        "id": signal.id,
        "namespace": request.principal.namespace,
        "instance_id": request.instance_id,
        "signal_key": request.signal_key,
        "command_digest": request.digest,
        "name": signal.name,
        "correlation": text_row(signal.correlation),
        "payload": request.payload,
        "payload_digest": signal.digest,
        "accepted_at": signal.accepted_at,
        "accepted_by": actor,
        "wait_id": None,
        "taken_at": None,
    }
