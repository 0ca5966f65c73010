"""Run the first steps of the README literally: from an empty folder, in their own Python environment.

    python tools/readme_steps.py            as on a machine that has nothing but this Python
    python tools/readme_steps.py --here     with the twopipes that is installed here; what would install it is left out

Under the heading *First steps*, a Python block that has a title is a file to be written, and a console block holds commands, each
with what it says. The commands go to one shell, as typed. ``pip install twopipes`` finds the wheel of this checkout, because
``PIP_FIND_LINKS`` says where it is; what else it wants comes from the registry.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self
from zipfile import ZipFile

sys.path.insert(0, str(Path(__file__).parent / "console"))

from console_pages import blocks
from console_sameness import comparable, difference, is_same

from twopipes import __version__

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
HEADING = "First steps"
# Seconds for one command. A registry may be slow; a command that takes longer hangs.
NET = 240.0
_TITLE = re.compile(r'^ *`{3,}\w+ title="([^"]+)"$')
# What makes the environment that --here has already.
_INSTALLS = re.compile(r"\b(venv|pip install)\b")


class File(NamedTuple):
    """A file that the reader writes."""

    line: int  # of the page
    name: str
    content: str


class Command(NamedTuple):
    """A command that the reader types, and its expected output; without one, nothing is compared."""

    line: int  # of the page: where its block begins
    text: str
    shown: list[str]

    @property
    def installs(self) -> bool:
        """Whether it only installs twopipes."""
        return bool(_INSTALLS.search(self.text))


Step = File | Command


def steps_of(page: str, heading: str = HEADING) -> list[Step]:
    """The steps of the part of a page that has this heading, in their order.

    Raises:
        ValueError: The page has no such part, or the part has no steps.
    """
    lines = page.split("\n")
    if f"## {heading}" not in lines:
        raise ValueError(f"the page has no part called {heading!r}")
    first = lines.index(f"## {heading}") + 1
    last = next((number for number, line in enumerate(lines[first:], first) if line.startswith("## ")), len(lines))
    steps = list(_steps(lines, first, last))
    if not steps:
        raise ValueError(f"there is nothing to do under {heading!r}")
    return steps


def _steps(lines: list[str], first: int, last: int) -> Iterator[Step]:
    for block in blocks("\n".join(lines)):
        if not first < block.line <= last:
            continue
        if (title := _TITLE.match(lines[block.line - 1])) is not None:
            yield File(block.line, title[1], "".join(f"{line}\n" for line in block.body))
        elif block.language == "console":
            for step in block.steps():
                yield Command(block.line, step.command, step.shown)


class Shell:
    """A shell for several commands, so that each sees the effects of the previous ones.

    Args:
        folder: Where it starts.
        environment: All of it.
    """

    _MARK = "readme-steps-done"

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # so that a command that hangs can be ended with all that it started
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()
        self._process.wait(NET)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def type(self, command: str) -> tuple[list[str], int]:
        """Type a command, wait for its end, and return its output lines and exit code.

        Raises:
            TimeoutError: It did not end; the shell is gone.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        # Its input is not the rest of what is typed. A group in braces is not a shell of its own: `cd` lasts.
        stdin.write(f"{{ {command}\n}} </dev/null\n_code=$?; echo; echo {self._MARK} $_code\n")
        stdin.flush()
        patience = threading.Timer(NET, self._end)
        patience.start()
        said: list[str] = []
        try:
            for line in stdout:
                if line.startswith(self._MARK):
                    # The empty line before the mark is ours, or ends a line that the command did not.
                    return said[:-1] if said and not said[-1] else said, int(line.split()[1])
                said.append(line.removesuffix("\n"))
        finally:
            patience.cancel()
        raise TimeoutError("\n".join([f"`{command}` did not come to its end; it said:", *said]))

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Mismatch(AssertionError):
    """A step of the page does not do what the page says."""


def follow(steps: list[Step], folder: Path, environment: Mapping[str, str], *, here: bool = False) -> None:
    """Run the steps in an empty folder.

    Raises:
        Mismatch: A command failed, or said something else than what is shown.
    """
    with Shell(folder, environment) as shell:
        for step in steps:
            if isinstance(step, File):
                print(f"README.md:{step.line}: {step.name}")
                (folder / step.name).write_text(step.content, encoding="utf-8")
            elif not (here and step.installs):
                print(f"README.md:{step.line}: $ {step.text}", flush=True)
                _compare(step, *shell.type(step.text))


def _compare(step: Command, said: list[str], code: int) -> None:
    place = f"README.md, line {step.line}: $ {step.text}"
    if code != 0:
        raise Mismatch("\n".join([f"{place}\nended with {code} and said:", *said]))
    shown = [line for line in step.shown if line.strip()]
    if not shown:
        return
    wanted = comparable(shown, version=__version__)
    found = comparable([line for line in said if line.strip()], version=__version__)
    if not is_same(wanted, found):
        raise Mismatch(f"{place}\n{difference(wanted, found)}")


def environment_here(scratch: Path) -> dict[str, str]:
    """Return the environment of a user who has this twopipes installed."""
    return _environment(scratch, Path(sys.executable).parent)


def fresh_environment(scratch: Path, wheels: Path) -> dict[str, str]:
    """Return the environment of a user who has only this Python, as ``python3``, and a pip that also looks into a folder."""
    tools = scratch / "bin"
    tools.mkdir()
    base = getattr(sys, "_base_executable", sys.executable)  # not that of the virtual environment that we are in
    for name in ("python3", "python"):
        (tools / name).write_text(f'#!/bin/sh\nexec "{base}" "$@"\n')
        (tools / name).chmod(0o755)
    return _environment(scratch, tools) | {"PIP_FIND_LINKS": str(wheels), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _environment(scratch: Path, first: Path) -> dict[str, str]:
    own = Path(sys.prefix)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TWOPIPES", "VIRTUAL_ENV"))}
    folders = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if not Path(each).is_relative_to(own)]
    # The programs must not leave files in the home of the user who runs the tests.
    return kept | {"PATH": os.pathsep.join([str(first), *folders]), "XDG_STATE_HOME": str(scratch / "state"), "LC_ALL": "C.UTF-8"}


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout without a network, with the build backend of the dev group."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=NET)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_installed(wheel: Path, folder: Path) -> None:
    """Check that the installed package is the wheel, and not one of the same name from a registry.

    Raises:
        Mismatch: It is something else.
    """
    with ZipFile(wheel) as packed:
        (record,) = [name for name in packed.namelist() if name.endswith(".dist-info/RECORD")]
        ours = {line for line in packed.read(record).decode().splitlines() if line.startswith("twopipes/")}
    found = list(folder.glob(f".venv/lib/python3*/site-packages/{record}"))
    if len(found) != 1 or not ours <= set(found[0].read_text(encoding="utf-8").splitlines()):
        raise Mismatch(f"what pip installed is not {wheel.name} of this checkout")


def main() -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(prog="python tools/readme_steps.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--here", action="store_true", help="use the twopipes that is installed here")
    options = parser.parse_args()
    steps = steps_of(README.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="readme-") as name:
        scratch = Path(name)
        folder = scratch / "empty"
        folder.mkdir()
        try:
            if options.here:
                follow(steps, folder, environment_here(scratch), here=True)
            else:
                wheel = build_wheel(scratch / "wheels")
                follow(steps, folder, fresh_environment(scratch, wheel.parent))
                check_installed(wheel, folder)
        except (Mismatch, TimeoutError) as failure:
            print(failure, file=sys.stderr)
            return 1
    print("The README's steps do what it says.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
