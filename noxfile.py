"""Run the tests with several versions of Python and with other event loops: `make test-all`.

Versions that are not installed are skipped, and the list at the end says so. Where the variable CI is set, they are an error.
`make test-all SESSION=eager TESTS=tests/hostile` runs some of the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import nox

nox.needs_version = ">=2025.11.12"
nox.options.default_venv_backend = "uv|venv"
nox.options.download_python = "never"
nox.options.sessions = ["tests", "uvloop", "eager"]

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.14t"]
UNIT = ["tests/unit", "tests/properties", "tests/test_conversations.py", "tests/test_transcripts.py"]
# Everything else, but the mutants: loading hundreds of them to run none takes seconds in every process.
NOT_UNIT = ["tests", *(f"--ignore={path}" for path in [*UNIT, "tests/check"])]
END_TO_END = ["tests/processes", "tests/test_gateway_transcripts.py", "tests/test_hub_transcripts.py", "tests/hostile"]
LOOPS = Path("tests/event_loops")
# What an event loop must say about itself, so that a session cannot pass with the usual one.
SEEN = {
    "uvloop": "import asyncio; assert asyncio.new_event_loop().__class__.__module__ == 'uvloop'",
    "eager": "import asyncio; assert asyncio.new_event_loop().get_task_factory() is asyncio.eager_task_factory",
}


def install(session: nox.Session) -> None:
    """Install the package and what its tests need."""
    session.install("-e", ".", *nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), "dev"))


def pytest(session: nox.Session, *paths: str, left_out: list[str] | None = None) -> None:
    """Run tests in several processes, only those that the command line names if it names any."""
    session.run("python", "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *(session.posargs or paths), *(left_out or []))


def choose_all_of_pyenv() -> None:
    """Make every version of pyenv available: a command such as python3.12 fails unless its version is chosen."""
    if shutil.which("pyenv") and "PYENV_VERSION" not in os.environ:
        chosen = subprocess.run(["pyenv", "version-name"], capture_output=True, text=True, check=True)  # noqa: S607 - found on the path
        others = subprocess.run(["pyenv", "versions", "--bare", "--skip-envs"], capture_output=True, text=True, check=True)  # noqa: S607
        names = dict.fromkeys([*chosen.stdout.strip().split(":"), *others.stdout.split()])
        os.environ["PYENV_VERSION"] = ":".join(names)


choose_all_of_pyenv()


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the unit tests, then those that start processes."""
    install(session)
    pytest(session, *UNIT)
    if not session.posargs:
        pytest(session, *NOT_UNIT)


def with_loop(session: nox.Session, kind: str) -> None:
    """Run the tests that start processes with another event loop, in each of these processes."""
    install(session)
    if kind == "uvloop":
        session.install("uvloop>=0.21")
    where = session.run_install("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    packages = Path(str(where).strip())
    (packages / "twopipes_test_loop.py").write_bytes((LOOPS / "twopipes_test_loop.py").read_bytes())
    (packages / "twopipes_test_loop.txt").write_text(kind, encoding="utf-8")
    (packages / "twopipes_test_loop.pth").write_text("import twopipes_test_loop\n", encoding="utf-8")
    session.run("python", "-c", SEEN[kind])
    # The file that changes the loop imports modules itself.
    pytest(session, *END_TO_END, left_out=["-k", "not test_little_is_imported"])


@nox.session(python="3.13")
def uvloop(session: nox.Session) -> None:
    """Run the end-to-end tests with uvloop."""
    with_loop(session, "uvloop")


@nox.session(python="3.13")
def eager(session: nox.Session) -> None:
    """Run the end-to-end tests with tasks that start at once."""
    with_loop(session, "eager")
