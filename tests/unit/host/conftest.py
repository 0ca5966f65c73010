"""An environment that does not depend on the machine."""

import os

import pytest

from twopipes._process.environment import environment_of


@pytest.fixture
def clean_environment(monkeypatch):
    """Remove all variables but those that every server gets."""
    safe = environment_of("minimal", {})
    for name in list(os.environ):
        if name not in safe and name.upper() not in safe:
            monkeypatch.delenv(name)
