"""Who acts: a credential's namespace, application, permissions and queues. Deny by default (REC-1).

No permission implies another: neither admin nor control nor task review implies
``workflows:recover``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pulseweave.kernel.errors import Rejected, reject


class Permission(StrEnum):
    WORKFLOWS_DEFINE = "workflows:define"
    WORKFLOWS_READ = "workflows:read"
    WORKFLOWS_START = "workflows:start"
    WORKFLOWS_SIGNAL = "workflows:signal"
    WORKFLOWS_CONTROL = "workflows:control"
    WORKFLOWS_RECOVER = "workflows:recover"
    TASKS_CREATE = "tasks:create"
    TASKS_READ = "tasks:read"
    TASKS_CONTROL = "tasks:control"
    TASKS_REVIEW = "tasks:review"
    TASKS_WORK = "tasks:work"
    AUDIT_READ = "audit:read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller. ``actor`` is what audits and journals show."""

    credential_id: str
    namespace: str
    application: str
    actor: str
    permissions: frozenset[Permission]
    all_queues: bool
    queues: frozenset[str]
    expires_at: int | None

    def may_use(self, queue: str) -> bool:
        return self.all_queues or queue in self.queues

    def refuse_permission(self, permission: Permission) -> Rejected | None:
        if permission in self.permissions:
            return None
        return reject(
            "PERMISSION_DENIED",
            f"this needs the permission {permission.value}",
            rule="REC-1",
            needed=permission.value,
        )

    def refuse_queues(self, queues: Iterable[str]) -> Rejected | None:
        """Access to *every* one of the queues, or a refusal that names the ones that are
        missing.
        """
        missing = sorted(queue for queue in queues if not self.may_use(queue))
        if not missing:
            return None
        return reject(
            "QUEUE_ACCESS_DENIED",
            f"this needs access to {', '.join(missing)}",
            rule="REC-1",
            needed={"queues": missing},
        )
