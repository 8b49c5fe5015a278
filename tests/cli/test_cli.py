"""The command: what it tells people and programs, and its exit code for each kind of refusal."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulseweave import Client, Run, TaskFailed, Worker

GOOD = """\
name: flow
version: 1
steps:
  - task: one
    queue: q
    handler: do
    on_failure: review
    max_attempts: 2
"""


class Shell:
    """Runs ``weave`` against one server, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "COLUMNS": "200"}
        self.database = f"sqlite:///{folder / 'weave.db'}"

    def weave(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pulseweave.cli", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("cli"))
    made.weave("db", "upgrade", "--database", made.database)
    token = json.loads(
        made.weave(
            *("token", "create", "ops", "--permission", "all", "--queue", "*", "--json"),
            *("--database", made.database),
        )
    )["token"]
    server = subprocess.Popen(
        [sys.executable, "-m", "pulseweave.cli", "server", "--port", "0"],
        env={**made.environment, "WEAVE_DATABASE": made.database},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    made.environment |= {"WEAVE_URL": url, "WEAVE_TOKEN": token}
    yield made
    server.terminate()
    server.communicate(timeout=30)


def test_a_bad_definition_is_told_with_its_lines(shell: Shell) -> None:
    bad = GOOD.replace("max_attempts: 2", "max_attempt: 2") + "  - task: one\n    queue: q\n"
    (shell.folder / "bad.yaml").write_text(bad)
    told = shell.weave("apply", "bad.yaml", code=2)
    assert "bad.yaml:8:5" in told
    assert "max_attempts" in told
    assert "bad.yaml:9:" in told


def test_exit_codes_tell_the_kind_of_refusal(shell: Shell) -> None:
    nowhere = "01890000-0000-7000-8000-000000000000"
    assert "INSTANCE_NOT_FOUND" in shell.weave("show", nowhere, code=4)
    assert "UNAUTHENTICATED" in shell.weave("ps", "--token", "wv_wrong", code=5)
    assert "can't be reached" in shell.weave("ps", "--url", "http://127.0.0.1:1", code=7)
    assert "INVALID_JSON" in shell.weave("start", "flow", "k", "--input", "{", code=2)
    assert "CONTROL_REVISION" in shell.weave("pause", start(shell, "x"), *control("9"), code=3)


def control(revision: str) -> tuple[str, str]:
    return ("--control-revision", revision)


def start(shell: Shell, key: str, *, name: str = "flow") -> str:
    """An instance of a definition with a queue of its own name."""
    (shell.folder / "good.yaml").write_text(
        GOOD.replace("flow", name).replace("queue: q", f"queue: {name}")
    )
    shell.weave("apply", "good.yaml")
    found: str = json.loads(shell.weave("start", name, key, "--json"))["id"]
    return found


def test_pause_resume_and_cancel(shell: Shell) -> None:
    run = start(shell, "control")
    assert "gate CLOSED" in shell.weave("pause", run, *control("1"))
    assert "paused" in shell.weave("show", run)
    assert "gate OPEN" in shell.weave("resume", run, *control("2"))
    shell.weave("cancel", run, *control("3"), "--reason", "not wanted")
    assert "CANCELLED" in shell.weave("ps")
    assert "CANCEL" in shell.weave("history", run)


@pytest.fixture
def client(shell: Shell) -> Iterator[Client]:
    with Client(shell.environment["WEAVE_URL"], shell.environment["WEAVE_TOKEN"]) as made:
        yield made


def test_a_failed_step_is_retried_and_continued(shell: Shell, client: Client) -> None:
    run = start(shell, "retry", name="retries")
    worker, calls = Worker(client, ["retries"], claim_wait=0.2), list[int]()

    @worker.handler("do")
    def do(_: object, __: object) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise TaskFailed("REFUSED", "no")
        return "done"

    worker.start()
    again = Run(client, client.instances.get(run))
    assert again.wait(20).state == "NEEDS_REVIEW"
    assert "RETRY_STEP applies" in shell.weave("review", run, "--save", "shown.json")
    why = ("--reason", "mended", "--evidence", "ticket:1", "--from-shown", "shown.json")
    told = shell.weave("recover", "retry-step", run, *why, "--safe-to-retry", "--dry-run")
    assert "would be NEEDS_REVIEW" in told
    assert "DECLARATION_REQUIRED" in shell.weave("recover", "retry-step", run, *why, code=2)
    assert "warning" in shell.weave("recover", "retry-step", run, *why, "--safe-to-retry")
    assert "REVISION_CONFLICT" in shell.weave(
        *("recover", "retry-step", run, *why, "--safe-to-retry"), code=3
    )
    detail = client.instances.get(run)
    shell.weave(
        *("recover", "continue", run, "--revision", detail.revision, "--review-resolved"),
        *("--reason", "mended", "--evidence", "ticket:1"),
    )
    assert again.wait(20).state == "SUCCEEDED"
    worker.drain(5)
    audit = json.loads(shell.weave("audit", run, "--json"))
    assert [entry["outcome"] for entry in audit] == ["ACCEPTED", "REFUSED", "ACCEPTED", "REFUSED"]
    assert "everything holds" in shell.weave("doctor", "--database", shell.database)


def test_a_database_that_is_down_or_old_is_said_so(shell: Shell) -> None:
    down = "postgresql://weave:hidden@127.0.0.1:1/weave"
    told = shell.weave("db", "check", "--database", down, code=7)
    assert "DATABASE_UNAVAILABLE" in told
    assert "hidden" not in told
    assert "does not answer" in shell.weave(
        "db", "check", "--database", "sqlite:////no/x.db", code=7
    )
    empty = f"sqlite:///{shell.folder / 'empty.db'}"
    assert "weave db upgrade" in shell.weave("server", "--database", empty, code=1)
