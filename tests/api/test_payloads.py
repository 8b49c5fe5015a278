"""Every payload that JSON allows comes back exactly as it was sent, through every door, on each
database; the order of keys aside.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from pulseweave.kernel import canonical, limits
from tests.api.world import WHY, ApiWorld, Asked, task

#: As a client may write it: blanks, raw characters and escapes, in any order of keys.
ODD = r"""{
  "nul": "a\u0000b", "\u0000": "a key of NUL", "": "the empty key", "a~b/c": [],
  "lone": ["\ud800", "\udc00 behind", {"\udfff": "a key"}], "pair": "\ud83d\ude00",
  "raw": "😀 𝔘 ß \u2028\u007f", "quotes": "\" \\ \/ \b\f\n\r\t",
  "large": [-LONGEST, 9007199254740993, -9223372036854775809, 123456789012345678901234567890],
  "written": [1.0, 1.10, 1E2, 1e-400, -0, -0.0, 0.1, 3.141592653589793238462643383279],
  "flags": [true, false, null], "empty": {}, "deep": [[[{}]]], "zeta": 1, "alpha": 2
}"""
DEEPEST = "[" * limits.JSON_DEPTH_MAX + "]" * limits.JSON_DEPTH_MAX
LONGEST_NUMBER = "9" * limits.INTEGER_DIGITS_MAX
PAYLOADS = {
    "odd": ODD.replace("LONGEST", LONGEST_NUMBER),
    "deepest": DEEPEST,
    "text": r'"\u0000\ud800😀"',
}


@pytest.fixture(params=PAYLOADS)
def sent(request: pytest.FixtureRequest) -> str:
    """A payload as it is written into a body."""
    return PAYLOADS[request.param]


def as_sent(got: object, sent: str) -> bool:
    """Whether a value is, character for character, what was sent."""
    return canonical.encode(got) == canonical.encode(canonical.parse(sent))


def digest(sent: str) -> str:
    return canonical.digest_of(canonical.parse(sent))


def post(world: ApiWorld, path: str, text: str, *, key: str | None = None) -> Any:
    """Send a body as it is written here."""
    asked = Asked(method="POST", path=path, raw=text.encode(), key=key)
    return world.done(world.send(asked))


def report(world: ApiWorld, outcome: str, *, queue: str = "q") -> Any:
    """Claim, start and report with the fields of ``outcome`` as they are written."""
    lease = world.running(queue)
    named = f'"task_id": "{lease["task_id"]}", "token": "{lease["token"]}"'
    answer = post(
        world, "/worker/report", f'{{"worker": "w", "reports": [{{{named}, {outcome}}}]}}'
    )
    assert answer["reports"][0]["accepted"], answer
    world.settle()


def test_through_a_workflow(each_world: ApiWorld, sent: str) -> None:
    """Input, claim, result, the next step's input, and the output."""
    world = each_world
    first = task("a", input="${ input }")
    world.flow(first, task("b", input="${ steps.a.output }"), output="${ steps.b.output }")
    body = f'{{"definition": "flow", "instance_key": "k", "input": {sent}}}'
    instance_id = post(world, "/instances", body)["id"]
    assert post(world, "/instances", body)["created"] is False
    assert as_sent(world.look(instance_id)["input"], sent)
    for step in ("a", "b"):
        (claimed,) = world.turn(claim={"queues": ["q"], "limit": 1})["claimed"]
        assert as_sent(claimed["input"], sent)
        lease = {"task_id": claimed["task_id"], "token": claimed["token"]}
        world.turn(releases=[lease])
        world.pass_ms(1_000)
        world.settle()
        report(world, f'"outcome": "SUCCEEDED", "result": {sent}')
        assert as_sent(world.step(instance_id, step)["output"], sent)
    seen = world.look(instance_id)
    assert seen["state"] == "SUCCEEDED"
    assert as_sent(seen["output"], sent)
    for told in seen["tasks"]:
        assert as_sent(told["input"], sent)
        assert as_sent(told["result"], sent)
        assert as_sent(told["attempts"][0]["result"], sent)
    digests = set(_digests(world.done(world.get(f"/instances/{instance_id}/history"))))
    assert digest(sent) in digests
    assert world.findings() == []


