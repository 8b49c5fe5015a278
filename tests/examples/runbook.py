"""A README's commands, run as they stand: what stays running, and sections to be worked through.

A command stands on one line, or on several that end in a backslash or lie within quotes. Variables
that a section sets are known to what follows in it. What a reader would look at
again and again is asked so here: ``weave review`` until the operation of the command that follows
applies, and ``weave show`` until the instance waits for a signal or a person.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

from examples.provider.process import REPOSITORY

WAIT_S = 60
LOOK_S = 0.1
LOOKS = 40
_WAITS = re.compile(r"signal +\S+ ACTIVE|waits for")
_SETS = re.compile(r"([A-Z]+)=\$\(")


class Runbook:
    """Someone who follows a README in a folder of their own; ``close`` stops what runs."""

    def __init__(self, readme: Path, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(REPOSITORY / "examples")
        parts = re.split(r"^##+ (.*)\n", readme.read_text(encoding="utf-8"), flags=re.MULTILINE)
        self.sections = {
            title: re.findall(r"```sh\n(.*?)```", body, re.DOTALL)
            for title, body in zip(parts[1::2], parts[2::2], strict=True)
        }
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
        }
        self._running: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        """The section "Run it" as far as the worker: provider, server, definition, worker."""
        provider, server, apply, worker = self.sections["Run it"][:4]
        line = self._spawn(provider.replace("8500", "0"))
        url = re.search(r"http://[\d.:]+", line)
        assert url is not None, line
        self.environment["PROVIDER_URL"] = url[0]
        shown = self._spawn(server.replace("8420", "0"), lines=3)
        for name, value in re.findall(r"export (WEAVE_\w+)=(\S+)", shown):
            self.environment[name] = value
        assert "registered" in self.run(apply)
        self._spawn(worker, lines=0)

    def work_through(self, title: str) -> str:
        """Run a section's commands in their order; what the last one printed."""
        blocks = self.sections[title] if title != "Run it" else self.sections[title][4:]
        commands = [command for block in blocks for command in commands_of(block)]
        told, variables = "", dict[str, str]()
        for number, command in enumerate(commands):
            following = next((c for c in commands[number:] if c.startswith("weave recover")), "")
            sets = _SETS.match(command)
            if sets is not None:
                told = self.run(f'{command}\nprintf %s "${sets[1]}"', variables)
                variables[sets[1]] = told
            elif command.startswith("weave review"):
                word = following.split()[2].upper().replace("-", "_")
                told = self._until(command, variables, re.compile(f"{word} applies"))
            elif command.startswith("weave show"):
                told = self._until(command, variables, _WAITS)
            else:
                told = self.run(command, variables)
        return told

    def run(self, command: str, variables: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env={**self.environment, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def close(self) -> None:
        for process in reversed(self._running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)

    def _until(self, command: str, variables: dict[str, str], seen: re.Pattern[str]) -> str:
        rest, told = Event(), ""
        for _ in range(LOOKS):
            told = self.run(command, variables)
            if seen.search(told):
                return told
            rest.wait(LOOK_S)
        raise AssertionError(f"{command} went on telling:\n{told}")

    def _spawn(self, command: str, *, lines: int = 1) -> str:
        """Start what stays; its first lines."""
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                shlex.split(command),
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._running.append(process)
        assert process.stdout is not None
        return "".join(process.stdout.readline() for _ in range(lines))


def commands_of(block: str) -> list[str]:
    """The commands of a block of shell, each whole."""
    commands, begun = list[str](), ""
    for line in block.splitlines():
        begun += line + "\n"
        if line.endswith("\\") or begun.count("'") % 2 or begun.count('"') % 2:
            continue
        commands.append(begun.strip())
        begun = ""
    assert not begun, f"a command has no end: {begun}"
    return commands
