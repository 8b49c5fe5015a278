"""For each endpoint of the table, one request that succeeds, and the world that it needs.

Everything that is true of every endpoint is tested with these: tokens, permissions, tenants, keys,
bodies. ``needs`` marks the requests that name a thing of their namespace.
"""

from collections.abc import Callable

from sqlalchemy import update

from pulseweave.store import schema as t
from tests.api.world import WHY, ApiWorld, Asked, task

Make = Callable[[ApiWorld], Asked]


def _get(path: str) -> Make:
    return lambda _: Asked(method="GET", path=path)


def _register(_: ApiWorld) -> Asked:
    document = {"name": "flow", "version": 1, "steps": [task("a")]}
    return Asked(method="PUT", path="/definitions/flow/versions/1", body={"document": document})


def _definition(world: ApiWorld) -> Asked:
    world.flow()
    return Asked(method="GET", path="/definitions/flow/versions/1")


def _start(world: ApiWorld) -> Asked:
    world.flow()
    body = {"definition": "flow", "instance_key": "k", "input": {"n": 1}}
    return Asked(method="POST", path="/instances", body=body)


def _start_batch(world: ApiWorld) -> Asked:
    one = _start(world).body
    return Asked(method="POST", path="/instances:batch", body={"instances": [one]})


def _of_instance(rest: str) -> Make:
    def make(world: ApiWorld) -> Asked:
        world.flow()
        return Asked(method="GET", path=f"/instances/{world.begin()}{rest}")

    return make


def _control(verb: str) -> Make:
    def make(world: ApiWorld) -> Asked:
        world.flow()
        instance_id = world.begin()
        body = {"expected_control_revision": "1", "reason": "because"}
        if verb == "resume":
            path = f"/instances/{instance_id}/pause"
            world.done(world.post(path, body, key=world.new_key()))
            body = {**body, "expected_control_revision": "2"}
        path = f"/instances/{instance_id}/{verb}"
        return Asked(method="POST", path=path, body=body, key=world.new_key())

    return make


def _in_review(world: ApiWorld) -> str:
    """An instance with one task of unknown outcome and attempts left."""
    world.flow(task("a", max_attempts=3))
    return world.in_review()


def _review_task(world: ApiWorld) -> Asked:
    return world.ready(_in_review(world), "review-task")


def reviewed(world: ApiWorld, verdict: str = "FAILED") -> str:
    """The same after ReviewTask: the step is still in review."""
    instance_id = _in_review(world)
    world.done(world.send(world.ready(instance_id, "review-task", verdict=verdict)))
    world.settle()
    return instance_id


def _resolve_step(world: ApiWorld) -> Asked:
    return world.ready(reviewed(world), "resolve-step")


def _retry_step(world: ApiWorld) -> Asked:
    return world.ready(reviewed(world), "retry-step")


def resolved(world: ApiWorld) -> str:
    """The same after ResolveStep: only Continue is missing."""
    instance_id = reviewed(world)
    world.done(world.send(world.ready(instance_id, "resolve-step")))
    return instance_id


POLL = {
    "poll": "a",
    "queue": "q",
    "handler": "ask",
    "effect": "at_most_once",
    "interval": "10s",
    "max_rounds": 2,
    "mapping": {"path": "/status", "pending": ["WAIT"], "succeeded": ["READY"]},
}
SIGNAL = {"signal": "a", "output": {"type": "object", "required": ["by"]}, "timeout": "1h"}


def pending(world: ApiWorld, **more: object) -> str:
    """A poll in review whose query was verified PENDING."""
    world.flow({**POLL, **more})
    instance_id = world.in_review()
    verified = world.ready(instance_id, "review-task", result={"status": "WAIT"})
    world.done(world.send(verified))
    world.settle()
    return instance_id


def lost_wait(world: ApiWorld, **step: object) -> str:
    """A leaf in review that waited for something that is not armed any more."""
    world.flow({**(step or SIGNAL)})
    instance_id = world.begin()
    with world.database.writer.begin() as connection:
        connection.execute(update(t.waits).values(state="CLOSED", closed_at=1))
    world.settle()
    return instance_id


