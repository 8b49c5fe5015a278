"""The whole repository keeps the rules of the house, and each rule is known to bite."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house_rules.code import RULES, Module, check_code
from tests.house_rules.texts import BANS, check_text

ROOT = Path(__file__).parent.parent
CORE = "src/pulseweave/core/weave/sample.py"
TXN = "src/pulseweave/txn/sample.py"


def files() -> Iterator[Path]:
    """The files of the repository: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return (path for path in paths if path.is_file())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_code_keeps_the_rules() -> None:
    modules = [Module(relative(p), p.read_text("utf-8")) for p in files() if p.suffix == ".py"]
    assert any(module.is_core for module in modules)
    found = [str(finding) for module in modules for finding in check_code(module)]
    assert not found, f"{len(found)} breaks of the house rules:\n" + "\n".join(found)


def test_no_file_says_what_it_may_not() -> None:
    found = []
    for path in files():
        content = path.read_bytes()
        if b"\0" not in content:
            found += [str(f) for f in check_text(relative(path), content.decode("utf-8"))]
    assert not found, f"{len(found)} breaks of the house rules:\n" + "\n".join(found)


def test_each_dependency_has_a_record() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [re.split(r"[\[<>=~! ]", dependency)[0] for dependency in project["dependencies"]]
    records = "\n".join(p.read_text() for p in (ROOT / "docs/decisions").glob("*.md"))
    missing = [name for name in named if f"`{name}`" not in records]
    assert not missing, f"no record in docs/decisions names {', '.join(missing)}"


LONG_FUNCTION = "def f():\n" + "    g()\n" * 70
#: rule, path, code that breaks it, the line that is reported, code that is right
CODE_SAMPLES = [
    ("module-length", CORE, "g()\n" * 601, 1, "g()\n" * 600),
    ("module-length", "tests/test_x.py", "g()\n" * 801, 1, "g()\n" * 800),
    ("function-length", CORE, LONG_FUNCTION, 1, LONG_FUNCTION.removesuffix("    g()\n")),
    ("line-length", CORE, "x = 1\ny = '" + "y" * 95 + "'", 2, "y = '" + "y" * 94 + "'"),
    ("module-docstring", CORE, "x = 1", 1, '"""What x is."""\nx = 1'),
    ("vague-names", CORE, "class LeaseManager: ...", 1, "class Leases: ..."),
    ("vague-names", CORE, "def helper_of(x): ...", 1, "def renew(x): ..."),
    ("vague-names", CORE, "def f(data): ...", 1, "def f(metadata, datagram): ..."),
    ("vague-names", CORE, "async def handle_report(x): ...", 1, "async def accept_report(x): ..."),
    ("vague-names", CORE, "x.payment_service = 1", 1, "x.provider = y.service"),
    ("exact-numbers", CORE, "def f(lease_ms: float): ...", 1, "def f(lease_ms: int): ..."),
    ("exact-numbers", CORE, "class A:\n    due_at: float | None", 2, "ratio: float"),
    ("exact-numbers", CORE, "def price_of(x) -> float: ...", 1, "def price_of(x) -> int: ..."),
    ("no-assert", CORE, "assert x", 1, "invariant(x, 'why')"),
    ("no-print", TXN, "print(x)", 1, "console.print(x)"),
    ("clock", TXN, "import time", 1, "from pulseweave.kernel import clock"),
    ("clock", TXN, "from time import monotonic", 1, "from datetime import timedelta"),
    ("clock", TXN, "x = datetime.datetime.now(UTC)", 1, "x = self.clock.now()"),
    ("clock", TXN, "x = date.today()", 1, "x = now.today"),
    ("entropy", TXN, "import random", 1, "from pulseweave.kernel import entropy"),
    ("entropy", TXN, "from uuid import uuid4", 1, "from pulseweave.kernel import ids"),
    ("entropy", TXN, "import uuid_utils", 1, "import uuidlike"),
    ("entropy", TXN, "x = os.urandom(8)", 1, "x = entropy.bytes(8)"),
    ("locking-reads", TXN, "x = select(t).with_for_update()", 1, "x = select(t)"),
    ("locking-reads", TXN, "x = 'SELECT 1 FOR UPDATE'", 1, '"""No FOR UPDATE here."""'),
    ("transactions", TXN, "connection.commit()", 1, "commit = 1"),
    ("transactions", TXN, "with engine.begin() as c: ...", 1, "with engine.connect() as c: ..."),
    ("transactions", TXN, "c.exec_driver_sql('COMMIT')", 1, "c.exec_driver_sql('SELECT 1')"),
    ("sql-text", TXN, "from sqlalchemy import text", 1, "from sqlalchemy import select"),
    ("sql-from-parts", TXN, "c.execute(f'SELECT {x}')", 1, "c.execute('SELECT 1')"),
    ("sql-from-parts", TXN, "text('SELECT ' + x)", 1, "text(STATEMENT)"),
    ("sql-from-parts", TXN, "text('SELECT {}'.format(x))", 1, "text(a + b)"),
    ("set-iteration", CORE, "for x in {1, 2}: ...", 1, "for x in sorted({1, 2}): ..."),
    (
        "set-iteration",
        CORE,
        "def f():\n  s = set(y)\n  for x in s: ...",
        3,
        "s = set(y)\nz = 1 in s",
    ),
    ("set-iteration", CORE, "def f(s: frozenset[int]):\n  return [x for x in s]", 2, "f({1})"),
    ("set-iteration", CORE, "[x for x in {1, 2}]", 1, "sorted(x for x in {1, 2})"),
    ("set-iteration", CORE, "list(x for x in {1})", 1, "y = {x for x in set(z)}"),
    ("no-sleep", "tests/test_x.py", "time.sleep(1)", 1, "event.wait(1)"),
    ("no-sleep", "tests/test_x.py", "await asyncio.sleep(0.1)", 1, "await asyncio.sleep(0)"),
    ("no-skip", "tests/test_x.py", "@pytest.mark.skipif(x)\ndef f(): ...", 1, "pytest.fail('x')"),
    ("no-skip", "tests/test_x.py", "pytest.importorskip('x')", 1, "import x"),
]


