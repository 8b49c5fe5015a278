"""Queries: unknown parameters, bad values, cursors that we never gave out; pages that are whole."""

import base64
from urllib.parse import quote

import pytest

from pulseweave.kernel import canonical, limits
from pulseweave.store.views.pages import encode_cursor
from tests.api.happy import DISTINCT, HAPPY
from tests.api.world import BY_KEY, WHY, ApiWorld, Asked, task

PAGED = [key for key, endpoint in BY_KEY.items() if "cursor" in endpoint.query]
LIMITED = [key for key, endpoint in BY_KEY.items() if "limit" in endpoint.query]
SOME_ID = "01900000-0000-7000-8000-000000000000"


def _with(asked: Asked, query: str) -> Asked:
    mark = "&" if "?" in asked.path else "?"
    return asked.but(path=f"{asked.path}{mark}{query}")


@pytest.mark.parametrize("key", DISTINCT)
def test_parameters_are_known_and_stand_once(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    before = world.everything()
    for query, pointer in (
        ("nonsense=1", "/nonsense"),
        ("a~b%2Fc", "/a~0b~1c"),
        ("%00=%00", "/\0"),
        ("=", "/"),
        ("LIMIT=1", "/LIMIT"),
        ("limit=1&limit=1", "/limit"),
    ):
        answer = world.send(_with(asked, query))
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", pointer), answer.text
    assert world.everything() == before


def test_a_cursor_that_we_never_gave_out_is_refused(each_world: ApiWorld) -> None:
    forged = [
        "x",
        "é",
        "a" * 5000,
        encode_cursor(),
        encode_cursor(2**63),
        encode_cursor(2**31, 2**63),
        encode_cursor(-1, 1),
        encode_cursor("a\0"),
        encode_cursor("\ud800", 1),
        encode_cursor("é"),
        encode_cursor(1, "é"),
        encode_cursor("x" * 300, 1),
        encode_cursor(SOME_ID, SOME_ID, SOME_ID),
        base64.urlsafe_b64encode(b'{"a": 1}').decode(),
        base64.urlsafe_b64encode(b"[1.0]").decode(),
        base64.urlsafe_b64encode(b"[true]").decode(),
        base64.urlsafe_b64encode(b"\xff").decode(),
    ]
    for key in PAGED:
        asked = HAPPY[key](each_world)
        for cursor in forged:
            answer = each_world.send(_with(asked, f"cursor={quote(cursor)}"))
            assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/cursor"), cursor


@pytest.mark.parametrize("key", LIMITED)
def test_a_limit_is_a_number_within_bounds(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    for wrong in ("0", "-1", "501", "1.0", "١", "", "1e1", "9" * 5000):
        answer = world.send(_with(asked, f"limit={quote(wrong)}"))
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", "/limit"), wrong
    assert world.send(_with(asked, f"limit={limits.PAGE_ROWS_MAX}")).code is None


def test_flags_states_and_ids_are_checked(each_world: ApiWorld) -> None:
    for query, pointer in (
        ("/instances?paused=1", "/paused"),
        ("/instances?in_review=TRUE", "/in_review"),
        ("/instances?state=running", "/state"),
        ("/instances?state=__class__", "/state"),
        ("/audit?task_id=%F0%9F%98%80", "/task_id"),
        ("/tasks/events", "/partition"),
        ("/tasks/events?partition=2147483648", "/partition"),
        ("/tasks/events?partition=1&after=9223372036854775808", "/after"),
    ):
        answer = each_world.get(query)
        assert (answer.code, answer["pointer"]) == ("INVALID_COMMAND", pointer), query
    last = "/tasks/events?partition=2147483647&after=9223372036854775807"
    assert each_world.done(each_world.get(last))["items"] == []
    world = each_world
    world.flow()
    retry = world.post(
        f"/instances/{world.begin()}/recovery/continue?dry_run=yes",
        {"expected_revision": "1", "review_resolved": True, **WHY},
        key="k",
    )
    assert (retry.code, retry["pointer"]) == ("INVALID_COMMAND", "/dry_run")


@pytest.mark.parametrize("key", ["instance_id", "task_id", "token_id"])
def test_what_can_be_no_id_names_nothing(each_world: ApiWorld, key: str) -> None:
    asked, path = {
        "instance_id": ("GET", "/instances/{}"),
        "task_id": ("GET", "/tasks/{}"),
        "token_id": ("POST", "/tokens/{}/revoke"),
    }[key]
    for text in ("x", "%00", "%F0%9F%98%80", SOME_ID.upper(), f"{SOME_ID}%0A", "9" * 5000):
        answer = each_world.send(Asked(method=asked, path=path.format(text)))
        assert answer.status == 404, text


def _all_pages(world: ApiWorld, path: str) -> list[dict[str, object]]:
    """Every item, one to a page."""
    found: list[dict[str, object]] = []
    cursor = ""
    while True:
        page = world.done(world.get(f"{path}{'&' if '?' in path else '?'}limit=1{cursor}"))
        found += page["items"]
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={quote(page['cursor'])}"


def test_pages_are_whole(each_world: ApiWorld) -> None:
    """One at a time gives what all at once gives."""
    world = each_world
    for name in ("flow", "glow"):
        for version in (1, 2):
            world.flow(task("a", max_attempts=3), name=name, version=version)
    for n in range(3):
        world.begin(f"k{n}")
        world.pass_ms(1)
    for _ in range(3):
        world.work({"outcome": "UNKNOWN"})
        world.pass_ms(1)
    stopped = world.begin("stopped")
    for _ in range(2):
        world.post(
            f"/instances/{stopped}/cancel", {"expected_control_revision": "1"}, key=world.new_key()
        )
    world.settle()
    for path, count in (
        ("/definitions", 4),
        ("/instances", 4),
        ("/instances?in_review=true", 3),
        ("/instances?state=CANCELLED", 1),
        ("/instances?definition=flow&paused=false", 4),
        ("/instances?instance_key=k1", 1),
        (f"/instances/{stopped}/history", 3),
        ("/audit", 2),
        ("/reviews", 3),
    ):
        whole = world.done(world.get(path))
        assert whole["cursor"] is None
        assert len(whole["items"]) == count, (path, len(whole["items"]))
        assert canonical.encode(_all_pages(world, path)) == canonical.encode(whole["items"])


@pytest.mark.rule("PUL-11")
def test_the_result_stream_is_read_in_order_and_again(each_world: ApiWorld) -> None:
    """From any position, without gaps; a position is the answer's own."""
    world = each_world
    for n in range(4):
        world.create_task(f"t{n}")
        world.work()
    path = "/tasks/events?partition={}&limit=1&after={}"
    seen = 0
    partitions = world.done(world.get("/me"))["partitions"]
    assert len(partitions) == limits.PARTITIONS_PER_NAMESPACE
    assert not set(partitions) & set(world.get("/me", token=world.foreigner)["partitions"])
    for partition in partitions:
        after, got = "0", []
        while (page := world.done(world.get(path.format(partition, after))))["items"]:
            got += page["items"]
            after = page["after"]
        assert [event["seq"] for event in got] == [str(n + 1) for n in range(len(got))]
        assert world.done(world.get(path.format(partition, after)))["after"] == after
        foreign = world.get(path.format(partition, "0"), token=world.foreigner)
        assert world.done(foreign)["items"] == []
        seen += len(got)
    assert seen == 4
