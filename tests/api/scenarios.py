"""For each endpoint and each code that it declares, a request that is answered so.

``GENERIC`` has the codes that mean the same everywhere, ``SPECIFIC`` the others.
"""

import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import delete, insert, select, update

from pulseweave.kernel import limits
from pulseweave.store import schema as t
from tests.api.faults import answer_lost_at, database_away
from tests.api.happy import HAPPY, POLL, SIGNAL, contradicted, lost_wait, pending, reviewed
from tests.api.world import (
    EVERYTHING,
    NOBODY,
    WHY,
    Answer,
    ApiWorld,
    Asked,
    endpoint_at,
    task,
)

Scenario = Callable[[ApiWorld], Answer]
NOTHING = "01900000-0000-7000-8000-000000000000"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def made_up(asked: Asked) -> Asked:
    """The same request for what never was."""
    body = asked.body
    for name in ("instance_id", "definition"):
        if body is not None and name in body:
            body = {**body, name: NOTHING}
    path = _ID.sub(NOTHING, asked.path).replace("/definitions/flow/", "/definitions/glow/")
    return asked.but(path=path, body=body)


# --- what means the same everywhere ---------------------------------------------------------------
# Each gets the request that succeeds, and leaves what it needs as it was; the last one excepted.


def _unauthenticated(world: ApiWorld, asked: Asked) -> Answer:
    return world.send(asked.but(token=NOBODY))


def _denied(world: ApiWorld, asked: Asked) -> Answer:
    endpoint = endpoint_at(asked)
    others = EVERYTHING - {needed} if (needed := endpoint.permission) else EVERYTHING
    return world.send(asked.but(token=world.make_token("less", permissions=others)))


def _queue_denied(world: ApiWorld, asked: Asked) -> Answer:
    return world.send(asked.but(token=world.make_token("less", queues=frozenset({"p"}))))


def _unknown_parameter(world: ApiWorld, asked: Asked) -> Answer:
    mark = "&" if "?" in asked.path else "?"
    return world.send(asked.but(path=f"{asked.path}{mark}nonsense=1"))


def _twice(world: ApiWorld, asked: Asked) -> Answer:
    return world.send(asked.but(raw=b'{"a": 1, "a": 2}'))


def _oversize(world: ApiWorld, asked: Asked) -> Answer:
    bound = endpoint_at(asked).bytes_max
    return world.send(asked.but(raw=b'{"a": "' + b"a" * bound + b'"}'))


def _away(world: ApiWorld, asked: Asked) -> Answer:
    world.core.forget_beliefs()
    with database_away(world):
        return world.send(asked)


def _lost(world: ApiWorld, asked: Asked) -> Answer:
    with answer_lost_at("unit.before_commit"):
        return world.send(asked)


def _not_there(world: ApiWorld, asked: Asked) -> Answer:
    return world.send(made_up(asked))


def _other_command(world: ApiWorld, asked: Asked) -> Answer:
    world.done(world.send(asked))
    return world.send(asked.but_body(reason="another one"))


def _pruned(world: ApiWorld, asked: Asked) -> Answer:
    """What it names, or would start, was pruned meanwhile."""
    world.send(asked)
    with world.database.writer.begin() as connection:
        for row in connection.execute(select(t.instances)).all():
            grave = {column: getattr(row, column) for column in _GRAVE}
            told = {"instance_id": row.id, "ended_at": 1, "pruned_at": 2}
            connection.execute(insert(t.tombstones).values(**grave, **told))
        connection.execute(delete(t.instances))
    return world.send(asked)


_GRAVE = ("namespace", "definition_name", "definition_version", "instance_key", "state")


GENERIC: dict[str, Callable[[ApiWorld, Asked], Answer]] = {
    "UNAUTHENTICATED": _unauthenticated,
    "PERMISSION_DENIED": _denied,
    "QUEUE_ACCESS_DENIED": _queue_denied,
    "INVALID_COMMAND": _unknown_parameter,
    "INVALID_JSON": _twice,
    "PAYLOAD_TOO_LARGE": _oversize,
    "DATABASE_UNAVAILABLE": _away,
    "OUTCOME_UNKNOWN": _lost,
    "NOT_FOUND": _not_there,
    "INSTANCE_NOT_FOUND": _not_there,
    "TASK_NOT_FOUND": _not_there,
    "DEFINITION_NOT_FOUND": _not_there,
    "IDEMPOTENCY_CONFLICT": _other_command,
    "INSTANCE_PRUNED": _pruned,
}

