"""Makes ``sdk/async_client.py`` from ``sdk/client.py``: one surface, written once, in both manners.

``python scripts/make_async_client.py`` writes it; ``--check`` fails when it is another. The async
client sends the same calls (``sdk.requests``) over an async transport.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SDK = Path(__file__).resolve().parents[1] / "src" / "pulseweave" / "sdk"
SOURCE, TARGET = SDK / "client.py", SDK / "async_client.py"

HEADER = '''"""The asynchronous client, made from ``client.py`` by ``scripts/make_async_client.py``.

Change that one, then run the script; a test compares. The same calls, keys and retries.
"""
'''

_CLASSES = (
    "Client",
    "Run",
    "Definitions",
    "Instances",
    "Recovery",
    "Reviews",
    "Tasks",
    "Admin",
)

_WORDS = (
    ("import Iterator, Sequence", "import AsyncIterator, Sequence"),
    ("from threading import Event\n", ""),
    ("import os\n", "import asyncio\nimport os\n"),
    ("-> Iterator[", "-> AsyncIterator["),
    ("EmbeddedTransport", "AsyncEmbeddedTransport"),
    ("HttpTransport", "AsyncHttpTransport"),
    ("def __enter__(", "async def __aenter__("),
    ("def __exit__(", "async def __aexit__("),
    ("def _rest(", "async def _rest("),
    ("Event().wait(duration_s)", "await asyncio.sleep(duration_s)"),
)

_AWAITED = re.compile(
    r"(?<!def )(?<!await )"
    r"(self\._client\.(?:do|instances\.get)\(|self\._transport\.(?:send|close)\("
    r"|self\.(?:do|close|detail|_control|_recover)\(|(?<![\w.])_rest\()"
)


def _lines(text: str) -> Iterator[str]:
    """Methods become coroutines, but for properties, class methods and what Python itself calls."""
    before = ""
    for line in text.split("\n"):
        plain = line.startswith("    def __") or before.strip().startswith("@")
        before, made = line, line
        if line.startswith("    def ") and not plain:
            made = line.replace("    def ", "    async def ", 1)
        yielded = re.fullmatch(r"( +)yield from (.+)", line)
        if yielded is not None:
            yield f"{yielded[1]}for item in {yielded[2]}:"
            made = f"{yielded[1]}    yield item"
        yield made


def made() -> str:
    text = HEADER + SOURCE.read_text(encoding="utf-8").split('"""\n', 1)[1]
    for old, new in _WORDS:
        text = text.replace(old, new)
    text = re.sub(r"\bTransport\b", "AsyncTransport", text)
    text = "\n".join(_lines(text))
    text = _AWAITED.sub(r"await \1", text)
    text = re.sub(
        r"return await (self\._client\.do\(.*\))\.items", r"return (await \1).items", text
    )
    for name in _CLASSES:
        text = re.sub(
            rf'\b{name}\b(?=[(":])|(?<=-> ){name}\b|(?<=: ){name}\b', f"Async{name}", text
        )
    return text


def _ruff(text: str, *words: str) -> str:
    ruff = str(Path(sys.executable).parent / "ruff")
    done = subprocess.run(  # noqa: S603
        [ruff, *words, "--stdin-filename", str(TARGET), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def main() -> int:
    formatted = _ruff(_ruff(made(), "check", "--select", "I", "--fix-only", "--quiet"), "format")
    if "--check" in sys.argv:
        return int(TARGET.read_text(encoding="utf-8") != formatted)
    TARGET.write_text(formatted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
