"""What every part of the façade shares: the database, ids, entropy, and who is asking."""

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from pulseweave.core.identity import Permission, Principal
from pulseweave.kernel.clock import Clock, SystemClock
from pulseweave.kernel.entropy import Entropy, SystemEntropy
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.txn.identity import authenticate, token_hash, unauthenticated
from pulseweave.txn.unit import read

#: How long a token's record may be believed without reading it again. A revocation takes at most
#: this
#: long to be felt by ordinary calls; recovery and control read the credential inside their
#: transaction.
CREDENTIAL_BELIEF_MS = 2_000
_BELIEVED_MAX = 1_000


@dataclass(slots=True)
class Core:
    """Shared by the façade's parts. ``authenticate`` is the only way to a Principal."""

    database: Database
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    ids: IdSource = field(init=False)
    _believed: OrderedDict[str, tuple[int, Principal]] = field(
        init=False, default_factory=OrderedDict
    )
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        self.ids = IdSource(self.clock, self.entropy)

    def authenticate(self, token: str | None) -> Principal:
        """The principal of a bearer token; raises UNAUTHENTICATED."""
        if not token:
            raise unauthenticated()
        key = token_hash(token)
        now_us = self.clock.monotonic_us()
        with self._lock:
            found = self._believed.get(key)
        if found is not None and found[0] > now_us:
            return found[1]
        principal = read(self.database, lambda tx: authenticate(tx, token, now=tx.now()))
        with self._lock:
            self._believed[key] = (now_us + CREDENTIAL_BELIEF_MS * 1000, principal)
            self._believed.move_to_end(key)
            while len(self._believed) > _BELIEVED_MAX:
                self._believed.popitem(last=False)
        return principal

    def forget_beliefs(self) -> None:
        """After a revocation here, this process believes no token without reading it."""
        with self._lock:
            self._believed.clear()


def require(principal: Principal, permission: Permission) -> None:
    """Raise PERMISSION_DENIED unless the principal has it."""
    refusal = principal.refuse_permission(permission)
    if refusal is not None:
        raise refusal
