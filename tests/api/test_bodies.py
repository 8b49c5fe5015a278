"""Bodies are strict: what is wrong is refused, and its place is told by JSON Pointer (REC-12)."""

from collections.abc import AsyncIterator

import pytest

from pulseweave.kernel import canonical, limits
from pulseweave.wire.recovery import Receipt
from tests.api.happy import DISTINCT, HAPPY
from tests.api.world import BY_KEY, ApiWorld, task

WITH_BODY = [key for key in DISTINCT if BY_KEY[key].body is not None]
REVISIONS = [
    (key, field)
    for key, endpoint in BY_KEY.items()
    if endpoint.body is not None
    for field in endpoint.body.__struct_fields__
    if field.startswith("expected_")
]


@pytest.mark.parametrize("key", WITH_BODY)
def test_what_is_no_json_is_refused_with_its_place(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    before = world.everything()
    deep = b'{"a": ' + b"[" * limits.BODY_DEPTH_MAX + b"]" * limits.BODY_DEPTH_MAX + b"}"
    for raw, pointer in (
        (b'{"a": {"b": 1, "b": 1}}', "/a/b"),
        (b'{"a": [1, NaN]}', "/a/1"),
        (b'{"a": [1, {"~/": -Infinity}]}', "/a/1/~0~1"),
        (b'{"a": [1e400]}', "/a/0"),
        (b'{"a": [' + b"9" * 700 + b"]}", "/a/0"),
        (deep, "/a" + "/0" * (limits.BODY_DEPTH_MAX - 1)),
        (b'{"a": 1} {}', ""),
        (b'{"a": [1, ]}', "/a/1"),
        (b"{'a': 1}", ""),
        (b'{"a": "\x01"}', "/a"),
        (b'{"a": 01}', "/a"),
        (b'{"a": "\\ud8"}', "/a"),
        (b"nothing", ""),
        (b"", ""),
        (b" ", ""),
        (b"\xef\xbb\xbf{}", None),
        (b'{"a": "\xff"}', None),
        (b'{"a": "\xed\xa0\x80"}', None),
        ('{"a": 1}'.encode("utf-16"), None),
    ):
        answer = world.send(asked.but(raw=raw))
        assert (answer.status, answer.code) == (400, "INVALID_JSON"), (raw, answer.text)
        if pointer is not None:
            assert answer["pointer"] == pointer, (raw, answer.text)
    assert world.everything() == before


@pytest.mark.parametrize("key", WITH_BODY)
def test_what_is_no_message_is_refused_with_its_place(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    before = world.everything()
    for body, pointer in (
        ({**asked.body, "nonsense": 1}, "/nonsense"),
        ({**asked.body, "a~b/`c": 1}, "/a~0b~1`c"),
        ({**asked.body, "": 1}, "/"),
        ({**asked.body, "\ud800": 1}, ""),
        ([asked.body], ""),
        ("text", ""),
        (None, ""),
    ):
        answer = world.send(asked.but(raw=canonical.encode(body).encode()))
        assert (answer.status, answer.code) == (422, "INVALID_COMMAND"), (body, answer.text)
        assert answer["pointer"] == pointer, (body, answer.text)
    assert world.everything() == before


@pytest.mark.parametrize("key", WITH_BODY)
def test_a_body_that_is_too_long_is_not_read(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    bound = BY_KEY[key].bytes_max
    answer = world.send(asked.but(raw=b" " * bound + b"{}"))
    assert (answer.status, answer.code, answer["pointer"]) == (413, "PAYLOAD_TOO_LARGE", "")
    declared = asked.but(raw=b"{}", headers={"Content-Length": str(bound * 2)})
    assert world.send(declared).code == "PAYLOAD_TOO_LARGE"


def test_an_endless_body_is_given_up(world: ApiWorld) -> None:
    """Without a length, no more is read than may be."""
    asked = HAPPY["POST /tasks"](world)
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b" " * 65_536

    answer = world.send(asked.but(raw=endless()))
    assert answer.code == "PAYLOAD_TOO_LARGE"
    assert taken <= limits.PAYLOAD_BYTES_MAX // 65_536 + 3


@pytest.mark.rule("REC-2")
@pytest.mark.parametrize(("key", "field"), REVISIONS)
def test_a_revision_is_a_decimal_string(world: ApiWorld, key: str, field: str) -> None:
    asked = HAPPY[key](world)
    for wrong in (1, "0", "01", "-1", "+1", "1.0", "1\n", " 1", "", "1" * 20, "¹", "١", None, True):
        answer = world.send(asked.but_body(**{field: wrong}))
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", f"/{field}"), repr(wrong)
    answer = world.send(asked.but_body(**{field: "9" * 19}))
    assert answer.code is not None
    assert answer.code.endswith("REVISION_CONFLICT"), "the largest is one, though none so large is"


@pytest.mark.rule("REC-2")
@pytest.mark.parametrize("key", [k for k in WITH_BODY if BY_KEY[k].answer is Receipt])
def test_keys_reasons_and_evidence_have_a_form(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    before = world.everything()
    for wrong in ("", " a", "a ", "a\tb", "x" * 201):
        answer = world.send(asked.but(key=wrong))
        told = (answer.code, answer["rule"], answer["pointer"])
        assert told == ("INVALID_COMMAND", "REC-2", "/idempotency_key"), repr(wrong)
    assert world.send(asked.but(key=None)).code == "INVALID_COMMAND"
    has_evidence = "evidence_ref" in asked.body
    free = {"reason": ("x" * 1025,), "evidence_ref": ("", "a b", "a\u00a0b", "a\x7f", "x" * 513)}
    free["reason"] += ("  ", "\u3000", "a\0b", "\ud800")
    if has_evidence:
        free["reason"] += ("",)
        free["evidence_ref"] += ("\udfff", "a\0b")
    for field, texts in free.items():
        for text in texts if field in asked.body else ():
            answer = world.send(asked.but_body(**{field: text}))
            assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", f"/{field}"), repr(text)
    audited = ("workflow_audit",)  # a refusal of recovery is (REC-14)
    now = world.everything()
    assert {k: v for k, v in now.items() if k not in audited} == {
        k: v for k, v in before.items() if k not in audited
    }
    longest = {"reason": "😀" * 1024} | ({"evidence_ref": "😀" * 512} if has_evidence else {})
    answer = world.send(asked.but(key="~" * 200).but_body(**longest))
    assert answer.code is None, answer.text


def test_places_within_lists_are_told(world: ApiWorld) -> None:
    nothing = {"task_id": "01900000-0000-7000-8000-000000000000", "token": "x"}
    for told, pointer in (
        ({"reports": [{**nothing, "outcome": "CANCELLED"}, {}]}, "/reports/1"),
        ({"reports": [{**nothing, "outcome": "MAYBE"}]}, "/reports/0/outcome"),
        ({"reports": [{**nothing, "outcome": "FAILED", "code": 1}]}, "/reports/0/code"),
        ({"reports": [{**nothing, "outcome": "CANCELLED", "why": 1}]}, "/reports/0/why"),
        ({"starts": [nothing, {**nothing, "task_id": "x"}]}, "/starts/1/task_id"),
        ({"claim": {"queues": ["q"], "limit": 0}}, "/claim/limit"),
        ({"claim": {"queues": [], "limit": 1}}, "/claim/queues"),
        ({"claim": {"queues": ["q", 1], "limit": 1}}, "/claim/queues/1"),
        ({"wait_ms": 10**30}, "/wait_ms"),
        ({"wait_ms": 1.0}, "/wait_ms"),
    ):
        answer = world.post("/worker/turn", {"worker": "w", **told})
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", pointer), answer.text


def test_policies_of_a_task_have_bounds(world: ApiWorld) -> None:
    for told, pointer in (
        ({"effect": "sometimes"}, "/effect"),
        ({"lease": "10ms"}, "/lease"),
        ({"lease": "0s"}, "/lease"),
        ({"deadline": "tomorrow"}, "/deadline"),
        ({"start_within": "200000d"}, "/start_within"),
        ({"attempt_timeout": ""}, "/attempt_timeout"),
        ({"max_attempts": 101}, "/max_attempts"),
        ({"priority": 101}, "/priority"),
        ({"backoff": 1}, "/backoff"),
        ({"backoff": {"first": "1s"}}, "/backoff"),
        ({"backoff": {"initial": 5}}, "/backoff/initial"),
        ({"backoff": {"initial": "1m", "max": "1s"}}, "/backoff/max"),
        ({"backoff": {"factor": "2"}}, "/backoff/factor"),
        ({"backoff": {"factor": 10**400}}, "/backoff/factor"),
        ({"backoff": {"jitter": True}}, "/backoff/jitter"),
    ):
        body = {"queue": "q", "handler": "do", "task_key": "t", **told}
        answer = world.post("/tasks", body)
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", pointer), (told, answer.text)
    backoff = {"initial": "0s", "factor": 1, "max": "0s", "jitter": 0}
    world.create_task(backoff=backoff)


@pytest.mark.rule("WEA-1")
def test_a_malformed_definition_is_told_whole(world: ApiWorld) -> None:
    """All that is wrong with it, each with its place in the document."""
    document = {
        "name": "flow",
        "version": 1,
        "colour": "red",
        "on_failure": "shrug",
        "steps": [
            task("a", max_attempts=0, input="${ steps.b.output }"),
            task("a", queue="no blanks"),
            {"task": "c", "queue": "q", "handler": "do", "output": {"type": "thing"}},
        ],
    }
    answer = world.put("/definitions/flow/versions/1", {"document": document})
    assert (answer.status, answer.code, answer["rule"]) == (422, "DEFINITION_INVALID", "WEA-1")
    places = {problem["pointer"] for problem in answer["problems"]}
    assert {
        "/colour",
        "/on_failure",
        "/steps/0/max_attempts",
        "/steps/0/input",
        "/steps/1/task",
        "/steps/1/queue",
    } <= places
    assert any(place.startswith("/steps/2/output") for place in places)
    assert all(problem["message"] and problem["code"] for problem in answer["problems"])
    assert world.done(world.get("/definitions"))["items"] == []


@pytest.mark.rule("WEA-1")
def test_the_path_of_a_definition_is_its_name_and_version(world: ApiWorld) -> None:
    body = {"document": {"name": "flow", "version": 1, "steps": [task("a")]}}
    for path in ("/definitions/glow/versions/1", "/definitions/flow/versions/2"):
        assert world.put(path, body).code == "INVALID_COMMAND"
    for version in ("0", "-1", "01x", "1.0", "2147483648", "٢"):
        answer = world.put(f"/definitions/flow/versions/{version}", body)
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/version")


@pytest.mark.rule("WEA-3")
def test_a_bad_entry_of_a_batch_is_named_and_nothing_starts(world: ApiWorld) -> None:
    world.flow()
    good = {"definition": "flow", "instance_key": "k"}
    answer = world.post("/instances:batch", {"instances": [good, {**good, "instance_key": "\0"}]})
    assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/instances/1/instance_key")
    assert world.done(world.get("/instances"))["items"] == []
