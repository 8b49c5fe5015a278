"""The processes of the demo: provider, server and worker, each real, each stopped by its pid."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from examples.provider.process import REPOSITORY, ProviderProcess

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 20


class Processes:
    """Everything in one folder; ``close`` stops what still runs.

    ``settings``: the server's, as variables of its environment. ``handlers``: where the next worker
    is, as ``weave worker`` wants it.
    """

    def __init__(
        self,
        folder: Path,
        database: str | None = None,
        *,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self.database = database or f"sqlite:///{folder / 'weave.db'}"
        self.provider = ProviderProcess(folder / "ledger.db")
        self.handlers = "examples.orders.handlers:worker"
        self._settings = settings
        self.url = ""
        self.token = ""
        self._port = "0"
        self._server: subprocess.Popen[str] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Provider and server up, schema made, a token in hand."""
        self.provider.start()
        self._weave("db", "upgrade", "--database", self.database)
        made = self._weave(
            "token", "create", "demo", "--permission", "all", "--queue", "*", "--json",
            "--database", self.database,
        )  # fmt: skip
        self.token = json.loads(made)["token"]
        self.start_server()

    def start_server(self, *, die_at: str = "") -> None:
        """A server on the port it had; ``die_at``: a crash point at which it kills itself."""
        with self._log("server").open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603
                [*_WEAVE, "server", "--database", self.database, "--port", self._port],
                cwd=REPOSITORY,
                env={**os.environ, **self._settings, "WEAVE_DIE_AT": die_at},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        ready = self._server.stdout.readline() if self._server.stdout else ""
        if not ready:
            raise RuntimeError(f"the server did not start; {self._log('server')} says why")
        self.url = json.loads(ready)["url"]
        self._port = self.url.rpartition(":")[2]

    @property
    def server_pid(self) -> int | None:
        """The running server's pid; None when it is down."""
        return _pid(self._server)

    @property
    def worker_pid(self) -> int | None:
        """The running worker's pid; None when there is none."""
        return _pid(self._worker)

    def close_server(self) -> None:
        """Stop the server politely."""
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            self.server_has_died(STOP_SECONDS_MAX)

    def server_has_died(self, timeout_s: float) -> int:
        """Wait until the server is gone; how it ended."""
        if self._server is None or self._server.stdout is None:
            raise RuntimeError("no server runs")
        code = self._server.wait(timeout_s)
        self._server.stdout.close()
        return code

    def start_worker(self, *, die_at: str = "") -> int:
        """A worker with the handlers; its pid."""
        environment = {
            **os.environ,
            "WEAVE_URL": self.url,
            "WEAVE_TOKEN": self.token,
            "PROVIDER_URL": self.provider.url,
            "WEAVE_DIE_AT": die_at,
        }
        with self._log("worker").open("ab") as log:
            self._worker = subprocess.Popen(  # noqa: S603
                [*_WEAVE, "worker", self.handlers],
                cwd=REPOSITORY,
                env=environment,
                stdout=log,
                stderr=log,
            )
        return self._worker.pid

    def kill_worker(self) -> int:
        """SIGKILL: no goodbye, no report. Its pid."""
        if self._worker is None:
            raise RuntimeError("no worker runs")
        self._worker.send_signal(signal.SIGKILL)
        self._worker.wait()
        return self._worker.pid

    def worker_has_died(self, timeout_s: float) -> int:
        """Wait until the worker is gone; how it ended."""
        if self._worker is None:
            raise RuntimeError("no worker runs")
        return self._worker.wait(timeout_s)

    def close(self) -> None:
        for process in (self._worker, self._server):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self._server is not None and self._server.stdout is not None:
            self._server.stdout.close()
        self.provider.stop()

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _weave(self, *words: str) -> str:
        done = subprocess.run(  # noqa: S603
            [*_WEAVE, *words],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=START_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"weave {' '.join(words[:2])}: {done.stderr or done.stdout}")
        return done.stdout


def _pid(process: subprocess.Popen[Any] | None) -> int | None:
    return process.pid if process is not None and process.poll() is None else None


_WEAVE = (sys.executable, "-m", "pulseweave.cli")
