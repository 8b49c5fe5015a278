"""What commands print: tables and trees for people, one JSON document for programs, problems to
stderr.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pulseweave.kernel import canonical, limits
from pulseweave.kernel.errors import OutcomeUnknown, Rejected, Unavailable, WeaveError
from pulseweave.sdk.calls import plain
from pulseweave.wire.workflows import StepView

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)

STYLES = {
    "SUCCEEDED": ("✓", "green"),
    "IGNORED": ("~", "yellow"),
    "FAILED": ("✗", "red"),
    "CANCELLED": ("⊘", "magenta"),
    "NEEDS_REVIEW": ("?", "bold yellow"),
    "ACTIVE": ("▶", "cyan"),
    "RUNNING": ("▶", "cyan"),
    "CANCELLING": ("⊘", "magenta"),
    "WAITING": ("·", "dim"),
}

#: Exit codes by kind: 1 unexpected, 2 wrong use, 3 refused by the facts, 4 not found, 5 denied, 6
#: quota,
#: 7 unavailable, 8 outcome unknown.
EXIT_UNEXPECTED, EXIT_USAGE = 1, 2


def exit_code(error: WeaveError) -> int:
    match error:
        case OutcomeUnknown():
            return 8
        case Unavailable():
            return 7
        case Rejected() if error.status in (401, 403):
            return 5
        case Rejected() if error.status == 404:
            return 4
        case Rejected() if error.status == 429:
            return 6
        case Rejected() if error.status in (400, 413, 422):
            return EXIT_USAGE
        case Rejected():
            return 3
        case _:
            return EXIT_UNEXPECTED


def as_json(value: Any) -> None:
    """The only thing on stdout when ``--json`` is given."""
    if isinstance(value, msgspec.Struct | list | tuple):
        value = plain(value)
    sys.stdout.write(canonical.encode(value, depth_max=limits.ANSWER_DEPTH_MAX) + "\n")


def problem(error: WeaveError) -> None:
    """What was wrong, where, and what would help."""
    line = Text.assemble((error.code, "bold red"), f"  {error.message}")
    err.print(line)
    if error.rule:
        err.print(f"  rule    {error.rule}", style="dim")
    needed = error.detail.get("needed") or error.entry.needed
    err.print(f"  needed  {needed}", style="dim")
    for name in ("pointer", "current_revision", "current_control_revision"):
        if name in error.detail:
            err.print(f"  {name}  {error.detail[name]}", style="dim")
    for one in error.detail.get("problems") or []:
        err.print(f"  {one.get('pointer') or '/'}  {one.get('code', '')} {one.get('message', '')}")


def state(word: str) -> Text:
    mark, style = STYLES.get(word, ("", ""))
    return Text(f"{mark} {word}".strip(), style=style)


#: Columns of ids, which people copy into the next command: never cut nor broken.
WHOLE = frozenset({"ID", "INSTANCE", "TASK", "EVIDENCE"})
#: What other columns may shrink to before their words are broken.
SHRUNK_CHARS = 20
GAP_CHARS = 2


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in columns, or that there are none."""
    known = list(rows)
    if known:
        out.print(in_columns(columns, known, width=out.width), crop=False)
    else:
        out.print("nothing to show", style="dim")


def in_columns(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int) -> Table:
    """Rows in columns, to be printed uncropped on a screen of ``width`` characters. Where it is
    narrow, words wrap in their column and ids stay whole: then lines are longer than the screen.
    """
    cells = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    made = Table(box=None, pad_edge=False, header_style="bold")
    needed = 0
    for name, column in zip(columns, zip(*cells, strict=True), strict=True):
        longest = max(len(name), *(cell.cell_len for cell in column))
        whole = name in WHOLE
        least = longest if whole else min(longest, SHRUNK_CHARS)
        made.add_column(name, no_wrap=whole, overflow="fold", min_width=least)
        needed += least + GAP_CHARS
    for row in cells:
        made.add_row(*row)
    if needed > width:
        made.width = needed  # else the columns would be cut to the screen, ids too
    return made


def step_tree(steps: StepView, title: Text) -> Tree:
    """The instance's steps with their states, as a tree."""
    tree = Tree(title)
    for child in steps.children:
        _add(tree, child)
    return tree


def _add(tree: Tree, step: StepView) -> None:
    label = Text()
    if step.label is not None:
        label.append(f"{step.label}: ", style="dim")
    label.append(step.key or "", style="bold")
    if step.kind != "task":
        label.append(f" {step.kind}", style="dim")
    label.append("  ")
    label.append_text(state(step.state))
    if step.items is not None:
        counts = step.items
        label.append(
            f"  {counts.done} of {counts.count} items done, {counts.open} open", style="dim"
        )
    if step.waits_until is not None:
        label.append(f"  until {step.waits_until[:19]}", style="dim")
    activation = step.activation
    if activation is not None:
        if step.activations_count > 1:
            label.append(f"  activation {activation.sequence}", style="dim")
        if activation.review_cause:
            label.append(f"  {activation.review_cause}", style="yellow")
        if isinstance(activation.error, dict):
            label.append(
                f"  {activation.error.get('code')}: {activation.error.get('message')}", style="red"
            )
        if activation.output_source == "CONCLUSION":
            label.append("  concluded by a person", style="dim")
    branch = tree.add(label)
    for child in step.children:
        _add(branch, child)
