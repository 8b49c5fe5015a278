"""Free-running threads on each database: no deadlock, no rule broken, nothing lost.

``WEAVE_STRESS_COMMITS`` says after how many commits to stop; a full run is 5,000.
"""

import os
from collections import Counter
from itertools import pairwise

import pytest

from pulseweave.core.pulse.task import SETTLED, TaskState
from pulseweave.kernel import limits
from pulseweave.store import schema as t
from tests.pulse.races import deadlocks
from tests.pulse.stress import Stress
from tests.pulse.test_stream import assert_gapless
from tests.pulse.world import World

COMMITS_DEFAULT = 1_500
#: What each engine does of them: SQLite flushes every commit to the disk.
SHARES = {"sqlite": 0.25, "postgresql": 1, "mariadb": 1}


@pytest.mark.rule("PUL-1", "PUL-2", "PUL-9", "PUL-11")
def test_everything_at_once(real_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNSTARTED_LEASE_MS", 30)
    monkeypatch.setattr(limits, "UNSTARTED_DELAY_FIRST_MS", 1)
    monkeypatch.setattr(limits, "UNSTARTED_DELAY_MS_MAX", 50)
    world = real_world
    engine = world.database.capabilities.name
    before = deadlocks(world.database)
    asked = int(os.environ.get("WEAVE_STRESS_COMMITS", COMMITS_DEFAULT))
    commits = int(asked * SHARES[engine])
    stress = Stress(world, commits)
    stress.run()
    assert world.database.commits >= commits, stress.did
    assert deadlocks(world.database) == before
    stress.drain()
    judge(world)
    assert min(stress.did[name] for name in ("created", "turns", "swept", "promoted")) > 0


def judge(world: World) -> None:
    assert_gapless(world)
    tasks = {row.id: row for row in world.rows(t.tasks)}
    attempts = Counter(row.task_id for row in world.rows(t.attempts))
    settled_events = Counter(
        event.task_id for event in world.events() if event.kind in {s.value for s in SETTLED}
    )
    for task_id, row in tasks.items():
        assert TaskState(row.state) in SETTLED
        assert row.attempt_count == attempts[task_id]
        assert settled_events[task_id] == 1, "a task settles once"
        assert not row.holds_key
    assert world.rows(t.held_keys) == []
    for attempt in world.rows(t.attempts):
        assert attempt.outcome is not None, "nothing runs any more"
        unknown = attempt.outcome == "UNKNOWN"
        needs_verdict = tasks[attempt.task_id].settled_by == "VERDICT"
        assert (attempt.reviewed_by is not None) == (unknown and needs_verdict)
    overlaps = [row for row in world.rows(t.attempts) if row.ended_at < row.started_at]
    assert overlaps == []
    assert_one_holder_of_each_key(world, tasks)


def assert_one_holder_of_each_key(world: World, tasks: dict[str, object]) -> None:
    """By the attempts' own times: executions of different tasks with one key never overlap."""
    spans: dict[str, list[tuple[int, int, str]]] = {}
    for attempt in world.rows(t.attempts):
        key = tasks[attempt.task_id].key_hash  # type: ignore[attr-defined]
        if key is not None:
            spans.setdefault(key, []).append(
                (attempt.started_at, attempt.ended_at, attempt.task_id)
            )
    assert spans
    for found in spans.values():
        found.sort()
        for (_, ended_at, one), (started_at, _, other) in pairwise(found):
            assert one == other or started_at >= ended_at
