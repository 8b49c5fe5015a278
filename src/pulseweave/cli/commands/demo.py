"""``weave demo``: ten orders, a worker killed between a charge and its report, and the recovery."""

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from pulseweave.cli import output
from pulseweave.kernel.clock import SystemClock


def demo(
    *,
    keep: Annotated[
        Path | None, Parameter(help="keep database, ledger and logs in this folder")
    ] = None,
) -> int:
    """Run the story on real processes and SQLite. Needs a checkout: the examples are not
    installed.
    """
    root = Path.cwd()
    if not (root / "examples" / "orders" / "order.yaml").exists():
        output.err.print("run this in a checkout of the project: the examples lie there")
        return output.EXIT_USAGE
    sys.path.insert(0, str(root))
    with tempfile.TemporaryDirectory(prefix="weave-demo-") as made:
        folder = keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        return _tell(root, folder)


def _tell(root: Path, folder: Path) -> int:
    processes = import_module("examples.demo.processes").Processes(folder)
    story = import_module("examples.demo.story")
    clock = SystemClock()
    began_us = clock.monotonic_us()
    try:
        processes.start()
        definition = (root / "examples" / "orders" / "order.yaml").read_text(encoding="utf-8")
        story.Story(processes, definition, output.out).tell()
    except story.DemoFailed as failure:
        output.err.print(f"the demo failed: {failure}", style="bold red")
        for name in ("server", "worker"):
            log = folder / f"{name}.log"
            if log.exists():
                output.err.print(f"--- {name}.log\n{log.read_text(errors='replace')[-3000:]}")
        return 1
    finally:
        processes.close()
    output.out.print(f"{(clock.monotonic_us() - began_us) / 1e6:.0f} seconds", style="dim")
    return 0
