"""The credential as it is now. Read again inside every recovery transaction (REC-1, REC-3)."""

import hashlib

from pulseweave.core.identity import Principal
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.store.facts.identity import Credential, credential_by_hash, credential_by_id
from pulseweave.store.tx import Tx


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def authenticate(tx: Tx, token: str, *, now: int) -> Principal:
    """The principal of a token; raises UNAUTHENTICATED without saying which part was wrong."""
    return _valid(credential_by_hash(tx, token_hash(token)), now)


def read_principal(tx: Tx, credential_id: str, *, now: int) -> Principal:
    return _valid(credential_by_id(tx, credential_id), now)


def _valid(credential: Credential | None, now: int) -> Principal:
    if credential is None or credential.revoked_at is not None:
        raise unauthenticated()
    expires_at = credential.principal.expires_at
    if expires_at is not None and now >= expires_at:
        raise unauthenticated()
    return credential.principal


def unauthenticated() -> Rejected:
    return reject("UNAUTHENTICATED", "the token is unknown, expired or revoked")
