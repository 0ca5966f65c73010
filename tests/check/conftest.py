"""The tests with mutants have their own target, `make mutants`. The check of our own server and client is in `make test`."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before those are deselected that have this mark
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE and item.path.name != "test_ours.py":
            item.add_marker(pytest.mark.mutants)
