"""Core's own tests, but for the exhaustive ones, are those that must cover all its branches."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents and item.get_closest_marker("exhaustive") is None:
            item.add_marker(pytest.mark.covered)