def _digests(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("sha256:"):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _digests(child)


def test_through_a_batch(each_world: ApiWorld, sent: str) -> None:
    each_world.flow()
    one = f'{{"definition": "flow", "instance_key": "k", "input": {sent}}}'
    (item,) = post(each_world, "/instances:batch", f'{{"instances": [{one}]}}')["items"]
    assert as_sent(each_world.look(item["instance"]["id"])["input"], sent)


@pytest.mark.rule("REC-10")
def test_through_recovery(each_world: ApiWorld, sent: str) -> None:
    """ReviewTask's result, then ResolveStep's: both stand, and the audits cite their digests."""
    world = each_world
    world.flow(task("a", max_attempts=2), output="${ steps.a.output }")
    instance_id = world.in_review()
    for operation in ("review-task", "resolve-step"):
        asked = world.ready(instance_id, operation, result=None)
        body = canonical.encode(asked.body).replace('"result":null', f'"result":{sent}')
        first = post(world, asked.path, body, key=asked.key)
        assert post(world, asked.path, body, key=asked.key) == first
        world.settle()
    seen = world.look(instance_id)
    assert as_sent(seen["tasks"][0]["result"], sent)
    assert as_sent(world.step(instance_id)["output"], sent)
    world.done(world.send(world.ready(instance_id, "continue")))
    world.settle()
    assert as_sent(world.look(instance_id)["output"], sent)
    audits = world.done(world.get(f"/instances/{instance_id}/audit"))["items"]
    assert digest(sent) in set(_digests(audits))
    assert world.findings() == []


def test_through_a_signal(each_world: ApiWorld, sent: str) -> None:
    """Taken by a wait, and kept for one that comes later."""
    world = each_world
    later = {"signal": "b", "name": "later"}
    world.flow({"signal": "a", "name": "now"}, later, output="${ steps.b.output }")
    instance_id = world.begin()
    path = f"/instances/{instance_id}/signals"
    for name in ("later", "now"):
        body = f'{{"name": "{name}", "payload": {sent}}}'
        first = post(world, path, body, key=name)
        again = post(world, path, body, key=name)
        assert (again["id"], again["created"]) == (first["id"], False)
    world.settle()
    for step in ("a", "b"):
        assert as_sent(world.step(instance_id, step)["output"], sent)
    assert as_sent(world.look(instance_id)["output"], sent)
    assert world.findings() == []


def test_through_a_task_of_its_own(each_world: ApiWorld, sent: str) -> None:
    world = each_world
    body = f'{{"queue": "q", "handler": "do", "task_key": "t", "input": {sent}}}'
    made = post(world, "/tasks", body)
    assert as_sent(made["input"], sent)
    assert post(world, "/tasks", body)["id"] == made["id"]
    report(world, '"outcome": "UNKNOWN", "detail": "lost\\u0000\\ud800😀"')
    told = world.task(made["id"])["attempts"][0]["error"]
    assert as_sent(told["message"], r'"lost\u0000\ud800😀"')
    why = canonical.encode({**WHY, "execution_settled": True, "verdict": "SUCCEEDED"})[1:-1]
    revision = world.task(made["id"])["revision"]
    body = f'{{{why}, "expected_task_revision": "{revision}", "result": {sent}}}'
    post(world, f"/tasks/{made['id']}/review", body, key=world.new_key())
    assert as_sent(world.task(made["id"])["result"], sent)


def test_details_of_a_failure_and_a_workers_name(each_world: ApiWorld, sent: str) -> None:
    world = each_world
    made = world.create_task()
    failure = r'"code": "NO\u0000\ud800 😀", "message": "\u0000\ud800😀"'
    report(world, f'"outcome": "FAILED", {failure}, "retryable": false, "details": {sent}')
    (attempt,) = world.task(made["id"])["attempts"]
    assert as_sent(attempt["error"]["details"], sent)
    assert as_sent(attempt["error"]["message"], r'"\u0000\ud800😀"')
    assert attempt["code"] == "NO____"


def test_a_cited_late_report_is_as_it_was_reported(each_world: ApiWorld, sent: str) -> None:
    world = each_world
    made = world.create_task()
    lease = world.running()
    world.report(lease, {"outcome": "UNKNOWN"})
    named = f'"task_id": "{lease["task_id"]}", "token": "{lease["token"]}"'
    late = f'{{{named}, "outcome": "SUCCEEDED", "result": {sent}}}'
    post(world, "/worker/report", f'{{"worker": "w", "reports": [{late}]}}')
    (kept,) = world.task(made["id"])["late_reports"]
    assert as_sent(kept["result"], sent)
    body = {**WHY, "execution_settled": True, "verdict": "SUCCEEDED", "late_report_id": kept["id"]}
    body["expected_task_revision"] = world.task(made["id"])["revision"]
    world.done(world.post(f"/tasks/{made['id']}/review", body, key=world.new_key()))
    assert as_sent(world.task(made["id"])["result"], sent)


def test_the_reason_of_a_cancel(each_world: ApiWorld) -> None:
    """It becomes the instance's error."""
    each_world.flow()
    instance_id = each_world.begin()
    reason = "\u2028\x01😀" * 300
    body = {"expected_control_revision": "1", "reason": reason}
    each_world.done(each_world.post(f"/instances/{instance_id}/cancel", body, key="k"))
    each_world.settle()
    assert each_world.look(instance_id)["error"]["message"] == reason
    again = each_world.post(f"/instances/{instance_id}/pause", body, key="l")
    assert again.code == "CONTROL_REVISION_CONFLICT"
    (told, *_) = each_world.done(each_world.get(f"/instances/{instance_id}/audit"))["items"]
    assert told["reason"] == reason


def test_the_largest_payload_and_one_byte_more(each_world: ApiWorld) -> None:
    world = each_world
    world.create_task()
    lease = world.running()
    largest = "x" * (limits.PAYLOAD_BYTES_MAX - 2)
    told = {"outcome": "SUCCEEDED", "result": largest + "x"}
    refused = world.post("/worker/report", {"worker": "w", "reports": [{**lease, **told}]})
    assert (refused.status, refused.code) == (413, "PAYLOAD_TOO_LARGE")
    assert refused["pointer"] == "/reports/0/result"
    told = {"outcome": "SUCCEEDED", "result": largest}
    world.report(lease, told)
    assert world.task(lease["task_id"])["result"] == largest


def test_what_is_stored_counts_not_what_is_sent(world: ApiWorld) -> None:
    """A character beyond ASCII is longer in canonical text than in a body."""
    text = "😀" * (limits.PAYLOAD_BYTES_MAX // 12 + 1)
    raw = f'{{"queue": "q", "handler": "do", "task_key": "t", "input": "{text}"}}'.encode()
    assert len(raw) < limits.PAYLOAD_BYTES_MAX
    answer = world.send(Asked(method="POST", path="/tasks", raw=raw))
    assert (answer.code, answer["pointer"]) == ("PAYLOAD_TOO_LARGE", "/input")


def test_a_level_more_than_the_deepest_is_refused(world: ApiWorld) -> None:
    raw = f'{{"queue": "q", "handler": "do", "task_key": "t", "input": [{DEEPEST}]}}'.encode()
    answer = world.send(Asked(method="POST", path="/tasks", raw=raw))
    assert (answer.status, answer.code) == (400, "INVALID_JSON")
    assert answer["pointer"] == "/input" + "/0" * limits.JSON_DEPTH_MAX


def test_the_deepest_payload_in_the_deepest_definition(world: ApiWorld) -> None:
    """Its answer nests further than anything that is stored, and can be read all the same."""
    step = task("a", input="${ input }")
    for n in range(limits.DEFINITION_DEPTH_MAX - 1):
        step = {"parallel": f"p{n}", "branches": {"x": [step]}}
    world.flow(step, output="${ steps.a.output }")
    deeper = {"parallel": "p", "branches": {"x": [step]}}
    document = {"name": "flow", "version": 2, "steps": [deeper]}
    answer = world.put("/definitions/flow/versions/2", {"document": document})
    assert answer.code == "DEFINITION_INVALID"
    body = f'{{"definition": "flow", "instance_key": "k", "input": {DEEPEST}}}'
    instance_id = post(world, "/instances", body)["id"]
    report(world, f'"outcome": "SUCCEEDED", "result": {DEEPEST}')
    seen = world.look(instance_id)
    assert as_sent(seen["output"], DEEPEST)
    node = seen["steps"]
    while node["children"]:
        (node,) = node["children"]
    assert as_sent(node["activation"]["output"], DEEPEST)
