"""What a step may read: only what certainly ended before it (WEA-1)."""

import pytest

from pulseweave.core.weave.definition.problems import ProblemCode
from tests.core.weave.definition.documents import document, problems_of, task


def _tree(reader: str, read: str) -> dict[str, object]:
    """A tree with one step that reads another: a · p(x: b c | y: d · s(e · f)) · g."""

    def leaf(key: str) -> dict[str, object]:
        return task(key, input=f"${{steps.{read}.output}}") if key == reader else task(key)

    return document(
        leaf("a"),
        {
            "parallel": "p",
            "branches": {
                "x": [leaf("b"), leaf("c")],
                "y": [leaf("d"), {"sequence": "s", "steps": [leaf("e"), leaf("f")]}],
            },
        },
        leaf("g"),
    )


COMPLETE = {
    "a": "",
    "b": "a",
    "c": "ab",
    "d": "a",
    "e": "ad",
    "f": "ade",
    "g": "abcdefsp",
}


@pytest.mark.rule("WEA-1")
@pytest.mark.parametrize("reader", COMPLETE)
@pytest.mark.parametrize("read", "abcdefgps")
def test_each_step_reads_exactly_what_is_complete_before_it(reader: str, read: str) -> None:
    found = problems_of(_tree(reader, read))

    if read in COMPLETE[reader]:
        assert found == ()
    else:
        assert [problem.code for problem in found] == [ProblemCode.NOT_COMPLETE_HERE]
        assert found[0].pointer.endswith("/input")


@pytest.mark.parametrize(
    ("reader", "read", "reason"),
    [
        ("c", "c", "can't read its own output"),
        ("c", "p", "complete only when this step is"),
        ("f", "s", "complete only when this step is"),
        ("b", "e", "another branch of 'p'"),
        ("d", "c", "another branch of 'p'"),
        ("b", "c", "it comes later"),
        ("e", "f", "it comes later"),
        ("a", "s", "it comes later"),
    ],
)
def test_the_reason_is_told(reader: str, read: str, reason: str) -> None:
    (problem,) = problems_of(_tree(reader, read))

    assert reason in problem.message


@pytest.mark.rule("WEA-1")
@pytest.mark.parametrize("field", ["input", "concurrency_key", "business_key"])
def test_every_template_of_a_step_is_checked(field: str) -> None:
    value = document(task("a", **{field: "x ${steps.b.output}"}), task("b"))
    (problem,) = problems_of(value)

    assert (problem.code, problem.pointer) == (
        ProblemCode.NOT_COMPLETE_HERE,
        f"/steps/0/{field}",
    )


@pytest.mark.rule("WEA-1")
def test_the_output_may_read_every_step_but_no_other() -> None:
    steps = [task("a"), {"parallel": "p", "branches": {"x": [task("b")]}}]

    assert problems_of(document(*steps, output=["${steps.a.output}", "${steps.p.output.x}"])) == ()
    (problem,) = problems_of(document(*steps, output={"o": "${steps.c.output + steps.a.output}"}))
    assert (problem.code, problem.pointer) == (ProblemCode.UNKNOWN_STEP, "/output/o")


def test_each_step_of_an_expression_is_told() -> None:
    value = document(task("a"), task("b", input="${[steps.x.output, steps.y.output]}"))

    assert [problem.message for problem in problems_of(value)] == [
        "no step has the key 'x'",
        "no step has the key 'y'",
    ]
