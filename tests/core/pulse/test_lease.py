"""Claim, start, heartbeat, release, and leases that lapse before the start."""

from typing import Any

import pytest

from pulseweave.core.pulse.change import AttemptOpened
from pulseweave.core.pulse.lease import (
    claim,
    give_back,
    heartbeat,
    lose_unstarted,
    start,
    unstarted_delay_ms,
)
from pulseweave.core.pulse.policy import Effect
from pulseweave.core.pulse.task import Holds, Leased, Phase, Queued, Running, TaskState
from pulseweave.kernel import limits
from pulseweave.kernel.check import InvariantViolation
from tests.core.pulse.tasks import (
    IN_REVIEW,
    KEY,
    LEASED,
    MS,
    NOW,
    OTHER,
    PHASES,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    TOKEN,
    of,
    task,
)

LAPSED = Leased(token=TOKEN, expires_at=NOW)
LAPSED_RUN = Running(token=TOKEN, expires_at=NOW, stop_at=None)


# --- claim ----------------------------------------------------------------------------------------


@pytest.mark.rule("PUL-2")
def test_a_claim_leases_for_a_short_while_and_starts_nothing() -> None:
    change = claim(task(key=KEY), now=NOW, token=TOKEN)
    assert change.after.phase == Leased(TOKEN, NOW + limits.UNSTARTED_LEASE_MS * MS)
    assert (change.after.attempt_count, change.after.holds_key) == (0, True)
    assert (change.opened, change.event) == (None, None)


@pytest.mark.parametrize("holds", [Holds.GATE, Holds.KEY, Holds.DELAY, Holds.GATE | Holds.KEY])
def test_what_is_held_is_never_claimed(holds: Holds) -> None:
    phase = Queued(due_at=NOW) if holds & Holds.DELAY else QUEUED
    with pytest.raises(InvariantViolation, match="only what can run"):
        claim(task(phase, holds=holds, key=KEY), now=NOW, token=TOKEN)


@pytest.mark.rule("PUL-9")
def test_a_task_whose_own_unknown_execution_holds_its_key_is_claimable() -> None:
    waiting = task(tainted=True, key=KEY, effect=Effect.IDEMPOTENT)
    assert waiting.holds_key
    assert claim(waiting, now=NOW, token=TOKEN).after.holds_key


# --- start ----------------------------------------------------------------------------------------

#: phase, facts, the token that is given, what is answered: the first refusal of the order wins.
START_TABLE: list[tuple[Phase, dict[str, Any], str, str | None]] = [
    (LEASED, {}, TOKEN, None),
    (LEASED, {"holds": Holds.GATE}, TOKEN, "GATE_CLOSED"),
    (LEASED, {"deadline_at": NOW}, TOKEN, "START_REFUSED"),
    (LEASED, {"start_by": NOW}, TOKEN, "START_REFUSED"),
    (LEASED, {"start_by": NOW, "holds": Holds.GATE}, TOKEN, "START_REFUSED"),
    (LEASED, {}, OTHER, "LEASE_LOST"),
    (LEASED, {"deadline_at": NOW, "holds": Holds.GATE}, OTHER, "LEASE_LOST"),
    (LAPSED, {}, TOKEN, "LEASE_LOST"),
    (LAPSED, {"deadline_at": NOW, "holds": Holds.GATE}, TOKEN, "LEASE_LOST"),
    (RUNNING, {}, OTHER, "LEASE_LOST"),
    (LAPSED_RUN, {}, TOKEN, "LEASE_LOST"),
    (QUEUED, {}, TOKEN, "LEASE_LOST"),
    (IN_REVIEW, {}, TOKEN, "LEASE_LOST"),
    (SUCCEEDED, {}, TOKEN, "LEASE_LOST"),
    (LEASED, {"deadline_at": NOW + 1, "start_by": NOW + 1}, TOKEN, None),
]


