"""Invariants, errors and the table of codes."""

import ast
import pickle
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from pulseweave.kernel import errors
from pulseweave.kernel.check import InvariantViolation, invariant
from pulseweave.kernel.codes import CODES
from pulseweave.kernel.errors import (
    Conflict,
    Denied,
    InvalidCommand,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    Rejected,
    Unavailable,
    WeaveError,
    kind_of_refusal,
    reject,
)

SOURCES = Path(errors.__file__).parents[1]


class Unprintable:
    """A fact that says when it is written out."""

    def __repr__(self) -> str:
        raise AssertionError("written out though the condition holds")


def test_an_invariant_that_holds_costs_no_message() -> None:
    invariant(True, "holds", fact=Unprintable())


def test_a_broken_invariant_tells_its_facts() -> None:
    with pytest.raises(InvariantViolation) as caught:
        invariant(False, "a task settles once", task_id="t-1", state=None)
    error = caught.value
    assert str(error) == "a task settles once (task_id='t-1', state=None)"
    assert error.facts == {"task_id": "t-1", "state": None}
    assert not isinstance(error, WeaveError)


def test_facts_are_shown_cut_and_travel_whole() -> None:
    with pytest.raises(InvariantViolation) as caught:
        invariant(False, "small", text="x" * 1000)
    assert len(str(caught.value)) < 250
    assert str(caught.value).endswith("…)")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.message, again.facts) == ("small", {"text": "x" * 1000})
    assert str(InvariantViolation("bare")) == "bare"


def test_a_refusal_says_code_message_rule_and_detail() -> None:
    refusal = reject("REVISION_CONFLICT", "at 5, not 4", current="5")
    assert str(refusal) == "REVISION_CONFLICT: at 5, not 4"
    assert (refusal.code, refusal.message) == ("REVISION_CONFLICT", "at 5, not 4")
    assert refusal.detail == {"current": "5"}
    assert refusal.rule == "REC-3"
    assert refusal.status == 409
    assert refusal.entry is CODES["REVISION_CONFLICT"]
    assert reject("REVISION_CONFLICT", "x", rule="REC-4").rule == "REC-4"
    assert reject("NOT_FOUND", "x").rule is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_JSON", InvalidCommand),
        ("PAYLOAD_TOO_LARGE", InvalidCommand),
        ("INVALID_COMMAND", InvalidCommand),
        ("UNAUTHENTICATED", Denied),
        ("QUEUE_ACCESS_DENIED", Denied),
        ("TASK_NOT_FOUND", NotFound),
        ("METHOD_NOT_ALLOWED", NotFound),
        ("STOP_REQUESTED", Conflict),
        ("INSTANCE_PRUNED", Conflict),
        ("QUOTA_EXCEEDED", QuotaExceeded),
    ],
)
def test_a_refusal_has_the_class_of_its_status(code: str, kind: type[Rejected]) -> None:
    refusal = reject(code, "why")
    assert type(refusal) is kind
    assert isinstance(refusal, Rejected)


def test_every_status_of_a_refusal_has_a_class() -> None:
    for code, entry in CODES.items():
        if entry.status < 500:
            assert type(reject(code, "why")) is not Rejected
    assert kind_of_refusal(418) is Rejected


@pytest.mark.parametrize("code", ["NO_SUCH_CODE", "INTERNAL", "OUTCOME_UNKNOWN"])
def test_only_codes_of_refusals_refuse(code: str) -> None:
    with pytest.raises(InvariantViolation):
        reject(code, "why")


def test_more_detail_makes_another_refusal_of_the_same_class() -> None:
    first = reject("REVISION_CONFLICT", "at 5", rule="REC-3", current="5")
    fuller = first.with_detail(journal=[1])
    assert type(fuller) is Conflict
    assert (fuller.code, fuller.message, fuller.rule) == ("REVISION_CONFLICT", "at 5", "REC-3")
    assert fuller.detail == {"current": "5", "journal": [1]}
    assert first.detail == {"current": "5"}