# --- recovery -------------------------------------------------------------------------------------

_STEP = {"step_key": "a", "activation_id": NOTHING, "expected_step_revision": "1"}
_SETTLED = {"execution_settled": True, "verdict": "FAILED"}
#: Bodies that are right in form; ids and revisions are those of nothing.
BODIES: dict[str, dict[str, Any]] = {
    "review-task": {"task_id": NOTHING, "expected_task_revision": "1", **_SETTLED, "result": {}},
    "resolve-step": {**_STEP, **_SETTLED, "result": {"code": "NO", "message": "it did not"}},
    "retry-step": {**_STEP, "safe_to_retry": True},
    "continue-poll": {**_STEP, "pending_confirmed": True},
    "rearm-wait": {**_STEP, "wait_verified": True},
    "continue": {"review_resolved": True},
}
DECLARATIONS = {
    "review-task": "execution_settled",
    "resolve-step": "execution_settled",
    "retry-step": "safe_to_retry",
    "continue-poll": "pending_confirmed",
    "rearm-wait": "wait_verified",
    "continue": "review_resolved",
}


def on(world: ApiWorld, operation: str, instance_id: str, **more: Any) -> Asked:
    """The operation on an instance at its revision of this moment, about nothing in it."""
    revision = world.look(instance_id)["revision"]
    body = {**BODIES[operation], "expected_revision": revision, **WHY, **more}
    path = f"/instances/{instance_id}/recovery/{operation}"
    return Asked(method="POST", path=path, body=body, key=world.new_key())


def _in_review(world: ApiWorld) -> str:
    world.flow(task("a", max_attempts=3))
    return world.in_review()


def _ended(world: ApiWorld) -> str:
    world.flow()
    instance_id = world.begin()
    world.work()
    return instance_id


def _side_by_side(world: ApiWorld) -> tuple[str, dict[str, Any]]:
    """In review for ``a``, while ``b`` runs: the instance and the lease of ``b``."""
    branches = {"left": [task("a")], "right": [task("b", queue="r")]}
    world.flow({"parallel": "both", "branches": branches})
    instance_id = world.begin()
    lease = world.running("r")
    world.work({"outcome": "UNKNOWN"})
    return instance_id, lease


def _undeclared(operation: str) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        asked = on(world, operation, _in_review(world))
        return world.send(asked.but_body(**{DECLARATIONS[operation]: "true"}))

    return scenario


def _stale(operation: str) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        return world.send(on(world, operation, _in_review(world), expected_revision="1"))

    return scenario


def _at(operation: str, state: Callable[[ApiWorld], str]) -> Scenario:
    return lambda world: world.send(on(world, operation, state(world)))


def _running(world: ApiWorld) -> str:
    world.flow()
    return world.begin()


def _unread(world: ApiWorld) -> str:
    """A result of ``b`` is in the stream and not consumed yet."""
    instance_id, lease = _side_by_side(world)
    world.report(lease, {"outcome": "SUCCEEDED", "result": 1})
    return instance_id


def _quarantined(world: ApiWorld) -> str:
    """The record of ``b`` can't be judged: its activation names another task."""
    instance_id, lease = _side_by_side(world)
    world.report(lease, {"outcome": "SUCCEEDED", "result": 1})
    with world.database.writer.begin() as connection:
        mine = t.activations.c.task_id == lease["task_id"]
        connection.execute(update(t.activations).where(mine).values(task_id=NOTHING))
    world.settle()
    assert world.look(instance_id)["quarantined"]
    return instance_id


def _common(operation: str) -> dict[str, Scenario]:
    return {
        "DECLARATION_REQUIRED": _undeclared(operation),
        "REVISION_CONFLICT": _stale(operation),
        "INSTANCE_ENDED": _at(operation, _ended),
        "NOT_IN_REVIEW": _at(operation, _running),
        "INBOX_PENDING": _at(operation, _unread),
        "INBOX_QUARANTINED": _at(operation, _quarantined),
    }


def _ready(state: Callable[[ApiWorld], str], operation: str, **more: Any) -> Scenario:
    """The command that is offered, with some of it changed."""

    def scenario(world: ApiWorld) -> Answer:
        return world.send(world.ready(state(world), operation).but_body(**more))

    return scenario


def _succeeded(world: ApiWorld) -> str:
    return reviewed(world, "SUCCEEDED")


def _old_activation(operation: str) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        instance_id = reviewed(world)
        old = world.step(instance_id)["id"]
        world.done(world.send(world.ready(instance_id, "retry-step")))
        return world.send(on(world, operation, instance_id, activation_id=old))

    return scenario


