"""The tutorial is run as it stands: its files, its commands, in its order."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TUTORIAL = REPOSITORY / "docs" / "tutorial" / "first-workflow.md"
WAIT_S = 30


class Reader:
    """Someone who follows the page in an empty folder."""

    def __init__(self, folder: Path) -> None:
        text = TUTORIAL.read_text(encoding="utf-8")
        self.folder = folder
        for name, body in re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL):
            (folder / name).write_text(body, encoding="utf-8")
        self.commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path}
        self.running: list[subprocess.Popen[str]] = []

    def command(self, beginning: str) -> str:
        found: str = next(c for c in self.commands if c.startswith(beginning))
        return found

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def spawn(self, command: str) -> "subprocess.Popen[str]":
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                command.split(),
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.running.append(process)
        return process

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    found.close()


def until(seen: Callable[[], bool]) -> None:
    waited = Event()
    for _ in range(WAIT_S * 10):
        if seen():
            return
        waited.wait(0.1)
    raise AssertionError("it did not come")


def test_the_tutorial_runs_as_it_stands(reader: Reader) -> None:
    server = reader.spawn(reader.command("weave dev").replace("8420", "0"))
    assert server.stdout is not None
    for _ in range(3):
        line = server.stdout.readline()
        if "export" in line:
            name, _, value = line.strip().removeprefix("export ").partition("=")
            reader.environment[name] = value
    assert reader.environment["WEAVE_URL"].startswith("http://127.0.0.1:")
    assert "registered" in reader.run(reader.command("weave apply"))
    worker = reader.spawn(reader.command("weave worker").strip())

    assert "SUCCEEDED" in reader.run(reader.command("weave start refund o-1"))

    reader.run(reader.command("weave start refund o-unlucky"))
    assert worker.wait(WAIT_S) == -signal.SIGKILL
    reader.spawn(reader.command("weave worker").strip())
    until(lambda: "NEEDS_REVIEW" in reader.run("weave ps"))
    assert "REVIEW_TASK applies" in reader.run(reader.command("weave review"))

    recovery = reader.command("ID=")
    for part in re.split(r"\n(?=weave review \$ID)", recovery):
        find = recovery.splitlines()[0]
        reader.run(part if part.startswith("ID=") else f"{find}\n{part}")
        if "review-task" in part:
            until(lambda: "RESOLVE_STEP applies" in reader.run("weave review"))
    find = reader.command("ID=").splitlines()[0].replace(" --in-review", "")
    until(lambda: "✓ SUCCEEDED" in reader.run(f"{find}\nweave show $ID").splitlines()[0])
    shown = reader.run(f"{find}\n{reader.command('weave show')}")
    assert "concluded by a person" in shown
    assert shown.count("REVIEW_TASK") == 2  # both audits: the task's and the workflow's
