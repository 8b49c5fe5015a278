"""Recovery over HTTP: keys and receipts, what refusals carry, what is audited, what is offered."""

from typing import Any

import pytest

from pulseweave.kernel import canonical
from pulseweave.txn.admin.tokens import revoke_token
from pulseweave.wire.recovery import Receipt
from tests.api.happy import HAPPY, resolved, reviewed
from tests.api.scenarios import BODIES, DECLARATIONS, on
from tests.api.world import BY_KEY, EVERYTHING, WHY, ApiWorld, Asked, task

OPERATIONS = sorted(BODIES)
RECOVERY = "POST /instances/{instance_id}/recovery/"
KEYED = [key for key, endpoint in BY_KEY.items() if endpoint.answer is Receipt]
READING = [key for key, endpoint in BY_KEY.items() if endpoint.method == "GET"]


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("key", KEYED)
def test_the_same_command_gets_the_first_receipt(world: ApiWorld, key: str) -> None:
    """Whoever sends it, whatever has happened since; written in another way too."""
    asked = HAPPY[key](world)
    first = world.send(asked)
    assert first.code is None
    world.settle()
    world.pass_ms(3_600_000)
    world.settle()
    state = world.everything()
    spaced = canonical.encode(dict(reversed(asked.body.items()))).replace('":', '" :\n').encode()
    colleague = world.make_token("colleague")
    for again in (asked, asked.but(token=colleague), asked.but(raw=spaced)):
        assert world.send(again).text == first.text
    assert len(world.everything()["operations"]) == len(state["operations"])


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("key", KEYED)
def test_another_command_under_the_key_conflicts(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    first = world.done(world.send(asked))
    state = world.everything()
    others = [asked.but_body(reason="another reason")]
    if "evidence_ref" in asked.body:
        others.append(asked.but_body(evidence_ref="another:1"))
    if "/recovery/" not in key:
        moved = next(name for name in asked.body if name.startswith("expected_"))
        others.append(asked.but_body(**{moved: "7"}))
    for other in others:
        answer = world.send(other)
        assert (answer.code, answer["rule"]) == ("IDEMPOTENCY_CONFLICT", "REC-3")
        assert answer["facts"]["used_for"]["operation"] == first["operation"]
    now = world.everything()
    audit = "workflow_audit"  # a refusal of recovery is audited (REC-14)
    assert {**now, audit: []} == {**state, audit: []}


@pytest.mark.rule("REC-1", "REC-3")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_old_receipt_is_for_those_who_may_see_it_now(world: ApiWorld, operation: str) -> None:
    key = RECOVERY + operation
    asked = HAPPY[key](world)
    token = world.make_token("short")
    world.done(world.send(asked.but(token=token)))
    needed = BY_KEY[key].permission
    assert needed is not None
    less = world.make_token("less", permissions=EVERYTHING - {needed})
    assert world.send(asked.but(token=less)).code == "PERMISSION_DENIED"
    elsewhere = world.make_token("elsewhere", queues=frozenset({"p"}))
    assert world.send(asked.but(token=elsewhere)).code == "QUEUE_ACCESS_DENIED"
    told = world.done(world.get("/me", token=token))
    revoke_token(
        world.database, "default", told["credential_id"], actor="elsewhere", ids=world.core.ids
    )
    assert world.send(asked.but(token=token)).code == "UNAUTHENTICATED"
    assert world.send(asked.but(token=world.foreigner)).code == "INSTANCE_NOT_FOUND"


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_dry_runs_and_refusals_leave_the_key_free(world: ApiWorld, operation: str) -> None:
    asked = HAPPY[RECOVERY + operation](world)
    state = world.everything()
    dry = world.done(world.send(asked.but(path=f"{asked.path}?dry_run=true")))
    assert (dry["dry_run"], dry["operation_id"]) == (True, None)
    assert world.everything() == state, "nothing is written"
    stale = world.send(asked.but_body(expected_revision="1"))
    assert stale.code == "REVISION_CONFLICT"
    receipt = world.done(world.send(asked))
    assert receipt["dry_run"] is False
    for name in ("operation", "state_after", "gate", "revision", "control_revision", "blocking"):
        assert receipt[name] == dry[name], name


@pytest.mark.rule("REC-12")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_revision_conflict_tells_what_has_happened(world: ApiWorld, operation: str) -> None:
    asked = HAPPY[RECOVERY + operation](world)
    instance_id = asked.path.split("/")[-3]
    current = int(world.look(instance_id)["revision"])
    for expected in (1, current + 1, 2**63):
        answer = world.send(asked.but_body(expected_revision=str(expected)))
        assert (answer.code, answer["current_revision"]) == ("REVISION_CONFLICT", str(current))
        told = [int(entry["revision"]) for entry in answer["journal_since"]]
        assert told == list(range(expected + 1, current + 1))
        assert all(entry["cause"] and entry["actor"] for entry in answer["journal_since"])


@pytest.mark.rule("REC-12")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_was_just_done_is_a_conflict(world: ApiWorld, operation: str) -> None:
    asked = HAPPY[RECOVERY + operation](world)
    world.done(world.send(asked))
    answer = world.send(asked.but(key=world.new_key()))
    assert answer.code == "REVISION_CONFLICT"


@pytest.mark.rule("REC-11")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_declaration_is_literally_true(world: ApiWorld, operation: str) -> None:
    asked = HAPPY[RECOVERY + operation](world)
    name = DECLARATIONS[operation]
    for said in (None, False, "true", 1, 1.0, [True], {"true": True}, "yes"):
        answer = world.send(asked.but_body(**{name: said}))
        told = (answer.status, answer.code, answer["pointer"])
        assert told == (422, "DECLARATION_REQUIRED", f"/{name}"), repr(said)
    assert world.send(asked).code is None


@pytest.mark.rule("REC-1")
def test_every_queue_of_the_definition_is_needed(world: ApiWorld) -> None:
    """Those of steps that never ran, too."""
    world.flow(task("a", max_attempts=2), task("b", queue="r"), task("c", queue="s"))
    instance_id = world.in_review()
    some = world.make_token("some", queues=frozenset({"q", "s"}))
    for operation in OPERATIONS:
        answer = world.send(on(world, operation, instance_id).but(token=some))
        assert answer.code == "QUEUE_ACCESS_DENIED"
        assert canonical.parse(answer["needed"]) == {"queues": ["r"]}
    every = world.make_token("every", queues=frozenset({"q", "r", "s"}))
    asked = world.ready(instance_id, "review-task")
    assert world.send(asked.but(token=every)).code is None


@pytest.mark.rule("REC-14")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_refusals_are_audited(world: ApiWorld, operation: str) -> None:
    """With who, what and the code, and why; dry runs are not."""
    asked = HAPPY[RECOVERY + operation](world)
    instance_id = asked.path.split("/")[-3]
    less = world.make_token("less", permissions=frozenset())
    for refused, code, actor in (
        (asked.but_body(expected_revision="1"), "REVISION_CONFLICT", "operator"),
        (asked.but(token=less), "PERMISSION_DENIED", "less"),
        (asked.but_body(reason=" "), "INVALID_COMMAND", "operator"),
    ):
        before = audits_of(world, instance_id)
        dry = refused.but(path=f"{refused.path}?dry_run=true")
        assert world.send(dry).code == code
        assert audits_of(world, instance_id) == before
        assert world.send(refused).code == code
        (told, *others) = audits_of(world, instance_id)
        assert others == before
        assert (told["outcome"], told["code"], told["actor"]) == ("REFUSED", code, actor)
        assert (told["operation"], told["idempotency_key"]) == (
            BY_OPERATION[operation],
            refused.key,
        )
        assert (told["reason"], told["evidence_ref"]) == (
            refused.body["reason"],
            refused.body["evidence_ref"],
        )


def audits_of(world: ApiWorld, instance_id: str) -> Any:
    return world.done(world.get(f"/instances/{instance_id}/audit"))["items"]


BY_OPERATION = {
    "review-task": "REVIEW_TASK",
    "resolve-step": "RESOLVE_STEP",
    "retry-step": "RETRY_STEP",
    "continue-poll": "CONTINUE_POLL",
    "rearm-wait": "REARM_WAIT",
    "continue": "CONTINUE",
}


@pytest.mark.rule("REC-14")
@pytest.mark.parametrize("key", READING)
def test_reads_write_nothing(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    state = world.everything()
    assert world.send(asked).code is None
    assert world.everything() == state


@pytest.mark.rule("REC-8", "REC-19")
def test_audits_of_both_layers_belong_together(world: ApiWorld) -> None:
    world.flow(task("a", max_attempts=3))
    instance_id = world.in_review()
    receipt = world.done(world.send(world.ready(instance_id, "review-task")))
    assert (receipt["state_after"], receipt["gate"]) == ("NEEDS_REVIEW", "CLOSED")
    assert receipt["blocking"], "what still needs whom"
    audits = audits_of(world, instance_id)
    workflow = next(a for a in audits if a["layer"] == "workflow")
    execution = next(a for a in audits if a["layer"] == "execution")
    assert workflow["id"] == receipt["operation_id"]
    assert workflow["execution_audit_id"] == execution["id"] != workflow["id"]
    for told in (workflow, execution):
        assert (told["actor"], told["operation"]) == ("operator", "REVIEW_TASK")
        assert (told["reason"], told["evidence_ref"]) == (WHY["reason"], WHY["evidence_ref"])
        assert told["command_digest"].startswith("sha256:")
        assert told["prior"]["state"] == "NEEDS_REVIEW"


@pytest.mark.rule("REC-15")
@pytest.mark.parametrize("state", ["in review", "reviewed", "resolved", "stopped", "expired"])
def test_what_is_offered_is_what_would_be_answered(world: ApiWorld, state: str) -> None:
    """Each offered command, filled in, is accepted; each other is refused as was foretold."""
    if state == "expired":
        world.flow(task("a", max_attempts=3), deadline="1h")
        instance_id = world.in_review()
        world.pass_ms(3_600_000)
    elif state == "in review":
        world.flow(task("a", max_attempts=3))
        instance_id = world.in_review()
    else:
        instance_id = resolved(world) if state == "resolved" else reviewed(world)
    if state == "stopped":
        body = {"expected_control_revision": world.look(instance_id)["control_revision"]}
        world.done(world.post(f"/instances/{instance_id}/cancel", body, key="stop"))
    listed = world.done(world.get("/reviews"))["items"]
    assert listed == world.look(instance_id)["reviews"]
    offers = [offer for item in listed for offer in item["operations"]]
    assert offers
    for offer in offers:
        asked = _filled(offer)
        answer = world.send(asked)
        assert (answer.code is None) == offer["applies"], (offer, answer.text)
        assert answer.code == offer["code"]


def _filled(offer: dict[str, object]) -> Asked:
    """A dry run of an offered command, with what only a person can give."""
    given = {
        **WHY,
        **dict.fromkeys(DECLARATIONS.values(), True),
        "verdict": "SUCCEEDED",
        "result": {"ok": True},
    }
    command, to_fill = offer["command"], offer["to_fill"]
    assert isinstance(command, dict)
    assert isinstance(to_fill, list)
    assert all(command.get(name) is None for name in to_fill)
    body = {**command, **{name: given[name] for name in to_fill}}
    return Asked(method="POST", path=f"{offer['path']}?dry_run=true", body=body, key="dry")
