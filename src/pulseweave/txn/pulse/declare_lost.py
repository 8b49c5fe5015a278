"""Declare a lease lost before it expires: the outcome becomes UNKNOWN (REC-17, PUL-3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulseweave.core.identity import Permission, Principal
from pulseweave.core.pulse import review as core
from pulseweave.core.pulse.outcome import Chance
from pulseweave.core.pulse.task import Task
from pulseweave.kernel import canonical
from pulseweave.kernel.entropy import Entropy
from pulseweave.kernel.errors import Rejected
from pulseweave.kernel.ids import IdSource
from pulseweave.store.engine import Database
from pulseweave.store.facts.tasks import backoffs
from pulseweave.store.tx import Tx
from pulseweave.txn.pulse.frame import Decided, TaskCommand, command_on_task
from pulseweave.txn.unit import run

OPERATION = "DECLARE_LOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareLost:
    principal: Principal
    task_id: str
    idempotency_key: str
    expected_task_revision: int
    reason: str
    evidence_ref: str


def execute(
    database: Database, command: DeclareLost, *, ids: IdSource, entropy: Entropy
) -> Mapping[str, Any]:
    body = [str(command.expected_task_revision), command.reason, command.evidence_ref]
    framed = TaskCommand(
        operation=OPERATION,
        permission=Permission.WORKFLOWS_RECOVER,
        principal=command.principal,
        task_id=command.task_id,
        idempotency_key=command.idempotency_key,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        digest=canonical.digest_of([OPERATION, command.task_id, body]),
    )

    def work(tx: Tx) -> Mapping[str, Any]:
        def decide(task: Task, now: int, _: str) -> Decided | Rejected:
            backoff = backoffs(tx, [task.id])[task.id]
            answer = core.declare_lost(
                task,
                expected_revision=command.expected_task_revision,
                now=now,
                chance=Chance(backoff=backoff, uniform=entropy.uniform()),
            )
            return answer if isinstance(answer, Rejected) else Decided(change=answer)

        return command_on_task(tx, framed, decide, ids=ids)

    return run(database, work)
