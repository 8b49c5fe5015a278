"""Each import contract of pyproject.toml bites, shown on a package of the same shape."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "api",
    "app",
    "cli",
    "console",
    "core",
    "core/pulse",
    "core/recovery",
    "core/weave",
    "kernel",
    "runtime",
    "sdk",
    "server",
    "store",
    "store/facts",
    "txn",
    "wire",
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The shape of `pulseweave` without its contents, beside the real contracts."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "pulseweave"
    for name in ("", *PACKAGES):
        (package / name).mkdir()
        (package / name / "__init__.py").touch()
    return package


def broken_contracts(package: Path) -> set[str]:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-logo", "--no-cache"],
        cwd=package.parent,
        env={"PYTHONPATH": str(package.parent)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert "kept" in done.stdout, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return {line.removesuffix(" BROKEN") for line in lines if line.endswith(" BROKEN")}


def test_what_the_layers_allow_is_kept(package: Path) -> None:
    (package / "cli/main.py").write_text(
        "import time, pulseweave.server, pulseweave.sdk, pulseweave.console\n"
    )
    (package / "api/edge.py").write_text("import msgspec, pulseweave.app, pulseweave.wire\n")
    (package / "txn/unit.py").write_text("import sqlalchemy, pulseweave.store.facts\n")
    (package / "store/facts/tasks.py").write_text("import sqlalchemy, pulseweave.core.pulse\n")
    (package / "core/recovery/decide.py").write_text("import pulseweave.core.weave\n")
    (package / "kernel/clock.py").write_text("import time\n")
    assert broken_contracts(package) == set()


LAYERS = "Each layer imports only what is below it"
CLIENT = "The SDK and the wire format import nothing of the server"
INSIDE = "Recovery knows workflows, workflows know tasks, never the other way round"
LIBRARIES = "Core reaches no database and no message format, by any way"
PURE = "Core imports no clock, no chance, no threads and no log"
KERNEL = "The kernel needs nothing but the standard library"
SQL = "SQLAlchemy only in store and txn.unit"


@pytest.mark.parametrize(
    ("module", "imported", "broken"),
    [
        ("store/facts/bad", "pulseweave.txn", {LAYERS}),
        ("api/bad", "pulseweave.console", {LAYERS}),
        ("runtime/bad", "pulseweave.server", {LAYERS}),
        ("kernel/bad", "pulseweave.core", {LAYERS, CLIENT}),
        ("sdk/bad", "pulseweave.app", {CLIENT}),
        ("wire/bad", "pulseweave.core", {CLIENT}),
        ("wire/bad", "pulseweave.sdk", {CLIENT}),
        ("core/pulse/bad", "pulseweave.core.weave", {INSIDE}),
        ("core/weave/bad", "pulseweave.core.recovery", {INSIDE}),
        ("core/weave/bad", "msgspec", {LIBRARIES}),
        ("core/weave/bad", "sqlalchemy", {LIBRARIES, SQL}),
        ("core/weave/bad", "time", {PURE}),
        ("core/bad", "logging", {PURE}),
        ("core/bad", "threading", {PURE}),
        ("core/bad", "random", {PURE}),
        ("core/bad", "uuid", {PURE}),
        ("kernel/bad", "msgspec", {KERNEL}),
        ("txn/bad", "sqlalchemy", {SQL}),
        ("app/bad", "pymysql", {SQL}),
    ],
)
def test_a_contract_bites(package: Path, module: str, imported: str, broken: set[str]) -> None:
    (package / f"{module}.py").write_text(f"import {imported}\n")
    assert broken_contracts(package) == broken
