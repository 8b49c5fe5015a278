"""Tokens: made once, shown once, stored as a hash; expiring and revocable."""

from dataclasses import dataclass

from pulseweave.core.identity import Permission
from pulseweave.kernel import limits
from pulseweave.kernel.entropy import Entropy
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store.changes.audit import insert_audits
from pulseweave.store.changes.identity import insert_credential, revoke_credential
from pulseweave.store.engine import Database
from pulseweave.store.facts.identity import Credential, credential_by_id
from pulseweave.store.tx import Tx
from pulseweave.txn.admin.audit import admin_audit
from pulseweave.txn.admin.namespaces import require_namespace
from pulseweave.txn.form import check_name
from pulseweave.txn.identity import token_hash
from pulseweave.txn.unit import run

PREFIX = "wv_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOrder:
    """What a new token may do. ``lifetime_ms`` None: it doesn't expire."""

    namespace: str
    application: str
    name: str
    permissions: frozenset[Permission]
    queues: frozenset[str]
    all_queues: bool
    lifetime_ms: int | None


def create_token(
    database: Database, order: TokenOrder, *, actor: str, ids: IdSource, entropy: Entropy
) -> tuple[str, Credential]:
    """The token, for the only time, and its record. Raises INVALID_COMMAND, NOT_FOUND."""
    check_name(order.name, "/name", chars_max=limits.TOKEN_NAME_CHARS_MAX)
    check_name(order.application, "/application", chars_max=limits.APPLICATION_CHARS_MAX)
    for queue in sorted(order.queues):
        check_name(queue, "/queues", chars_max=limits.NAME_CHARS_MAX)
    token = PREFIX + entropy.token()

    def work(tx: Tx) -> Credential:
        require_namespace(tx, order.namespace)
        now = tx.now()
        credential_id = ids.next()
        expires_at = None if order.lifetime_ms is None else now + order.lifetime_ms * 1000
        row = {
            "id": credential_id,
            "namespace": order.namespace,
            "application": order.application,
            "name": order.name,
            "token_hash": token_hash(token),
            "all_queues": int(order.all_queues),
            "expires_at": expires_at,
            "revoked_at": None,
            "created_at": now,
            "created_by": actor,
        }
        names = [permission.value for permission in order.permissions]
        insert_credential(tx, row, names, order.queues)
        body = {"token_id": credential_id, "name": order.name, "permissions": sorted(names)}
        audit = admin_audit(tx, order.namespace, "CREATE_TOKEN", body, actor=actor, ids=ids)
        insert_audits(tx, execution=None, workflow=audit)
        credential = credential_by_id(tx, credential_id)
        if credential is None:
            raise reject("NOT_FOUND", "the new token can't be read back")
        return credential

    return token, run(database, work)


def revoke_token(
    database: Database, namespace: str, credential_id: str, *, actor: str, ids: IdSource
) -> Credential:
    """Revoke; again is the same. Raises NOT_FOUND for another namespace's token."""

    def work(tx: Tx) -> Credential:
        credential = credential_by_id(tx, credential_id)
        if credential is None or credential.principal.namespace != namespace:
            raise reject("NOT_FOUND", f"there is no token {credential_id}")
        if revoke_credential(tx, namespace, credential_id, tx.now()):
            audit = admin_audit(
                tx, namespace, "REVOKE_TOKEN", {"token_id": credential_id}, actor=actor, ids=ids
            )
            insert_audits(tx, execution=None, workflow=audit)
        return credential_by_id(tx, credential_id) or credential

    return run(database, work)
