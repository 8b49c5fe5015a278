"""The bound of leaves under way, and evaluations that look only at what moved (PUL-16, WEA-16)."""

import pytest

from pulseweave.kernel import limits
from tests.core.weave.definition.documents import task
from tests.core.weave.test_branching import advanced, finish_step

MOST = limits.UNSETTLED_TASKS_PER_INSTANCE_MAX
TRIPLE = {"parallel": "p", "branches": {key: [task(key)] for key in ("a", "b", "c")}}


@pytest.mark.rule("PUL-16", "WEA-16")
def test_what_has_no_room_is_entered_as_soon_as_there_is_some() -> None:
    """Three steps an item: the last item that begins has room for one of its three."""
    each = {"map": "all", "items": "${input}", "max_concurrency": MOST, "steps": [TRIPLE]}
    at = advanced(list(range(MOST)), each)
    last = MOST // 3
    assert (len(at.leaves), at.under_way) == (MOST, MOST)
    assert at.scopes["all"].entered == last + 1
    assert f"a[{last}]" in at.leaves
    assert f"b[{last}]" not in at.leaves
    finish_step(at, "a[0]")
    assert f"b[{last}]" in at.leaves
    assert at.under_way == MOST
    finish_step(at, "b[0]")
    finish_step(at, "c[0]")
    assert f"c[{last}]" in at.leaves
    assert f"a[{last + 1}]" in at.leaves
    assert at.scopes["all"].open[0] == 1


@pytest.mark.rule("WEA-16", "WEA-2")
def test_an_item_of_an_inner_map_moves_the_items_around_it() -> None:
    inner = {"map": "inner", "as": "cell", "items": "${item}", "steps": [task("one")]}
    outer = {"map": "outer", "items": "${input}", "steps": [inner, task("two")]}
    at = advanced([[1, 2], [3]], outer)
    finish_step(at, "one[0][0]")
    assert at.scopes["inner[0]"].open == (1,)
    finish_step(at, "one[1][0]")
    assert "two[1]" in at.leaves
    assert "two[0]" not in at.leaves
    finish_step(at, "one[0][1]")
    finish_step(at, "two[1]")
    assert at.scopes["outer"].open == (0,)
    assert "two[0]" in at.leaves


@pytest.mark.rule("WEA-16", "PUL-17")
def test_what_moves_in_an_item_that_is_done_is_looked_at_no_more() -> None:
    each = {"map": "all", "items": "${input}", "steps": [task("one")]}
    at = advanced([1], each)
    at.touch_item("inner[3][7]")
    assert at.touched_items == {"inner[3][7]"}
    finish_step(at, "one[0]")
    assert at.scopes["all"].done
