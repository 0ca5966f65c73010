"""A server under attack."""

import pytest

from hostile_target import Target


@pytest.fixture(scope="module")
def target():
    with Target().running() as target:
        target.note_idle_tasks()
        yield target
        target.assert_serves()
        target.assert_calm()
