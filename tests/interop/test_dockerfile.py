"""The Dockerfile of a new project: judged by hadolint, and its steps in an empty folder. The image itself is not built."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from interop.harness import NET, missing, python_of
from twopipes._cli import main
from twopipes.blocking import connect

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "weather"
    assert main(["new", "weather", str(folder), "--owner", "ada"]) == 0
    return folder


def instructions(project):
    """Return the words after each instruction, by its name."""
    found = {}
    for line in (project / "Dockerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest)
    return found


def run(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=NET, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_finds_nothing(project):
    program = Path(python_of("linters")).with_name("hadolint")
    if not program.exists():
        missing("hadolint is not installed")
    run(program, project / "Dockerfile")


def test_the_steps_install_and_start_the_server(project, tmp_path):
    """Copy what COPY names, run the pip of RUN, and start the program of ENTRYPOINT: all that the project depends on."""
    steps, build, python = instructions(project), tmp_path / "build", tmp_path / "python"
    build.mkdir()
    for words in map(str.split, steps["COPY"]):
        for name in words[:-1]:
            run("cp", "-r", project / name, build / words[-1])
    install, _, make_user = steps["RUN"][0].partition(" && ")
    assert make_user.startswith("useradd ")  # it would change this machine
    run(sys.executable, "-m", "venv", python)
    wheels = tmp_path / "wheels"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels, cwd=ROOT)
    links = f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}"
    environment = {**os.environ, "PATH": f"{python}/bin:/usr/bin:/bin", "PIP_FIND_LINKS": links}
    run(*shlex.split(install), cwd=build, env=environment)
    (program,) = json.loads(steps["ENTRYPOINT"][0])
    empty = tmp_path / "home"
    empty.mkdir()
    with connect(str(python / "bin" / program), cwd=empty) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).text == "5"
