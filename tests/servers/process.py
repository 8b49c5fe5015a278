"""One database server as a child process: start, stop, kill, restart, and what all kinds share.

States: new (no data folder yet), running, down (stopped or killed, data folder kept), gone (folder
removed). A server listens on 127.0.0.1 only, on a port that stays its own over restarts, and is
only ever ended by its pid. When the thread that started it ends, the kernel kills the server, so
start servers from the main thread: then none outlives a test run that was killed.

What may never happen: a running database of the machine is used or touched; a server runs as root
(PostgreSQL refuses to); children of a killed server still hold its folder when ``kill`` returns.
"""

import contextlib
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
POLL_SECONDS = 0.02

#: Below the range from which Linux takes the ports of outgoing connections: nobody else gets
#: the port between a kill and the restart.
PORTS = range(20_000, 32_000)


class ServerError(RuntimeError):
    """A program is missing, or a server did not start or stop; the message has the log's end."""


class DatabaseServer(ABC):
    """A server that lives in a temporary folder.

    ``durable=True`` (the default) keeps the engine's own promises: a commit is on disk.
    ``durable=False`` saves the disk flushes, which is several times faster; commits still survive
    ``kill()``, but not a crash of the machine. Use it for suites that share one server.

    As a context manager: starts on entry; stops and removes the folder on exit.
    """

    kind: ClassVar[str]
    #: Accounts to run as when the tests run as root, best first.
    accounts: ClassVar[tuple[str, ...]]
    stop_signal: ClassVar[signal.Signals]

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable
        self.port = free_port()
        self.password = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._folder: Path | None = None
        self._account = account_to_run_as(self.accounts)

    # --- what a kind of server says about itself --------------------------------------------------

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Make an empty database cluster in ``folder``."""

    @abstractmethod
    def command(self, folder: Path) -> Sequence[str]:
        """The command that serves ``folder`` in the foreground."""

    @abstractmethod
    def ping(self) -> None:
        """Connect and say something; raises the driver's error while the server is not ready."""

    @abstractmethod
    def url(self, name: str) -> str:
        """SQLAlchemy's URL of the database ``name``."""

    @abstractmethod
    def create_database(self, name: str) -> str:
        """Create the empty database ``name`` and give its URL."""

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Drop the database ``name``, ending the connections to it."""

    # --- life -------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The pid of the server's main process."""
        if self._process is None:
            raise ServerError(f"{self.kind} is not running")
        return self._process.pid

    def start(self) -> Self:
        """Start the server and return when it answers. Makes the cluster at the first call."""
        if self.running:
            raise ServerError(f"{self.kind} is already running with pid {self.pid}")
        if self._folder is None:
            self._folder = make_folder(f"weave-{self.kind}-", self._account)
            self.prepare(self._folder)
        read_end, write_end = os.pipe()
        try:
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [*dying_with_parent(), *self.command(self._folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    env=self._environment(),
                    pass_fds=(write_end,),
                    **_as_account(self._account),
                )
        finally:
            os.close(write_end)
        self._lifeline = read_end
        self._await_answer(self._process)
        return self

    def stop(self) -> None:
        """Shut down in order, as an administrator would. Nothing happens if it is not running."""
        if not self.running:
            self._forget()
            return
        os.kill(self.pid, self.stop_signal)
        self._await_end("stop")

    def kill(self) -> None:
        """SIGKILL. Returns when all processes of the server are gone."""
        os.kill(self.pid, signal.SIGKILL)
        self._await_end("die")

    def restart(self) -> None:
        """Start again on the same port with the same databases; stops it first if it runs."""
        self.stop()
        self.start()

    def dispose(self) -> None:
        """Stop and remove everything that it wrote."""
        try:
            self.stop()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder)
                self._folder = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.dispose()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.dispose()

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _log_path(self) -> Path:
        assert self._folder is not None
        return self._folder / "log"

    def _environment(self) -> dict[str, str]:
        """A bare environment: no PG* or MYSQL* variable may lead the server astray."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}

    def run_tool(self, command: Sequence[str], folder: Path) -> None:
        """Run a set-up program of the server, as the account that the server runs as."""
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=self._environment(),
            timeout=START_SECONDS_MAX,
            **_as_account(self._account),
        )
        if done.returncode != 0:
            output = done.stdout.decode(errors="replace")
            raise ServerError(f"{command[0]} failed with {done.returncode}:\n{output}")

    def write_private(self, path: Path, text: str) -> None:
        """A file that only the server's account can read."""
        path.touch(mode=0o600)
        path.write_text(text)
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.ping()
            except Exception as error:  # each driver has its own "not ready yet"
                if time.monotonic() > give_up_at:
                    self.kill()
                    raise self._failure(f"gave no answer in {START_SECONDS_MAX} s") from error
            else:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=POLL_SECONDS)
                self._forget()
                raise self._failure(f"ended with {code} while starting")

    def _await_end(self, verb: str) -> None:
        assert self._process is not None
        try:
            self._process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._await_last_child()
            self._forget()
            raise self._failure(f"did not {verb} in {STOP_SECONDS_MAX} s") from None
        self._await_last_child()
        self._forget()

    def _await_last_child(self) -> None:
        """Every process of the server holds the lifeline's write end: it ends with the last one."""
        assert self._lifeline is not None
        ended, _, _ = select.select([self._lifeline], [], [], STOP_SECONDS_MAX)
        if not ended:
            raise self._failure(f"left children behind for {STOP_SECONDS_MAX} s")

    def _forget(self) -> None:
        self._process = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _failure(self, what: str) -> ServerError:
        lines = self._log_path.read_text(errors="replace").splitlines()[-30:]
        return ServerError("\n".join([f"{self.kind} {what}. The end of its log:", *lines]))


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    first = secrets.randbelow(len(PORTS))
    for offset in range(len(PORTS)):
        port = PORTS[(first + offset) % len(PORTS)]
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerError(f"every port from {PORTS.start} to {PORTS.stop} is taken")


def account_to_run_as(names: Sequence[str]) -> pwd.struct_passwd | None:
    """The account for a server when the tests run as root; None: the tests' own account."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerError(f"running as root, and there is no account to run as: {', '.join(names)}")


def make_folder(prefix: str, account: pwd.struct_passwd | None) -> Path:
    """A private temporary folder that belongs to ``account``."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if account is not None:
        closed = [str(p) for p in folder.parents if not p.stat().st_mode & 0o001]
        if closed:
            raise ServerError(
                f"{account.pw_name} can't reach {folder}: {', '.join(closed)} lets only its owner "
                "in. Set TMPDIR to a folder that everybody may enter."
            )
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _as_account(account: pwd.struct_passwd | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def dying_with_parent() -> list[str]:
    """The beginning of a command that the kernel kills when the thread that started it ends."""
    setpriv = shutil.which(
        "setpriv"
    )  # part of util-linux; elsewhere a killed run leaves its servers
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]
