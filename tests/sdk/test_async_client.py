"""The asynchronous client is the other one in another manner, and works."""

import asyncio
import subprocess
import sys
from pathlib import Path

from pulseweave import AsyncClient, Task, Workflow

REPOSITORY = Path(__file__).resolve().parents[2]


def test_it_is_what_the_script_makes() -> None:
    command = [sys.executable, "scripts/make_async_client.py", "--check"]
    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0


def test_it_starts_reads_and_lists(tmp_path: Path) -> None:
    async def use() -> tuple[str, list[str], list[str]]:
        async with AsyncClient.embedded(f"sqlite:///{tmp_path / 'weave.db'}") as client:
            flow = Workflow("flow", version=1, steps=[Task("one", queue="q", handler="do")])
            await client.definitions.put(flow)
            run = await client.instances.start("flow", key="k", input={})
            detail = await run.detail()
            receipt = await client.instances.cancel(
                run.id, expected_control_revision=detail.control_revision
            )
            ended = await run.wait(10)
            listed = [one.instance_key async for one in client.instances.list()]
            causes = [entry.cause async for entry in client.instances.history(run.id)]
            assert receipt.operation == "CANCEL"
            return ended.state, listed, causes

    state, listed, causes = asyncio.run(use())
    assert (state, listed, causes[0]) == ("CANCELLED", ["k"], "START")
