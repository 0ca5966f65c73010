"""A project created by `twopipes new`: its tests pass, and the commands in its README work."""

import os
import subprocess
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from processes.launching import NET, python

pytestmark = pytest.mark.walkthrough

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def project(tmp_path, environment):
    """A new project, and a function that runs commands in it with this twopipes."""
    done = subprocess.run(
        python("-m", "twopipes", "new", "sunny-days"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=NET,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

    def run(*words):
        return subprocess.run(
            python(*words),
            cwd=tmp_path / "sunny-days",
            env={**environment, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NET,
            check=False,
        )

    return run


def test_the_tests_of_the_project_pass(project):
    # An older installation of twopipes may not declare the plugin; -p does.
    known = any(point.value == "twopipes.testing.plugin" for point in entry_points(group="pytest11"))
    done = project("-m", "pytest", "-q", "-p", "no:cacheprovider", *([] if known else ["-p", "twopipes.testing.plugin"]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


@pytest.mark.parametrize("task", [["check"], ["format", "--check"]])
def test_the_project_passes_the_linters(project, task, tmp_path):
    ruff = Path(python()[0]).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed here")
    done = subprocess.run(
        [ruff, *task, "--isolated", "--no-cache", "sunny-days"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=NET,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("server", [["src/sunny_days/server.py"], ["-m", "sunny_days"]])
def test_the_commands_of_the_readme_work(project, server, tmp_path):
    env = ["--env", f"PYTHONPATH={SOURCE}{os.pathsep}{tmp_path / 'sunny-days' / 'src'}"]
    behind = [*env, "--", *python(*server)]
    done = project("-m", "twopipes", "call", "add", "a=2", "b=3", *behind)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
    done = project("-m", "twopipes", "call", "count", "to=5", *behind)
    assert (done.returncode, done.stdout) == (0, "Counted to 5.\n"), done.stderr
    done = project("-m", "twopipes", "read", "greeting://Ada", *behind)
    assert (done.returncode, done.stdout.strip()) == (0, "Hello, Ada!"), done.stderr
