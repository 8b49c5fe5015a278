"""Rules for every text file of the repository: what may not be written anywhere.

The patterns are written so that they don't match themselves.
"""

import re
from collections.abc import Iterator

from tests.house_rules.finding import Finding

#: rule → (what is refused, what to do instead)
BANS: dict[str, tuple[re.Pattern[str], str]] = {
    "open-end": (
        re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b"),
        "finish it, or file an issue and say what is not done",
    ),
    "machine-path": (
        re.compile(
            r"(?<![\w.])/(work|root)[/]|/(home|Users)/(?!user\b|you\b)\w+[/]"
            r"|/opt/(wheels|pypi)[\b/]"
        ),
        "no path of one machine: paths are relative to the repository, or made by the program",
    ),
    "registry-host": (
        re.compile(
            r"pypi[.]org|pythonhosted[.]org|registry[.]npmjs|crates[.]io|proxy[.]golang[.]org"
            r"|(deb|security)[.]debian[.]org|docker[.]io|ghcr[.]io|quay[.]io"
            r"|(extra-)?index-url\s*[=:]|find-links\s*[=:]"
        ),
        "name the package; where packages come from is the machine's own setting",
    ),
    "authorship": (
        re.compile(
            r"\b([C]laude|[A]nthropic|[O]penAI|[C]hatGPT|[G]itHub Copilot|[L]LMs?)\b"
            r"|\b[A]I[- ](generated|assisted|written|agents?|assistants?|tools?)\b"
            r"|\blanguage [m]odels?\b|\b(coding|sub-?)[ ]?[a]gents?\b|\b[C]o-authored-by:"
            r"|\b(earlier|previous) [s]ession\b",
            re.IGNORECASE,
        ),
        "the project speaks of itself alone, not of the tools that wrote it",
    ),
}


def one_title(path: str, lines: list[str]) -> Iterator[Finding]:
    """A Markdown document has one title, ``# ...``, and begins with it."""
    titles = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and line.startswith("# "):
            titles.append(number)
    if not titles:
        yield Finding(path, 1, "one-title", "a document begins with a title: # What it is about")
        return
    for number in titles[1:]:
        yield Finding(path, number, "one-title", "a document has one # title; use ## below it")
    if any(line.strip() for line in lines[: titles[0] - 1]):
        yield Finding(path, titles[0], "one-title", "the # title is a document's first line")


def check_text(path: str, text: str) -> list[Finding]:
    """Everything in one text file that breaks a rule, in the order of its lines."""
    lines = text.splitlines()
    found = [
        Finding(path, number, rule, f"{match[0].strip()!r}: {instead}")
        for number, line in enumerate(lines, 1)
        for rule, (pattern, instead) in BANS.items()
        for match in pattern.finditer(line)
    ]
    if path.endswith(".md"):
        found += one_title(path, lines)
    return sorted(found)
