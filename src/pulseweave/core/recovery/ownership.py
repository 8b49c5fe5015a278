"""Who owns which task: checked both ways, over the whole history, without foreign keys (REC-9).

An activation names its task and the task names it back; both are of the instance, of its namespace,
of a step of its definition and in one of its fixed queues. Nobody else names either of them. What
may never happen: a decision about a step counts on a task that is another one's.
"""

from collections.abc import Iterator

from pulseweave.core.recovery.facts import RecoveryFacts, TaskHistory
from pulseweave.core.weave.leaf import Leaf
from pulseweave.kernel.errors import Rejected, reject


def refuse_foreign(facts: RecoveryFacts, step_key: str | None = None) -> Rejected | None:
    """Whatever is wrong with the ownership of a step's tasks, or of all of the instance's."""
    activations = facts.activations if step_key is None else facts.activations_of(step_key)
    problem = next(_problems(facts, activations, whole=step_key is None), None)
    if problem is None:
        return None
    message, task_id = problem
    return reject("NOT_OWNED", message, rule="REC-9", task_id=task_id)


def _problems(
    facts: RecoveryFacts, activations: tuple[Leaf, ...], *, whole: bool
) -> Iterator[tuple[str, str]]:
    """What is wrong, with the task that it is about."""
    named = {task_id: a for a in activations for task_id in _claimed(facts, a)}
    for task_id, activation in named.items():
        history = facts.histories.get(task_id)
        if history is None or not _owned(facts, activation, history):
            yield f"task {task_id} and activation {activation.id} do not name each other", task_id
    scope = {activation.id for activation in activations}
    for task_id, history in facts.histories.items():
        claimed = history.task.activation_id
        if task_id in named:
            continue
        if claimed in scope or history.spec.retry_of in named:
            yield f"a foreign task claims activation {claimed}", task_id
        elif whole:
            yield f"task {task_id} is of no activation of the instance", task_id
    for other in facts.foreign:
        if other.task_id is not None and other.task_id in named:
            yield f"activation {other.id} of another instance names the task", other.task_id


def _claimed(facts: RecoveryFacts, activation: Leaf) -> set[str]:
    """The tasks that an activation says are its own: the one it names, and its rounds' queries."""
    named = {activation.task_id} if activation.task_id is not None else set()
    return named | set(facts.task_ids_of(activation))


def _owned(facts: RecoveryFacts, activation: Leaf, history: TaskHistory) -> bool:
    instance, task, definition = facts.base.instance, history.task, facts.base.definition
    return (
        task.activation_id == activation.id
        and task.instance_id == activation.instance_id == instance.id
        and task.namespace == activation.namespace == instance.namespace
        and activation.node_key in definition.leaves
        and task.queue in definition.queues
    )
