"""The provider as a process of its own, for tests and the demo: start, stop, kill, start again."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

REPOSITORY = Path(__file__).resolve().parents[2]
STOP_SECONDS_MAX = 30


class ProviderProcess:
    """Down until started. Ledger and port stay the same when it is started again.

    ``port`` 0 takes a free one at the first start. ``prefix``: words put before the command.
    As a context manager it starts on entry and stops on exit.
    """

    def __init__(self, ledger: Path, *, port: int = 0, prefix: Sequence[str] = ()) -> None:
        self.ledger = ledger.resolve()
        self.port = port
        self._prefix = prefix
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the provider is down")
        return self._process.pid

    def start(self) -> Self:
        """Returns when it answers."""
        if self._process is not None:
            raise RuntimeError(f"the provider is running already, with pid {self.pid}")
        command = [sys.executable, "-m", "examples.provider"]
        command += ["--port", str(self.port), "--ledger", str(self.ledger)]
        process = subprocess.Popen(  # noqa: S603
            [*self._prefix, *command], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        self._process = process
        ready = process.stdout.readline() if process.stdout else ""
        if not ready:
            self._process = None
            with process:  # its output is at its end, and so is it
                code = process.wait(STOP_SECONDS_MAX)
            raise RuntimeError(f"the provider ended with {code} while starting; it has said why")
        self.port = int(json.loads(ready)["url"].rpartition(":")[2])
        return self

    def stop(self) -> None:
        """As an administrator would. What is on hold gets no answer."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        """Does nothing when it is down."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes its output and waits
            process.send_signal(how)
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
