"""Outputs of composite nodes and the leaves in them (WEA-2)."""

import pytest

from pulseweave.core.weave.definition.model import (
    children_of,
    leaves_of,
    nodes_of,
    output_leaves_of,
)
from pulseweave.core.weave.values import Outputs, output_of
from tests.core.weave.definition.documents import order

OUTPUTS = {"charge": 1, "compose": 2, "notify": {"sent": None}, "reserve": "\ud800", "ship": [3]}


@pytest.mark.rule("WEA-2")
@pytest.mark.parametrize(
    ("key", "output"),
    [
        ("charge", 1),
        ("notify", {"sent": None}),
        ("fulfil", {"mail": {"sent": None}, "stock": "\ud800"}),
        ("rest", [3]),
    ],
)
def test_a_task_has_its_own_output_a_sequence_its_last_a_parallel_an_object_by_branch(
    key: str, output: object
) -> None:
    node = order().nodes[key]

    assert output_of(node, (), Outputs(values=OUTPUTS, scopes={})) == output
    needed = {leaf: OUTPUTS[leaf] for leaf in output_leaves_of(node)}
    assert output_of(node, (), Outputs(values=needed, scopes={})) == output


@pytest.mark.rule("WEA-2")
def test_the_root_sequence_has_the_output_of_the_last_step() -> None:
    assert output_of(order().root, (), Outputs(values=OUTPUTS, scopes={})) == [3]


def test_leaves_and_nodes_come_in_order() -> None:
    root = order().root

    assert [leaf.key for leaf in leaves_of(root)] == [
        "charge",
        "compose",
        "notify",
        "reserve",
        "ship",
    ]
    keys = [node.key for node in nodes_of(root)]
    assert keys == [
        None,
        "charge",
        "fulfil",
        None,
        "compose",
        "notify",
        None,
        "reserve",
        "rest",
        "ship",
    ]
    assert children_of(order().nodes["ship"]) == ()
