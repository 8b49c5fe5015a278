"""The command ``weave`` is killed after it has sent a recovery command: the same key has its
receipt.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import httpx2
import pytest

from examples.provider.process import REPOSITORY
from tests.process.scene import BRISK, KILLED, WAIT_S, Scene


class Withholding(ThreadingHTTPServer):
    """Passes requests on to the real server, and keeps each answer for itself."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = url
        self.carried_out, self.over = Event(), Event()
        self.status = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Withholding

    def do_POST(self) -> None:  # the base class wants it so
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() in ("authorization", "idempotency-key", "content-type")
        }
        with httpx2.Client(base_url=self.server.upstream, trust_env=False) as http:
            answer = http.post(self.path, content=body, headers=headers)
        self.server.status = answer.status_code
        self.server.carried_out.set()
        self.server.over.wait(WAIT_S)
        self.close_connection = True


@contextmanager
def withholding(url: str) -> Iterator[Withholding]:
    server = Withholding(url)
    serving = Thread(target=server.serve_forever, name="withholding")
    serving.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        serving.join()
        server.server_close()


def weave(scene: Scene, url: str, *words: str) -> "subprocess.Popen[str]":
    """The command, started."""
    environment = {**os.environ, "WEAVE_URL": url, "WEAVE_TOKEN": scene.processes.token}
    return subprocess.Popen(
        [sys.executable, "-m", "pulseweave.cli", *words, "--json"],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(scene: Scene, *words: str) -> tuple[int, Any]:
    """The command's exit code, and what it printed."""
    with weave(scene, scene.processes.url, *words) as command:
        told, _ = command.communicate(timeout=WAIT_S)
    return command.returncode, json.loads(told) if told else None


@pytest.mark.rule("REC-3")
def test_a_command_that_was_killed_after_sending_has_its_receipt(scene: Scene) -> None:
    [order] = scene.names(1)
    scene.provider.set_fault("charge", "refuse", order_id=order, times=1)
    run = scene.start(order, BRISK)
    scene.processes.start_worker()
    ready = scene.command(run, "RETRY_STEP")
    words = ["recover", "retry-step", run, "--safe-to-retry", "--reason", "the card is unblocked"]
    words += ["--evidence", "ticket:4711", "--step", ready["step_key"]]
    words += ["--activation-id", ready["activation_id"], "--key", f"cli-{order}"]
    words += ["--step-revision", ready["expected_step_revision"]]
    words += ["--revision", ready["expected_revision"]]
    with withholding(scene.processes.url) as between:
        with weave(scene, between.url, *words) as command:
            assert between.carried_out.wait(WAIT_S)
            command.kill()
            assert command.wait(WAIT_S) == KILLED
            assert command.stdout is not None
            assert command.stdout.read() == "", "it never heard"
        assert between.status == 200
    moved_on = scene.get(run).revision
    code, receipt = answer(scene, *words)
    assert (code, receipt["operation"], receipt["instance_id"]) == (0, "RETRY_STEP", run)
    assert receipt["revision"] == moved_on == scene.get(run).revision, "nothing was done again"
    assert answer(scene, *words) == (0, receipt)
    other = ["another" if word == "the card is unblocked" else word for word in words]
    assert answer(scene, *other)[0] == 3, "the key belongs to the first command"
    assert [task.retry_of for task in scene.get(run).tasks] == [None, scene.get(run).tasks[0].id]
    assert scene.accepted(run) == ["RETRY_STEP"]
    scene.go_on(run)
    scene.until_state(run, "SUCCEEDED")
    scene.check(order)