class Peculiar(Rejected):
    """A refusal that is made from something else."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("DEFINITION_INVALID", "; ".join(problems), detail={"problems": problems})
        self.problems = problems


@pytest.mark.parametrize(
    "error",
    [
        reject("REVISION_CONFLICT", "at 5", current="5"),
        Unavailable("busy", retry_after_ms=100),
        OutcomeUnknown("lost"),
        WeaveError("UNSUPPORTED_DATABASE", "too old"),
        Peculiar(["a", "b"]),
    ],
)
def test_errors_can_be_copied_and_sent(error: WeaveError) -> None:
    for same in (copy(error), deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(same) is type(error)
        assert str(same) == str(error)
        assert (same.rule, same.detail, same.status) == (error.rule, error.detail, error.status)


def test_a_peculiar_refusal_takes_detail_too() -> None:
    fuller = Peculiar(["a"]).with_detail(hint="b")
    assert (fuller.problems, fuller.detail) == (["a"], {"problems": ["a"], "hint": "b"})


def test_trouble_with_the_database() -> None:
    busy, lost = Unavailable("busy", retry_after_ms=100), OutcomeUnknown("lost")
    assert (busy.code, busy.status, busy.detail) == (
        "DATABASE_UNAVAILABLE",
        503,
        {"retry_after_ms": 100},
    )
    assert (lost.code, lost.status, lost.rule) == ("OUTCOME_UNKNOWN", 503, "REC-3")
    assert not isinstance(busy, Rejected)
    assert not isinstance(lost, Rejected)


def test_a_code_of_a_newer_server_is_no_trouble() -> None:
    error = WeaveError("BRAND_NEW", "why")
    assert (error.status, error.rule) == (500, None)


# --- the table ------------------------------------------------------------------------------------


def test_the_table_is_closed_and_complete() -> None:
    with pytest.raises(TypeError):
        CODES["NEW"] = CODES["INTERNAL"]  # type: ignore[index]  # that is the point
    with pytest.raises(FrozenInstanceError):
        CODES["INTERNAL"].status = 200  # type: ignore[misc]  # nor its entries
    for code, entry in CODES.items():
        assert code.isupper()
        assert code.isidentifier()
        assert 400 <= entry.status < 600
        assert entry.title
        assert entry.needed


CONFLICTS = """
REVISION_CONFLICT STEP_REVISION_CONFLICT TASK_REVISION_CONFLICT
CONTROL_REVISION_CONFLICT IDEMPOTENCY_CONFLICT NOT_IN_REVIEW INBOX_PENDING
INBOX_QUARANTINED NOT_OWNED ACTIVATION_NOT_CURRENT TASK_NOT_IN_REVIEW
STEP_NOT_RESOLVABLE EXECUTION_UNSETTLED CLASSIFICATION_MISMATCH TIMER_NOT_DUE
STOP_REQUESTED DEADLINE_PASSED BUDGET_EXHAUSTED ROUND_PENDING ROUNDS_EXHAUSTED
WAIT_NOT_REARMABLE UNRESOLVED_STEPS STEP_NOT_RETRYABLE POLL_NOT_PENDING
CONTRADICTED INTEGRITY_MISMATCH INSTANCE_ENDED LEASE_LOST GATE_CLOSED
NOT_STARTED REPORT_CONFLICT DEFINITION_CONFLICT INSTANCE_KEY_CONFLICT
START_REFUSED
"""


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (400, "INVALID_JSON"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED QUEUE_ACCESS_DENIED"),
        (404, "NOT_FOUND INSTANCE_NOT_FOUND TASK_NOT_FOUND DEFINITION_NOT_FOUND QUEUE_NOT_FOUND"),
        (405, "METHOD_NOT_ALLOWED"),
        (409, CONFLICTS),
        (410, "INSTANCE_PRUNED"),
        (413, "PAYLOAD_TOO_LARGE"),
        (422, "INVALID_COMMAND DECLARATION_REQUIRED CONTRACT_VIOLATION DEFINITION_INVALID"),
        (429, "QUOTA_EXCEEDED"),
        (503, "DATABASE_UNAVAILABLE OUTCOME_UNKNOWN"),
    ],
)
def test_the_codes_of_the_interface(status: int, codes: str) -> None:
    assert {CODES[code].status for code in codes.split()} == {status}


def refusals() -> list[tuple[str, int, str]]:
    """Every literal code that the sources refuse with: file, line, code."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name("reject" | "Rejected" | "WeaveError"),
                    args=[ast.Constant(str(code)), *_],
                ):
                    found.append((path.relative_to(SOURCES).as_posix(), node.lineno, code))
                case _:
                    pass
    return found


def test_the_sources_refuse_with_known_codes_only() -> None:
    found = refusals()
    assert found
    assert [hit for hit in found if hit[2] not in CODES] == []