@pytest.mark.parametrize(("rule", "path", "bad", "line", "good"), CODE_SAMPLES)
def test_a_code_rule_bites(rule: str, path: str, bad: str, line: int, good: str) -> None:
    def lines_of(source: str) -> list[int]:
        return [f.line for f in check_code(Module(path, source)) if f.rule == rule]

    assert lines_of(bad) == [line]
    assert lines_of(good) == []


def test_a_module_is_named_for_what_it_is() -> None:
    (finding,) = check_code(Module("src/pulseweave/store/utils.py", ""))
    assert finding.rule == "vague-names"
    assert check_code(Module("src/pulseweave/store/leases.py", "")) == []


#: rule, path, text that breaks it, text that is right; cut in two so that this file keeps the rules
TEXT_SAMPLES = [
    ("open-end", "a.py", "x = 1  # TO" + "DO: more", "x = 1  # all of it"),
    ("open-end", "a.py", "# FIX" + "ME", "# prefixed"),
    ("machine-path", "a.txt", "see /wo" + "rk/main", "see docs/work/main"),
    ("machine-path", "a.toml", "x = '/ro" + "ot/.config'", "x = 'tests/root/a'"),
    ("machine-path", "a.py", "'/ho" + "me/anna/weave'", "'~/weave'"),
    ("registry-host", "a.toml", "url = 'https://py" + "pi.org/simple'", "url = 'http://127.0.0.1'"),
    ("registry-host", "a.txt", "--index-" + "url=x", "--require-hashes"),
    ("authorship", "a.txt", "Written with Cl" + "aude.", "Written with care."),
    ("authorship", "a.txt", "an A" + "I assistant", "an aid"),
    ("authorship", "a.txt", "a sub" + "agent did it", "the user-agent header"),
    ("authorship", "a.txt", "Co-authored" + "-by: X", "By X"),
    ("one-title", "a.md", "text\n", "# Title\n\n```sh\n# a comment\n```\n"),
    ("one-title", "a.md", "# One\n# Two\n", "# One\n## Two\n"),
    ("one-title", "a.md", "before\n# One\n", "\n# One\n"),
]


@pytest.mark.parametrize(("rule", "path", "bad", "good"), TEXT_SAMPLES)
def test_a_text_rule_bites(rule: str, path: str, bad: str, good: str) -> None:
    assert {f.rule for f in check_text(path, bad)} == {rule}
    assert check_text(path, good) == []


def test_every_rule_has_a_sample() -> None:
    assert {sample[0] for sample in CODE_SAMPLES} == set(RULES)
    assert {sample[0] for sample in TEXT_SAMPLES} == {*BANS, "one-title"}


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("clock", "src/pulseweave/kernel/clock.py"),
        ("entropy", "src/pulseweave/kernel/entropy.py"),
        ("locking-reads", "src/pulseweave/store/locks.py"),
        ("transactions", "src/pulseweave/txn/unit.py"),
        ("transactions", "src/pulseweave/store/migrations/env.py"),
        ("sql-text", "src/pulseweave/store/facts/tasks.py"),
        ("set-iteration", "src/pulseweave/store/facts/tasks.py"),
        ("no-print", "bench/__main__.py"),
    ],
)
def test_a_rule_spares_the_file_that_is_its_home(rule: str, path: str) -> None:
    bad = next(sample[2] for sample in CODE_SAMPLES if sample[0] == rule)
    assert rule not in [f.rule for f in check_code(Module(path, bad))]
