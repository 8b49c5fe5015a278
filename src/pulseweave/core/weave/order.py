"""What a task is asked to do: its templates evaluated, and the task of them (PUL-7, WEA-20)."""

from dataclasses import dataclass

from pulseweave.core.pulse.change import TaskCreated, TaskSpec
from pulseweave.core.pulse.task import Queued, Task
from pulseweave.core.weave.definition.model import TaskNode
from pulseweave.core.weave.definition.template import ExpressionError, Scope, Template
from pulseweave.core.weave.draft import Draft
from pulseweave.core.weave.leaf import Leaf
from pulseweave.kernel import canonical, limits


@dataclass(frozen=True, slots=True)
class Order:
    """What a task's templates gave: texts in canonical JSON, keys as plain text."""

    input: str
    business_key: str | None
    concurrency_key: str | None


def evaluate_order(node: TaskNode, scope: Scope) -> Order:
    """Raises ExpressionError, or InvalidJson for what no payload or key may be (WEA-20)."""
    return Order(
        input=canonical.encode_payload(node.input.evaluate(scope)),
        business_key=key_text(node.business_key, scope),
        concurrency_key=key_text(node.concurrency_key, scope),
    )


def key_text(template: Template | None, scope: Scope) -> str | None:
    value = template.evaluate(scope) if template is not None else None
    if value is None:  # an expression that gives null gives no key
        return None
    text = value if isinstance(value, str) else canonical.encode(value)
    if len(text) > limits.CONCURRENCY_KEY_CHARS_MAX:
        bound = limits.CONCURRENCY_KEY_CHARS_MAX
        raise canonical.InvalidJson(f"a key has at most {bound} characters, this one {len(text)}")
    return text


def new_task(draft: Draft, node: TaskNode, leaf: Leaf, order: Order) -> TaskCreated:
    """The task of an activation: its instants are fixed here and never move (PUL-7). A poll's
    query ends by the poll's own deadline.
    """
    instance, now = draft.instance, draft.now
    latest = earliest(instance.deadline_at, leaf.deadline_at)
    task = Task(
        id=leaf.task_id or "",
        namespace=instance.namespace,
        application=instance.application,
        queue=node.queue,
        partition_id=instance.partition_id,
        instance_id=instance.id,
        activation_id=leaf.id,
        effect=node.effect,
        priority=node.priority,
        max_attempts=node.max_attempts,
        lease_ms=node.lease_ms,
        attempt_timeout_ms=node.attempt_timeout_ms,
        deadline_at=earliest(latest, after_ms(now, node.deadline_ms)),
        start_by=earliest(latest, after_ms(now, node.start_within_ms))
        if node.start_within_ms is not None
        else None,
        key=key_hash(instance.namespace, order.concurrency_key),
        phase=Queued(),
    )
    spec = TaskSpec(
        task_id=task.id,
        handler=node.handler,
        input=order.input,
        input_digest=canonical.digest(order.input),
        backoff=node.backoff,
        business_key=order.business_key,
        concurrency_key=order.concurrency_key,
        retry_of=None,
        task_key=None,
        created_at=now,
        created_by=f"instance:{instance.id}",
    )
    return TaskCreated(task=task, spec=spec)


def key_hash(namespace: str, concurrency_key: str | None) -> str | None:
    """Concurrency keys belong to a namespace; the hash is what indexes and locks see."""
    if concurrency_key is None:
        return None
    return canonical.digest_of([namespace, concurrency_key]).removeprefix("sha256:")


def after_ms(now: int, duration_ms: int | None) -> int | None:
    return None if duration_ms is None else now + duration_ms * 1000


def earliest(*instants: int | None) -> int | None:
    known = [instant for instant in instants if instant is not None]
    return min(known) if known else None


def expression_error(error: ExpressionError | canonical.InvalidJson) -> str:
    """The leaf's error: an expression that failed, or what it gave that can't be an input."""
    if isinstance(error, canonical.InvalidJson):
        return canonical.encode({"code": "INPUT_CONTRACT", "message": error.message})
    details = {"pointer": error.pointer, "expression": error.expression, "cause": error.code}
    return canonical.encode(
        {"code": "EXPRESSION_ERROR", "message": error.message, "details": details}
    )