def _continue_poll(world: ApiWorld) -> Asked:
    return world.ready(pending(world), "continue-poll")


def misfit(world: ApiWorld) -> str:
    """A leaf in review whose signal broke its contract: that of another wait let it in."""
    lax = {"signal": "b", "name": "a", "correlation": "b"}
    world.flow({"parallel": "p", "branches": {"l": [SIGNAL], "m": [lax], "r": [task("c")]}})
    instance_id = world.begin()
    world.done(world.post(f"/instances/{instance_id}/signals", {"name": "a"}, key="misfit"))
    return instance_id


def _rearm_wait(world: ApiWorld) -> Asked:
    return world.ready(misfit(world), "rearm-wait")


def _signal(world: ApiWorld) -> Asked:
    world.flow(SIGNAL)
    path = f"/instances/{world.begin()}/signals"
    body = {"name": "a", "payload": {"by": "ann"}}
    return Asked(method="POST", path=path, body=body, key=world.new_key())


def _continue(world: ApiWorld) -> Asked:
    return world.ready(resolved(world), "continue")


def contradicted(world: ApiWorld) -> str:
    """An instance in review whose verdict a late report contradicts."""
    world.flow(task("a", max_attempts=3))
    instance_id = world.begin()
    lease = world.running()
    world.report(lease, {"outcome": "UNKNOWN", "detail": "the answer was lost"})
    world.settle()
    world.done(world.send(world.ready(instance_id, "review-task", verdict="FAILED")))
    world.settle()
    world.report(lease, {"outcome": "SUCCEEDED", "result": {"ok": True}})
    world.settle()
    assert world.look(instance_id)["contradicted"]
    return instance_id


def _acknowledge(world: ApiWorld) -> Asked:
    instance_id = contradicted(world)
    body = {"expected_revision": world.look(instance_id)["revision"], **WHY}
    path = f"/instances/{instance_id}/acknowledge-contradiction"
    return Asked(method="POST", path=path, body=body, key=world.new_key())


def _create_task(_: ApiWorld) -> Asked:
    body = {"queue": "q", "handler": "do", "task_key": "t", "input": {"n": 1}}
    return Asked(method="POST", path="/tasks", body=body)


def _events(world: ApiWorld) -> Asked:
    return Asked(method="GET", path=f"/tasks/events?partition={world.partition()}")


def _task(world: ApiWorld) -> Asked:
    return Asked(method="GET", path=f"/tasks/{world.create_task()['id']}")


def _on_task(task_id: str, revision: str, what: str, world: ApiWorld) -> Asked:
    body = {"expected_task_revision": revision, **WHY}
    if what == "cancel":
        del body["evidence_ref"]
    path = f"/tasks/{task_id}/{what}"
    return Asked(method="POST", path=path, body=body, key=world.new_key())


def _cancel_task(world: ApiWorld) -> Asked:
    made = world.create_task()
    return _on_task(made["id"], made["revision"], "cancel", world)


def _cancel_of_instance(world: ApiWorld) -> Asked:
    world.flow()
    instance_id = world.begin()
    (made,) = world.look(instance_id)["tasks"]
    asked = _on_task(made["id"], made["revision"], "cancel", world)
    return asked.but(path=f"/instances/{instance_id}{asked.path}")


def _review_own(world: ApiWorld) -> Asked:
    made = world.create_task()
    world.work({"outcome": "UNKNOWN", "detail": "the answer was lost"})
    revision = world.task(made["id"])["revision"]
    asked = _on_task(made["id"], revision, "review", world)
    return asked.but_body(execution_settled=True, verdict="SUCCEEDED", result={"ok": True})


def _declare_lost(world: ApiWorld) -> Asked:
    made = world.create_task()
    world.running()
    return _on_task(made["id"], world.task(made["id"])["revision"], "declare-lost", world)


