"""An instance by its id, held for a command; or why there is none."""

from pulseweave.core.weave.instance import Instance
from pulseweave.kernel.errors import Rejected, reject
from pulseweave.kernel.instant import format_at
from pulseweave.store import locks
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts.tombstones import tombstone
from pulseweave.store.rows_weave import instance_from_row
from pulseweave.store.tx import Tx


def identity_of(tx: Tx, namespace: str, instance_id: str) -> facts.Identity:
    """What never changes about an instance of the namespace. Raises INSTANCE_NOT_FOUND or
    INSTANCE_PRUNED.
    """
    found = facts.identities(tx, [instance_id]).get(instance_id)
    if found is None or found.namespace != namespace:
        raise absent(tx, namespace, instance_id)
    return found


def hold_instance(tx: Tx, namespace: str, instance_id: str) -> Instance:
    """The instance, locked. It may have been pruned while its lock was waited for."""
    rows = locks.lock_instances(tx, [instance_id])
    if not rows:
        raise absent(tx, namespace, instance_id)
    return instance_from_row(rows[0])


def absent(tx: Tx, namespace: str, instance_id: str) -> Rejected:
    """Why there is no such instance: it was pruned, or never was (WEA-18)."""
    left = tombstone(tx, namespace, instance_id)
    if left is None:
        return reject("INSTANCE_NOT_FOUND", f"there is no instance {instance_id}")
    return pruned(left.definition_name, left.instance_key, instance_id).with_detail(
        state=left.state, ended_at=format_at(left.ended_at), pruned_at=format_at(left.pruned_at)
    )


def pruned(definition: str, instance_key: str, instance_id: str) -> Rejected:
    return reject(
        "INSTANCE_PRUNED",
        f"instance {instance_key} of {definition} has ended and was pruned; its key never starts "
        "again",
        rule="WEA-18",
        instance_id=instance_id,
    )
