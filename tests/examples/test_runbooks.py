"""The examples' READMEs are run as they stand: every command, each in its order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.provider.client import Provider
from examples.provider.process import REPOSITORY
from pulseweave.store.engine import open_database
from pulseweave.txn.doctor import examine
from tests.examples.runbook import Runbook


@pytest.fixture
def runbook(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runbook]:
    made = Runbook(REPOSITORY / "examples" / request.param / "README.md", tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def effects(runbook: Runbook, name: str) -> list[str]:
    """The kinds of what the provider did for a name, in order."""
    with Provider(runbook.environment["PROVIDER_URL"]) as provider:
        return [effect["kind"] for effect in provider.effects(order_id=name)]


def damaged(runbook: Runbook) -> list[str]:
    """The instances in which the doctor finds something."""
    database = open_database(f"sqlite:///{runbook.folder / 'weave.db'}")
    try:
        return [found.instance_id for page in examine(database) for found in page.findings]
    finally:
        database.close()


@pytest.mark.parametrize("runbook", ["provisioning"], indirect=True)
@pytest.mark.rule("S3", "S4", "S6")
def test_provisioning_is_run_and_recovered_as_its_readme_says(runbook: Runbook) -> None:
    once = ["cluster", "configuration"]
    for title, cluster in {
        "Run it": "c-2",
        "A question failed": "c-3",
        "All rounds are used up": "c-4",
        "A question has no answer": "c-5",
    }.items():
        assert "SUCCEEDED" in runbook.work_through(title).splitlines()[0], title
        assert effects(runbook, cluster) == once, title
    assert effects(runbook, "c-1") == ["cluster", "configuration", "configuration", "monitor"]
    assert damaged(runbook) == []


@pytest.mark.parametrize("runbook", ["transfer"], indirect=True)
@pytest.mark.rule("S1", "S6")
def test_a_transfer_is_approved_and_recovered_as_its_readme_says(runbook: Runbook) -> None:
    for title, name in {
        "Approve a transfer": "t-1",
        "An approval is waited for no more": "t-2",
        "Nobody knows whether the money went": "t-3",
    }.items():
        assert "SUCCEEDED" in runbook.work_through(title).splitlines()[0], title
        assert effects(runbook, name) == ["reservation", "transfer", "notification"], title
    assert len(damaged(runbook)) == 1, "the wait that was lost, and nothing else"