def _step_stale(operation: str) -> Scenario:
    return _ready(reviewed, operation, expected_step_revision="99")


def _step(operation: str) -> dict[str, Scenario]:
    return {
        "NOT_OWNED": _at(operation, _in_review),
        "ACTIVATION_NOT_CURRENT": _old_activation(operation),
        "STEP_REVISION_CONFLICT": _step_stale(operation),
        "EXECUTION_UNSETTLED": _ready(_in_review, operation),
    }


def _not_resolvable(world: ApiWorld) -> Answer:
    instance_id, lease = _side_by_side(world)
    world.report(lease, {"outcome": "SUCCEEDED", "result": 1})
    world.settle()
    done = world.step(instance_id, "b")
    named = {"step_key": "b", "activation_id": done["id"]}
    revision = done["revision"]
    return world.send(
        on(world, "resolve-step", instance_id, **named, expected_step_revision=revision)
    )


def _breaks_contract(world: ApiWorld) -> Answer:
    world.flow(task("a", output={"type": "object", "required": ["receipt"]}))
    instance_id = world.in_review()
    world.done(world.send(world.ready(instance_id, "review-task", verdict="FAILED")))
    world.settle()
    return world.send(world.ready(instance_id, "resolve-step"))


def _stopped(world: ApiWorld) -> str:
    instance_id = reviewed(world)
    cancel(world, instance_id)
    return instance_id


def cancel(world: ApiWorld, instance_id: str) -> None:
    body = {"expected_control_revision": world.look(instance_id)["control_revision"]}
    world.done(world.post(f"/instances/{instance_id}/cancel", body, key=world.new_key()))


def _expired(world: ApiWorld) -> str:
    world.flow(task("a", max_attempts=3), deadline="1h")
    instance_id = world.in_review()
    world.pass_ms(3_600_000)
    return instance_id


def _attempts_gone(world: ApiWorld) -> Answer:
    asked = world.ready(reviewed(world), "retry-step")
    with world.database.writer.begin() as connection:
        connection.execute(delete(t.attempts))
    return world.send(asked)


def _budget(world: ApiWorld) -> Answer:
    world.flow()
    instance_id = world.in_review()
    world.done(world.send(world.ready(instance_id, "review-task", verdict="FAILED")))
    world.settle()
    return world.send(world.ready(instance_id, "retry-step"))


def full(world: ApiWorld) -> None:
    """The application has room for the one task that is open, and for no other."""
    world.create_task("the-one")
    world.done(world.put("/applications/default", {"max_open_tasks": 1}))


def _retry_when_full(world: ApiWorld) -> Answer:
    asked = world.ready(reviewed(world), "retry-step")
    full(world)
    return world.send(asked)


# --- polls, signals, timers -----------------------------------------------------------------------


def _misclassified(world: ApiWorld) -> Answer:
    return world.send(world.ready(pending(world), "resolve-step", result={"status": "WAIT"}))


def _early(world: ApiWorld) -> Answer:
    instance_id = lost_wait(world, timer="a", **{"for": "1h"})
    return world.send(world.ready(instance_id, "resolve-step", result=None))


def _not_pending(world: ApiWorld) -> Answer:
    world.flow(POLL)
    instance_id = world.in_review()
    world.done(world.send(world.ready(instance_id, "review-task", result={"status": "?"})))
    world.settle()
    return world.send(world.ready(instance_id, "continue-poll"))


def _last_round(world: ApiWorld) -> str:
    return pending(world, max_rounds=1)


def _unknown_query(world: ApiWorld) -> str:
    world.flow(POLL)
    return world.in_review()


def _too_late(world: ApiWorld) -> Answer:
    instance_id = lost_wait(world)
    world.pass_ms(3_600_000)
    return world.send(world.ready(instance_id, "rearm-wait"))


def _waited_for_nothing(world: ApiWorld) -> Answer:
    asked = world.ready(lost_wait(world), "rearm-wait")
    with world.database.writer.begin() as connection:
        connection.execute(delete(t.waits))
    return world.send(asked)


def _no_wait(world: ApiWorld) -> Answer:
    instance_id = _in_review(world)
    leaf = world.step(instance_id)
    named = {"activation_id": leaf["id"], "expected_step_revision": leaf["revision"]}
    return world.send(on(world, "rearm-wait", instance_id, **named))