def _claim(part: str) -> Make:
    def make(world: ApiWorld) -> Asked:
        world.create_task()
        body = {"worker": "w", "claim": {"queues": ["q"], "limit": 1}}
        return Asked(method="POST", path=f"/worker/{part}", body=body)

    return make


def _token(_: ApiWorld) -> Asked:
    body = {"name": "new", "permissions": ["tasks:work"], "queues": ["q"]}
    return Asked(method="POST", path="/tokens", body=body)


def _revoke(world: ApiWorld) -> Asked:
    made = world.done(world.send(_token(world)))
    return Asked(method="POST", path=f"/tokens/{made['id']}/revoke")


def _requeue(world: ApiWorld) -> Asked:
    world.flow()
    return Asked(method="POST", path="/inbox/requeue", body={"instance_id": world.begin()})


def _put(path: str, **body: object) -> Make:
    return lambda _: Asked(method="PUT", path=path, body=body)


HAPPY: dict[str, Make] = {
    "PUT /definitions/{name}/versions/{version}": _register,
    "GET /definitions": _get("/definitions"),
    "GET /definitions/{name}/versions/{version}": _definition,
    "POST /instances": _start,
    "POST /instances:batch": _start_batch,
    "GET /instances": _get("/instances"),
    "GET /instances/{instance_id}": _of_instance(""),
    "GET /instances/{instance_id}/history": _of_instance("/history"),
    "GET /instances/{instance_id}/audit": _of_instance("/audit"),
    "GET /audit": _get("/audit"),
    "POST /instances/{instance_id}/pause": _control("pause"),
    "POST /instances/{instance_id}/resume": _control("resume"),
    "POST /instances/{instance_id}/cancel": _control("cancel"),
    "POST /instances/{instance_id}/recovery/review-task": _review_task,
    "POST /instances/{instance_id}/recovery/resolve-step": _resolve_step,
    "POST /instances/{instance_id}/recovery/retry-step": _retry_step,
    "POST /instances/{instance_id}/recovery/continue-poll": _continue_poll,
    "POST /instances/{instance_id}/recovery/rearm-wait": _rearm_wait,
    "POST /instances/{instance_id}/recovery/continue": _continue,
    "POST /instances/{instance_id}/signals": _signal,
    "POST /instances/{instance_id}/acknowledge-contradiction": _acknowledge,
    "POST /tasks/{task_id}/declare-lost": _declare_lost,
    "GET /reviews": _get("/reviews"),
    "POST /tasks": _create_task,
    "GET /tasks/events": _events,
    "GET /tasks/{task_id}": _task,
    "POST /tasks/{task_id}/cancel": _cancel_task,
    "POST /instances/{instance_id}/tasks/{task_id}/cancel": _cancel_of_instance,
    "POST /tasks/{task_id}/review": _review_own,
    "POST /worker/turn": _claim("turn"),
    "POST /worker/claim": _claim("claim"),
    "POST /worker/start": _claim("start"),
    "POST /worker/report": _claim("report"),
    "POST /worker/heartbeat": _claim("heartbeat"),
    "POST /worker/release": _claim("release"),
    "GET /me": _get("/me"),
    "GET /queues": _get("/queues"),
    "PUT /queues/{queue}": _put("/queues/q", max_running=5),
    "GET /applications": _get("/applications"),
    "PUT /applications/{application}": _put("/applications/default", max_open_tasks=5),
    "GET /tokens": _get("/tokens"),
    "POST /tokens": _token,
    "POST /tokens/{token_id}/revoke": _revoke,
    "GET /inbox": _get("/inbox"),
    "POST /inbox/requeue": _requeue,
}

#: Endpoints that name a thing: another namespace's token must learn nothing of it.
NAMING = frozenset(
    {key for key in HAPPY if "_id}" in key or "{name}/versions" in key} | {"POST /inbox/requeue"}
) - {"PUT /definitions/{name}/versions/{version}"}

#: All but the parts of a turn, which have its body and its way: for what takes long.
DISTINCT = [key for key in HAPPY if "/worker/" not in key or key == "POST /worker/turn"]
