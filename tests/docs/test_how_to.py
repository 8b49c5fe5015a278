"""The how-to pages' Python is run as it stands."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def examples_of(page: Path) -> dict[str, Callable[[], None]]:
    """The page's test functions, in one module as its reader would have them."""
    source = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    module: dict[str, object] = {}
    exec(compile(source, str(page), "exec"), module)  # the project's own page
    return {
        name: found
        for name, found in module.items()
        if name.startswith("test_") and callable(found)
    }


FOUND = {
    f"{page.stem}:{name}": found
    for page in sorted(PAGES.glob("*.md"))
    for name, found in examples_of(page).items()
}


@pytest.mark.parametrize("name", FOUND)
def test_the_page_does_what_it_says(name: str) -> None:
    FOUND[name]()


def test_there_are_pages() -> None:
    assert len(FOUND) >= 2
