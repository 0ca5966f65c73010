"""The project of the tutorial about testing, written to a folder and tested by its own tests, as a reader would do it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes.launching import ENVIRONMENT, NET

pytestmark = pytest.mark.walkthrough

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "testing.md"
FILE = re.compile(r'^```python title="([\w.]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)


@pytest.fixture
def project(tmp_path):
    for name, text in FILE.findall(PAGE.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def test(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "twopipes.testing.plugin", "-p", "no:cacheprovider", *arguments]
        environment = {**ENVIRONMENT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=NET, check=False)

    test.folder = tmp_path
    return test


def test_the_files_of_the_page_are_found(project):
    assert set(os.listdir(project.folder)) == {
        "notes.py",
        "test_notes.py",
        "test_faults.py",
        "test_time.py",
        "test_conversation.py",
    }


def test_its_tests_pass_as_the_page_says(project):
    done = project()
    assert "1 failed" in done.stdout, done.stdout  # the conversation does not exist yet
    assert "does not exist yet. The conversation now:" in done.stdout
    assert re.search(r" \d+ passed", done.stdout), done.stdout
    done = project("--update-conversations", "test_conversation.py")
    assert done.returncode == 0, done.stdout
    done = project()
    assert done.returncode == 0, done.stdout


def test_the_conversation_on_the_page_is_the_one_that_is_stored(project):
    assert project("--update-conversations", "test_conversation.py").returncode == 0
    stored = (project.folder / "conversations" / "test_conversation" / "test_reading_a_note.txt").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(# test_reading_a_note\n.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    start, end = shown.split("...\n")
    assert stored.startswith(start)
    assert stored.endswith(end)
