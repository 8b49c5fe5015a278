"""Steps per second as users run it: one server process, one worker process, HTTP between them."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from bench.definition import STEPS, three_steps
from pulseweave import Client
from pulseweave.wire.workflows import StartInstance

REPOSITORY = Path(__file__).resolve().parents[1]
_WEAVE = (sys.executable, "-m", "pulseweave.cli")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Throughput:
    instances: int
    seconds: float
    server_mb: float
    server_cpu_s: float
    worker_cpu_s: float

    @property
    def steps_per_second(self) -> float:
        return self.instances * STEPS / self.seconds


def measure(url: str, folder: Path, instances: int, *, slots: int) -> Throughput:
    """Start ``instances`` of three steps at once and wait until all have ended."""
    environment = {**os.environ, "WEAVE_DATABASE": url}
    _weave("db", "upgrade", env=environment)
    made = _weave(
        "token", "create", "bench", "--permission", "all", "--queue", "*", "--json", env=environment
    )
    token = json.loads(made)["token"]
    log = (folder / "bench.log").open("ab")
    server = subprocess.Popen(
        [*_WEAVE, "server", "--port", "0"],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
    )
    worker = None
    try:
        address = json.loads(server.stdout.readline())["url"] if server.stdout else ""
        client = Client(address, token)
        client.definitions.put(three_steps())
        environment |= {"WEAVE_URL": address, "WEAVE_TOKEN": token, "BENCH_SLOTS": str(slots)}
        worker = subprocess.Popen(
            [*_WEAVE, "worker", "bench.noop:worker"],
            cwd=REPOSITORY,
            env=environment,
            stdout=log,
            stderr=log,
        )
        began = time.monotonic()
        _start(client, instances)
        _wait(client, instances)
        seconds = time.monotonic() - began
        return Throughput(
            instances=instances,
            seconds=seconds,
            server_mb=_peak_mb(server.pid),
            server_cpu_s=_cpu_s(server.pid),
            worker_cpu_s=_cpu_s(worker.pid),
        )
    finally:
        for process in (worker, server):
            if process is not None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)
        log.close()


def _start(client: Client, instances: int) -> None:
    for first in range(0, instances, 200):
        batch = [
            StartInstance(definition="bench", instance_key=f"b{n}", input={})
            for n in range(first, min(first + 200, instances))
        ]
        client.instances.start_many(batch)


def _wait(client: Client, instances: int) -> None:
    """Newest first: what is still running is looked for in pages until there is none."""
    ends_at = time.monotonic() + 600
    while time.monotonic() < ends_at:
        if next(client.instances.list(state="RUNNING", limit=1), None) is None:
            failed = next(client.instances.list(state="NEEDS_REVIEW", limit=1), None)
            if failed is not None:
                raise RuntimeError(f"instance {failed.id} needs review")
            return
        Event().wait(0.05)
    raise TimeoutError(f"{instances} instances did not end within 600 s")


def _weave(*words: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [*_WEAVE, *words], cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
