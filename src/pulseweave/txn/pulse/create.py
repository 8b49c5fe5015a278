"""Create a stand-alone task: idempotent by its key, refused when a quota is full (PUL-12)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pulseweave.core.identity import Principal
from pulseweave.core.pulse.change import TaskCreated, TaskSpec
from pulseweave.core.pulse.policy import RetryPolicy
from pulseweave.core.pulse.task import Queued, Task
from pulseweave.core.weave.order import after_ms, key_hash
from pulseweave.kernel import canonical
from pulseweave.kernel.errors import reject
from pulseweave.kernel.ids import IdSource
from pulseweave.store import locks
from pulseweave.store.changes.tasks import insert_tasks
from pulseweave.store.engine import Database
from pulseweave.store.facts.definitions import partitions_of
from pulseweave.store.facts.tasks import specs, stand_alone_by_key
from pulseweave.store.tx import Tx
from pulseweave.store.views.tasks import TaskDetail, task_details
from pulseweave.txn.unit import run
from pulseweave.txn.weave.quota import lock_quotas, quota_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """A stand-alone task as ordered. ``input``: canonical JSON text.

    Durations count from its creation. Deadline and latest start become absolute then (PUL-7).
    """

    queue: str
    handler: str
    task_key: str
    input: str
    policy: RetryPolicy
    priority: int
    deadline_ms: int | None
    start_within_ms: int | None
    concurrency_key: str | None
    business_key: str | None


def create_task(
    database: Database, order: TaskOrder, *, principal: Principal, ids: IdSource
) -> tuple[TaskDetail, bool]:
    """The task, and whether this call made it. Raises IDEMPOTENCY_CONFLICT, QUOTA_EXCEEDED."""
    return run(database, lambda tx: _create(tx, order, principal, ids))


def _create(
    tx: Tx, order: TaskOrder, principal: Principal, ids: IdSource
) -> tuple[TaskDetail, bool]:
    namespace = principal.namespace
    quotas = lock_quotas(
        tx,
        [(namespace, principal.application)],
        [(namespace, order.queue)],
        between=lambda: locks.lock_start_stripes(tx, namespace, [f"task\0{order.task_key}"]),
    )
    found = stand_alone_by_key(tx, namespace, order.task_key)
    if found is not None:
        _check_same(found, specs(tx, [found.id])[found.id], order, principal)
        return task_details(tx, [found.id])[0], False
    partition_id = _partition(partitions_of(tx, namespace), namespace, order.task_key)
    created = _new(
        order, principal, task_id=ids.next(), partition_id=partition_id, created_at=tx.now()
    )
    room = quotas.room()
    if not room.take([created.task]):
        raise quota_refusal(room)
    insert_tasks(tx, [created])
    return task_details(tx, [created.task.id])[0], True


def _check_same(task: Task, spec: TaskSpec, order: TaskOrder, principal: Principal) -> None:
    """The same key stands for the same order, whoever sends it; another one conflicts."""
    again = _new(
        order,
        principal,
        task_id=task.id,
        partition_id=task.partition_id,
        created_at=spec.created_at,
    )
    same_spec = replace(again.spec, created_by=spec.created_by) == spec
    if same_spec and _fixed(again.task) == _fixed(task):
        return
    raise reject(
        "IDEMPOTENCY_CONFLICT",
        f"the task key {order.task_key} was used for another task",
        task_id=task.id,
    )


def _fixed(task: Task) -> tuple[object, ...]:
    """What an order says about a task's row."""
    return (
        task.queue,
        task.effect,
        task.priority,
        task.max_attempts,
        task.lease_ms,
        task.attempt_timeout_ms,
        task.deadline_at,
        task.start_by,
    )


def _partition(partitions: Sequence[int], namespace: str, task_key: str) -> int:
    digest = canonical.digest_of([namespace, task_key]).removeprefix("sha256:")
    return partitions[int(digest[:8], 16) % len(partitions)]


def _new(
    order: TaskOrder,
    principal: Principal,
    *,
    task_id: str,
    partition_id: int,
    created_at: int,
) -> TaskCreated:
    task = Task(
        id=task_id,
        namespace=principal.namespace,
        application=principal.application,
        queue=order.queue,
        partition_id=partition_id,
        instance_id=None,
        activation_id=None,
        effect=order.policy.effect,
        priority=order.priority,
        max_attempts=order.policy.max_attempts,
        lease_ms=order.policy.lease_ms,
        attempt_timeout_ms=order.policy.attempt_timeout_ms,
        deadline_at=after_ms(created_at, order.deadline_ms),
        start_by=after_ms(created_at, order.start_within_ms),
        key=key_hash(principal.namespace, order.concurrency_key),
        phase=Queued(),
    )
    spec = TaskSpec(
        task_id=task_id,
        handler=order.handler,
        input=order.input,
        input_digest=canonical.digest(order.input),
        backoff=order.policy.backoff,
        business_key=order.business_key,
        concurrency_key=order.concurrency_key,
        retry_of=None,
        task_key=order.task_key,
        created_at=created_at,
        created_by=principal.actor,
    )
    return TaskCreated(task=task, spec=spec)