def _signal_again(world: ApiWorld) -> Answer:
    asked = HAPPY["POST /instances/{instance_id}/signals"](world)
    world.done(world.send(asked))
    return world.send(asked.but_body(payload={"by": "bob"}))


def _signal(state: Callable[[ApiWorld], str], **body: Any) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        told = {"name": "a", "payload": {"by": "ann"}, **body}
        path = f"/instances/{state(world)}/signals"
        return world.post(path, told, key=world.new_key())

    return scenario


def _waiting(world: ApiWorld) -> str:
    world.flow(SIGNAL)
    return world.begin()


def _stopping(world: ApiWorld) -> str:
    world.flow({"parallel": "both", "branches": {"l": [SIGNAL], "r": [task("b")]}})
    instance_id = world.begin()
    world.running()
    cancel(world, instance_id)
    return instance_id


def _full_of_signals(world: ApiWorld) -> str:
    world.flow(task("first"), SIGNAL)
    instance_id = world.begin()
    with world.database.writer.begin() as connection:
        rows = [
            {
                "id": f"{number:036}",
                "namespace": "default",
                "instance_id": instance_id,
                "signal_key": f"kept-{number}",
                "command_digest": "",
                "name": "a",
                "payload": "{}",
                "payload_digest": "",
                "accepted_at": 1,
                "accepted_by": "test",
            }
            for number in range(limits.SIGNALS_KEPT_MAX)
        ]
        connection.execute(insert(t.signals), rows)
    return instance_id


# --- starts, control, tasks, tokens ---------------------------------------------------------------


def _invalid_definition(world: ApiWorld) -> Answer:
    body = {"document": {"name": "flow", "version": 1, "steps": []}}
    return world.put("/definitions/flow/versions/1", body)


def _other_content(world: ApiWorld) -> Answer:
    world.flow()
    body = {"document": {"name": "flow", "version": 1, "steps": [task("b")]}}
    return world.put("/definitions/flow/versions/1", body)


def _start(**told: Any) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        world.flow(input={"type": "object", "required": ["n"]})
        body = {"definition": "flow", "instance_key": "k", "input": {"n": 1}, **told}
        if told.get("input", {}).get("n") == 2:
            world.done(world.post("/instances", {**body, "input": {"n": 1}}))
        return world.post("/instances", body)

    return scenario


def _start_when_full(world: ApiWorld) -> Answer:
    world.flow()
    full(world)
    return world.post("/instances", {"definition": "flow", "instance_key": "k"})


def _control(verb: str, state: Callable[[ApiWorld], str], expected: str | None = None) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        instance_id = state(world)
        revision = expected or world.look(instance_id)["control_revision"]
        body = {"expected_control_revision": revision}
        return world.post(f"/instances/{instance_id}/{verb}", body, key=world.new_key())

    return scenario


def _overdue(world: ApiWorld) -> str:
    world.flow(deadline="1h")
    instance_id = world.begin()
    world.done(_control("pause", lambda _: instance_id)(world))
    world.pass_ms(3_600_000)
    return instance_id


def _acknowledge(state: Callable[[ApiWorld], str], expected: str | None = None) -> Scenario:
    def scenario(world: ApiWorld) -> Answer:
        instance_id = state(world)
        body = {"expected_revision": expected or world.look(instance_id)["revision"], **WHY}
        path = f"/instances/{instance_id}/acknowledge-contradiction"
        return world.post(path, body, key=world.new_key())

    return scenario


def _changed(key: str, **more: Any) -> Scenario:
    """The request that succeeds, with some of its body changed."""
    return lambda world: world.send(HAPPY[key](world).but_body(**more))


def _again(key: str) -> Scenario:
    """A second time, under a new key and with the revision of this moment."""

    def scenario(world: ApiWorld) -> Answer:
        asked = HAPPY[key](world)
        world.done(world.send(asked))
        task_id = _ID.findall(asked.path)[-1]
        revision = world.task(task_id)["revision"]
        return world.send(asked.but(key=world.new_key()).but_body(expected_task_revision=revision))

    return scenario


def _on_queued(what: str) -> Scenario:
    """On a stand-alone task that nobody has claimed."""

    def scenario(world: ApiWorld) -> Answer:
        made = world.create_task()
        body = {"expected_task_revision": made["revision"], **WHY}
        if what == "review":
            body |= {**_SETTLED, "result": {}}
        return world.post(f"/tasks/{made['id']}/{what}", body, key=world.new_key())

    return scenario


