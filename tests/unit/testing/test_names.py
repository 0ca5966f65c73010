"""The public names of twopipes.testing, and what it costs those who do not use them."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from twopipes import testing

pytestmark = pytest.mark.slow  # they start processes

ROOT = Path(__file__).parents[3]


def test_the_reference_has_every_name_and_every_member():
    page = (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")
    of_our_own = {"log", "faults", "connected"}
    members = {name for kind in (testing.LiveConversation, testing.ManualClock) for name in dir(kind) if not name.startswith("_")}
    assert [name for name in {*testing.__all__, *members} - of_our_own if name not in page] == []


def loaded_by(statement):
    """The modules that a fresh interpreter holds after a statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_the_plugin_brings_nothing_along_but_itself():
    extra = loaded_by("import pytest, twopipes.testing.plugin") - loaded_by("import pytest")
    assert extra == {"twopipes", "twopipes._lazy", "twopipes.testing", "twopipes.testing.plugin"}


def test_nothing_but_the_plugin_needs_pytest():
    loaded = loaded_by("from twopipes.testing import *")
    assert "twopipes.testing.opening" in loaded
    assert not {"pytest", "_pytest"} & loaded


def test_pytest_finds_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"twopipes": "twopipes.testing.plugin"}
    assert not any("pytest" in each for each in project["dependencies"])