@pytest.mark.rule("PUL-2", "PUL-7")
@pytest.mark.parametrize(("phase", "facts", "token", "refusal"), START_TABLE)
def test_the_order_of_a_starts_refusals(
    phase: Phase, facts: dict[str, Any], token: str, refusal: str | None
) -> None:
    answer = start(task(phase, **facts), token=token, worker='"w"', now=NOW)
    assert (answer.rejected.code if answer.rejected else None) == refusal
    if refusal is None:
        assert of(answer.change).after.state is TaskState.RUNNING
    elif refusal == "START_REFUSED":
        assert of(answer.change).after.state is TaskState.FAILED
    else:
        assert answer.change is None, "a task whose start is refused stays as it is"
    assert refusal is None or answer.attempt is None


@pytest.mark.rule("PUL-2")
def test_a_start_makes_the_attempt_counts_it_and_runs_for_the_whole_lease() -> None:
    before = task(LEASED, attempt_count=1, lease_ms=45_000)
    answer = start(before, token=TOKEN, worker='"w"', now=NOW)
    change = of(answer.change)
    assert change.after.phase == Running(TOKEN, expires_at=NOW + 45 * SECOND, stop_at=None)
    assert change.after.attempt_count == 2
    assert change.opened == AttemptOpened(
        task_id=before.id, number=2, lease_token=TOKEN, worker='"w"', started_at=NOW
    )
    assert (answer.attempt, answer.lease_ms, answer.stop_at) == (2, 45_000, None)
    assert change.event is None


@pytest.mark.rule("PUL-5", "PUL-7")
@pytest.mark.parametrize(
    ("timeout_ms", "deadline_at", "stop_at"),
    [
        (None, None, None),
        (5_000, None, NOW + 5 * SECOND),
        (None, NOW + 7 * SECOND, NOW + 7 * SECOND),
        (5_000, NOW + 7 * SECOND, NOW + 5 * SECOND),
        (9_000, NOW + 7 * SECOND, NOW + 7 * SECOND),
    ],
)
def test_a_start_says_when_the_attempt_is_to_stop(
    timeout_ms: int | None, deadline_at: int | None, stop_at: int | None
) -> None:
    before = task(LEASED, attempt_timeout_ms=timeout_ms, deadline_at=deadline_at)
    answer = start(before, token=TOKEN, worker='"w"', now=NOW)
    phase = of(answer.change).after.phase
    assert isinstance(phase, Running)
    assert (phase.stop_at, answer.stop_at) == (stop_at, stop_at)


@pytest.mark.rule("PUL-2")
def test_a_start_told_again_makes_nothing_and_answers_what_is_left_of_the_lease() -> None:
    stop_at = NOW + 60 * SECOND
    running = task(Running(TOKEN, NOW + 12_345_678, stop_at), attempt_count=2, holds=Holds.GATE)
    answer = start(running, token=TOKEN, worker='"w"', now=NOW)
    assert (answer.change, answer.rejected, answer.repeated) == (None, None, True)
    assert (answer.attempt, answer.lease_ms, answer.stop_at) == (2, 12_345, stop_at)


# --- heartbeat ------------------------------------------------------------------------------------


@pytest.mark.rule("PUL-7")
@pytest.mark.parametrize(
    ("phase", "token", "refused"),
    [
        (LEASED, TOKEN, False),
        (LEASED, OTHER, True),
        (LAPSED, TOKEN, True),
        (RUNNING, TOKEN, False),
        (RUNNING, OTHER, True),
        (LAPSED_RUN, TOKEN, True),
        (QUEUED, TOKEN, True),
        (IN_REVIEW, TOKEN, True),
        (SUCCEEDED, TOKEN, True),
    ],
)
def test_a_lapsed_lease_is_never_revived(phase: Phase, token: str, refused: bool) -> None:
    answer = heartbeat(task(phase), token=token, now=NOW)
    assert (answer.rejected is not None) == refused
    if answer.rejected is not None:
        assert (answer.rejected.code, answer.change) == ("LEASE_LOST", None)


def test_a_heartbeat_renews_what_runs_and_is_no_change_of_state() -> None:
    running = task(Running(TOKEN, NOW + 1 * SECOND, None))
    answer = heartbeat(running, token=TOKEN, now=NOW)
    after = of(answer.change).after
    assert after.phase == Running(TOKEN, NOW + 30 * SECOND, None)
    assert (after.revision, answer.lease_ms, answer.cancel) == (running.revision, 30_000, False)