def _workflows_task(what: str) -> Scenario:
    """Through the door of stand-alone tasks."""

    def scenario(world: ApiWorld) -> Answer:
        (made,) = world.look(_in_review(world))["tasks"]
        body = {"expected_task_revision": made["revision"], "reason": "because"}
        if what == "review":
            body |= {**_SETTLED, "result": {}, "evidence_ref": "x"}
        return world.post(f"/tasks/{made['id']}/{what}", body, key=world.new_key())

    return scenario


def _through_a_stranger(world: ApiWorld) -> Answer:
    """Through an instance that doesn't own it."""
    instance_id, made = _running(world), world.create_task()
    body = {"expected_task_revision": made["revision"], "reason": "because"}
    path = f"/instances/{instance_id}/tasks/{made['id']}/cancel"
    return world.post(path, body, key=world.new_key())


def _through_no_id(world: ApiWorld) -> Answer:
    """Through what can be no instance at all."""
    made = world.create_task()
    body = {"expected_task_revision": made["revision"], "reason": "because"}
    return world.post(f"/instances/x/tasks/{made['id']}/cancel", body, key=world.new_key())


def _cancel_unknown(world: ApiWorld) -> Answer:
    made = world.create_task()
    world.work({"outcome": "UNKNOWN"})
    body = {"expected_task_revision": world.task(made["id"])["revision"], "reason": "because"}
    return world.post(f"/tasks/{made['id']}/cancel", body, key=world.new_key())


def _cancel_unknown_of_instance(world: ApiWorld) -> Answer:
    instance_id = _in_review(world)
    (made,) = world.look(instance_id)["tasks"]
    body = {"expected_task_revision": made["revision"], "reason": "because"}
    path = f"/instances/{instance_id}/tasks/{made['id']}/cancel"
    return world.post(path, body, key=world.new_key())


def _task_key_again(world: ApiWorld) -> Answer:
    world.create_task("t", input=1)
    return world.post("/tasks", {"queue": "q", "handler": "do", "task_key": "t", "input": 2})


def _task_when_full(world: ApiWorld) -> Answer:
    full(world)
    return world.post("/tasks", {"queue": "q", "handler": "do", "task_key": "t"})


def _token_beyond(world: ApiWorld) -> Answer:
    narrow = world.make_token("narrow", queues=frozenset({"q"}))
    return world.post("/tokens", {"name": "new", "permissions": [], "queues": ["p"]}, token=narrow)


_RECOVERY = "POST /instances/{instance_id}/recovery/"
_CONTROL = "POST /instances/{instance_id}/"

