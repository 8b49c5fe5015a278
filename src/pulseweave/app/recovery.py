"""Recovery through the door: form checks (REC-2), permission (REC-1), then the command's
transaction.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pulseweave.app.core import Core, require
from pulseweave.core.identity import Permission, Principal
from pulseweave.core.recovery.command import (
    Command,
    Continue,
    ContinuePoll,
    RearmWait,
    ResolveStep,
    RetryStep,
    ReviewTask,
)
from pulseweave.kernel import canonical
from pulseweave.txn.recovery import (
    acknowledge,
    continue_instance,
    continue_poll,
    rearm_wait,
    resolve_step,
    retry_step,
    review_task,
)
from pulseweave.txn.recovery.run import Request
from pulseweave.txn.unit import read
from pulseweave.txn.weave.detail import ReviewedInstance, open_reviews

Execute = Callable[..., Mapping[str, Any]]

_EXECUTE: dict[type[Command], Execute] = {
    ReviewTask: review_task.execute,
    ResolveStep: resolve_step.execute,
    RetryStep: retry_step.execute,
    ContinuePoll: continue_poll.execute,
    RearmWait: rearm_wait.execute,
    Continue: continue_instance.execute,
}


@dataclass(frozen=True, slots=True)
class Recovery:
    core: Core

    def execute(
        self,
        principal: Principal,
        *,
        instance_id: str,
        key: str,
        command: Command,
        dry_run: bool,
    ) -> Mapping[str, Any]:
        """The receipt. The command's digest leaves out who sends it (REC-3)."""
        request = Request(
            principal=principal,
            instance_id=instance_id,
            idempotency_key=key,
            command=command,
            digest=command_digest(instance_id, command),
            dry_run=dry_run,
        )
        return _EXECUTE[type(command)](self.core.database, request, ids=self.core.ids)

    def acknowledge_contradiction(
        self,
        principal: Principal,
        *,
        instance_id: str,
        key: str,
        expected_revision: int,
        reason: str,
        evidence_ref: str,
    ) -> Mapping[str, Any]:
        """The receipt. A refusal is audited like that of any recovery command (REC-14)."""
        return acknowledge.execute(
            self.core.database,
            acknowledge.Acknowledgement(
                principal=principal,
                instance_id=instance_id,
                idempotency_key=key,
                expected_revision=expected_revision,
                reason=reason,
                evidence_ref=evidence_ref,
            ),
            ids=self.core.ids,
        )

    def reviews(
        self, principal: Principal, *, cursor: str | None, limit: int
    ) -> tuple[list[ReviewedInstance], str | None]:
        """Open review items, the longest waiting first, each with its ready commands (REC-15)."""
        require(principal, Permission.WORKFLOWS_READ)
        return read(
            self.core.database,
            lambda tx: open_reviews(tx, principal.namespace, cursor=cursor, limit=limit),
        )


def command_digest(instance_id: str, command: Command) -> str:
    """Digest of operation, instance and canonical body; who sends it is no part (REC-3)."""
    return canonical.digest_of([command.OPERATION, instance_id, asdict(command)])