@pytest.mark.rule("PUL-2")
def test_a_heartbeat_renews_no_unstarted_lease() -> None:
    answer = heartbeat(task(LEASED), token=TOKEN, now=NOW)
    assert (answer.change, answer.cancel) == (None, False)


@pytest.mark.rule("PUL-8")
def test_a_heartbeat_tells_that_cancel_was_asked() -> None:
    asked = task(Running(TOKEN, NOW + SECOND, None), cancel_requested_at=NOW - SECOND)
    answer = heartbeat(asked, token=TOKEN, now=NOW)
    assert answer.cancel
    assert of(answer.change).after.phase == Running(TOKEN, NOW + 30 * SECOND, None)


GRACE = limits.CANCEL_GRACE_MS * MS


@pytest.mark.rule("PUL-5", "PUL-7")
@pytest.mark.parametrize(
    ("expires_at", "stop_at", "renewed_to", "cancel"),
    [
        (NOW + SECOND, NOW + 1, NOW + 1 + GRACE, False),
        (NOW + SECOND, NOW, NOW + GRACE, True),
        (NOW + SECOND, NOW + 60 * SECOND, NOW + 30 * SECOND, False),
        (NOW + SECOND, NOW - GRACE + 2 * SECOND, NOW + 2 * SECOND, True),
        (NOW + SECOND, NOW - GRACE + SECOND, None, True),
        (NOW + SECOND, NOW - GRACE, None, True),
        (NOW + 30 * SECOND, None, None, False),
    ],
)
def test_renewal_ends_a_grace_after_the_stop(
    expires_at: int, stop_at: int | None, renewed_to: int | None, cancel: bool
) -> None:
    answer = heartbeat(task(Running(TOKEN, expires_at, stop_at)), token=TOKEN, now=NOW)
    assert answer.rejected is None
    assert answer.cancel == cancel
    if renewed_to is None:
        assert answer.change is None
        assert answer.lease_ms == (expires_at - NOW) // MS
    else:
        assert of(answer.change).after.phase == Running(TOKEN, renewed_to, stop_at)
        assert answer.lease_ms == (renewed_to - NOW) // MS


# --- release and loss before the start ------------------------------------------------------------


@pytest.mark.rule("PUL-14")
@pytest.mark.parametrize("phase", [LEASED, LAPSED])
def test_a_release_is_claimable_at_once_and_counts_nothing(phase: Leased) -> None:
    answer = give_back(task(phase, key=KEY, holds=Holds.GATE), token=TOKEN)
    after = of(answer.change).after
    assert (after.phase, after.holds, answer.state) == (Queued(), Holds.GATE, "QUEUED")
    assert (after.attempt_count, after.unstarted_losses, after.holds_key) == (0, 0, False)
    assert of(answer.change).event is None


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("token", [TOKEN, OTHER])
def test_only_an_unstarted_lease_is_released(phase: Phase, token: str) -> None:
    answer = give_back(task(phase), token=token)
    code = answer.rejected.code if answer.rejected else None
    if token == TOKEN and isinstance(phase, Leased):
        assert code is None
    elif token == TOKEN and isinstance(phase, Running):
        assert code == "REPORT_CONFLICT"
    else:
        assert code == "LEASE_LOST"


@pytest.mark.rule("PUL-2")
def test_a_lease_lost_before_the_start_is_a_known_non_execution() -> None:
    change = lose_unstarted(task(LAPSED, unstarted_losses=2, attempt_count=1), now=NOW)
    after = change.after
    assert after.phase == Queued(due_at=NOW + 4 * SECOND)
    assert (after.unstarted_losses, after.attempt_count, after.tainted) == (3, 1, False)
    assert after.holds is Holds.DELAY
    assert (change.closed, change.event) == (None, None)


@pytest.mark.rule("PUL-2")
def test_the_delay_after_unstarted_losses_grows_to_five_minutes() -> None:
    delays = [unstarted_delay_ms(losses) for losses in range(1, 12)]
    assert delays[:9] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000]
    assert delays[9:] == [300_000, 300_000]
    assert unstarted_delay_ms(10**9) == 300_000