SPECIFIC: dict[str, dict[str, Scenario]] = {
    "PUT /definitions/{name}/versions/{version}": {
        "DEFINITION_INVALID": _invalid_definition,
        "DEFINITION_CONFLICT": _other_content,
    },
    "POST /instances": {
        "CONTRACT_VIOLATION": _start(input={}),
        "INSTANCE_KEY_CONFLICT": _start(input={"n": 2}),
        "QUOTA_EXCEEDED": _start_when_full,
    },
    **{
        _CONTROL + verb: {
            "CONTROL_REVISION_CONFLICT": _control(verb, _running, "99"),
            "INSTANCE_ENDED": _control(verb, _ended),
            "STOP_REQUESTED": _control(verb, _stopped),
        }
        for verb in ("pause", "resume", "cancel")
    },
    _RECOVERY + "review-task": {
        **_common("review-task"),
        "NOT_OWNED": _at("review-task", _in_review),
        "TASK_REVISION_CONFLICT": _ready(_in_review, "review-task", expected_task_revision="99"),
        "TASK_NOT_IN_REVIEW": _ready(reviewed, "review-task"),
    },
    _RECOVERY + "resolve-step": {
        **_common("resolve-step"),
        **_step("resolve-step"),
        "STEP_NOT_RESOLVABLE": _not_resolvable,
        "CONTRACT_VIOLATION": _breaks_contract,
        "CLASSIFICATION_MISMATCH": _misclassified,
        "TIMER_NOT_DUE": _early,
    },
    _RECOVERY + "retry-step": {
        **_common("retry-step"),
        **_step("retry-step"),
        "STOP_REQUESTED": _at("retry-step", _stopped),
        "DEADLINE_PASSED": _at("retry-step", _expired),
        "STEP_NOT_RETRYABLE": _ready(_succeeded, "retry-step"),
        "ROUND_PENDING": _ready(pending, "retry-step"),
        "INTEGRITY_MISMATCH": _attempts_gone,
        "BUDGET_EXHAUSTED": _budget,
        "QUOTA_EXCEEDED": _retry_when_full,
    },
    _RECOVERY + "continue-poll": {
        **_common("continue-poll"),
        "NOT_OWNED": _at("continue-poll", _in_review),
        "ACTIVATION_NOT_CURRENT": _old_activation("continue-poll"),
        "STEP_REVISION_CONFLICT": _ready(pending, "continue-poll", expected_step_revision="99"),
        "EXECUTION_UNSETTLED": _ready(_unknown_query, "continue-poll"),
        "STOP_REQUESTED": _at("continue-poll", _stopped),
        "DEADLINE_PASSED": _at("continue-poll", _expired),
        "POLL_NOT_PENDING": _not_pending,
        "ROUNDS_EXHAUSTED": _ready(_last_round, "continue-poll"),
    },
    _RECOVERY + "rearm-wait": {
        **_common("rearm-wait"),
        "NOT_OWNED": _at("rearm-wait", _in_review),
        "ACTIVATION_NOT_CURRENT": _old_activation("rearm-wait"),
        "STEP_REVISION_CONFLICT": _ready(lost_wait, "rearm-wait", expected_step_revision="99"),
        "STOP_REQUESTED": _at("rearm-wait", _stopped),
        "DEADLINE_PASSED": _too_late,
        "WAIT_NOT_REARMABLE": _no_wait,
        "INTEGRITY_MISMATCH": _waited_for_nothing,
    },
    "POST /instances/{instance_id}/signals": {
        "IDEMPOTENCY_CONFLICT": _signal_again,
        "CONTRACT_VIOLATION": _signal(_waiting, payload={}),
        "INSTANCE_ENDED": _signal(_ended),
        "STOP_REQUESTED": _signal(_stopping),
        "QUOTA_EXCEEDED": _signal(_full_of_signals),
    },
    _RECOVERY + "continue": {
        **_common("continue"),
        "CONTRADICTED": _at("continue", contradicted),
        "DEADLINE_PASSED": _at("continue", _expired),
        "EXECUTION_UNSETTLED": _at("continue", _in_review),
        "UNRESOLVED_STEPS": _at("continue", reviewed),
    },
    "POST /instances/{instance_id}/acknowledge-contradiction": {
        "REVISION_CONFLICT": _acknowledge(contradicted, "1"),
        "NOT_IN_REVIEW": _acknowledge(_running),
    },
    "POST /tasks/{task_id}/declare-lost": {
        "TASK_REVISION_CONFLICT": _changed(
            "POST /tasks/{task_id}/declare-lost", expected_task_revision="99"
        ),
        "NOT_STARTED": _on_queued("declare-lost"),
    },
    "POST /tasks": {
        "IDEMPOTENCY_CONFLICT": _task_key_again,
        "QUOTA_EXCEEDED": _task_when_full,
    },
    "POST /tasks/{task_id}/cancel": {
        "NOT_OWNED": _workflows_task("cancel"),
        "TASK_REVISION_CONFLICT": _changed(
            "POST /tasks/{task_id}/cancel", expected_task_revision="99"
        ),
        "TASK_SETTLED": _again("POST /tasks/{task_id}/cancel"),
        "EXECUTION_UNSETTLED": _cancel_unknown,
    },
    "POST /instances/{instance_id}/tasks/{task_id}/cancel": {
        "INSTANCE_NOT_FOUND": _through_no_id,
        "NOT_OWNED": _through_a_stranger,
        "TASK_REVISION_CONFLICT": _changed(
            "POST /instances/{instance_id}/tasks/{task_id}/cancel", expected_task_revision="99"
        ),
        "TASK_SETTLED": _again("POST /instances/{instance_id}/tasks/{task_id}/cancel"),
        "EXECUTION_UNSETTLED": _cancel_unknown_of_instance,
    },
    "POST /tasks/{task_id}/review": {
        "DECLARATION_REQUIRED": _changed("POST /tasks/{task_id}/review", execution_settled="true"),
        "NOT_OWNED": _workflows_task("review"),
        "TASK_REVISION_CONFLICT": _changed(
            "POST /tasks/{task_id}/review", expected_task_revision="99"
        ),
        "TASK_NOT_IN_REVIEW": _on_queued("review"),
    },
    "POST /tokens": {"QUEUE_ACCESS_DENIED": _token_beyond},
}
SPECIFIC[_CONTROL + "resume"]["DEADLINE_PASSED"] = _control("resume", _overdue)
