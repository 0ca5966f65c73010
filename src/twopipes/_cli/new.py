"""``twopipes new``: a project with a server in it, its tests, and what is needed to give it to others."""

from __future__ import annotations

import keyword
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from twopipes._cli.server_options import CommandParser
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes._version import __version__

__all__ = ["new"]

_DONE = 0
_MISTAKE = 2

_DESCRIPTION = """\
Make a project: a server with two tools, a resource and a prompt, tests that
pass at once, a pyproject.toml, a README and a .gitignore.

NAME is what the project and its command are called: letters, digits, - and _.
The Python package is called the same, with _ for -. No file that is there is
overwritten.
"""
_EPILOG = """\
examples:
  twopipes new weather                  in the folder weather, which is made
  twopipes new weather ~/code/weather   in that folder
  twopipes new weather --here           in this folder

exit codes:
  0  it is made
  2  the name cannot be used, or something is in the way: nothing was written
"""

# Where the files go, and what they are made from. Their names end with .txt so that nobody takes them for a part of twopipes.
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
    "src/@package@/__init__.py": "init.py.txt",
    "src/@package@/__main__.py": "main.py.txt",
    "src/@package@/server.py": "server.py.txt",
    "tests/test_server.py": "test_server.py.txt",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
# The project's own tests need these as they are.
_IN_USE = {"twopipes", "msgspec", "pytest", "conftest", "tests", "test_server"}


class Project(NamedTuple):
    """What is to be made."""

    name: str
    package: str
    folder: Path

    def filled_in(self, text: str) -> str:
        """A text of the template, in the words of this project."""
        words = {"project": self.name, "package": self.package, "twopipes": ".".join(__version__.split(".")[:2])}
        return re.sub("@(project|package|twopipes)@", lambda found: words[found.group(1)], text)


def new(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    try:
        options = _parser().parse_args(list(arguments))
        project = _project(options)
        files = files_of(project)
        _write(project, files, is_own_folder=not options.here and options.path is None)
    except UsageError as mistake:
        sys.stderr.write(f"Error: {' '.join(visible(str(mistake)).split())}\n")
        return _MISTAKE
    except SystemExit as leaving:  # argparse has printed its help
        return int(leaving.code or 0)
    _tell(project, files)
    return _DONE


def files_of(project: Project) -> dict[str, str]:
    """The files of a project, seen from its folder, and what stands in them."""
    template = resources.files("twopipes._tools.scaffold") / "template"
    return {
        project.filled_in(path): project.filled_in((template / source).read_text(encoding="utf-8"))
        for path, source in _FILES.items()
    }


def package_of(name: str) -> str:
    """What the package of a project is called.

    Raises:
        UsageError: No package can be called like that.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a project: take letters, digits, - and _, and a letter first")
    package = name.lower().replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise UsageError(f"{name!r} is a word of Python's own, so that nobody could import {package}; try {name}-server")
    if package in sys.stdlib_module_names:
        raise UsageError(f"{name!r} is a module of Python's own, which the package {package} would hide; try {name}-server")
    if package in _IN_USE:
        raise UsageError(f"{name!r} is the name of something that the project needs itself; try {name}-server")
    return package


def _parser() -> CommandParser:
    parser = CommandParser("twopipes new", usage="twopipes new NAME [PATH | --here]", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("name", metavar="NAME", help="what it is called")
    parser.add_argument("path", metavar="PATH", nargs="?", help="the folder for it; one of its name unless given")
    parser.add_argument("--here", action="store_true", help="take this folder")
    return parser


def _project(options: Namespace) -> Project:
    if options.here and options.path is not None:
        raise UsageError("--here or a PATH, not both")
    package = package_of(options.name)
    folder = Path() if options.here else Path(options.path or options.name).expanduser()
    return Project(options.name, package, folder)


def _write(project: Project, files: dict[str, str], *, is_own_folder: bool) -> None:
    folder = project.folder
    try:
        if is_own_folder and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} is there already; say where else: twopipes new {project.name} PATH, or --here for this folder"
            )
        # All is looked at first, so that a project is made as a whole or not at all.
        taken = [path for path in files if (folder / path).exists() or (folder / path).is_symlink()]
        if taken:
            raise UsageError(f"{folder.resolve()} has {', '.join(taken)} already; nothing was written")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _tell(project: Project, files: dict[str, str]) -> None:
    terminal = Terminal()
    terminal.say(("Made ", "bold green"), (project.name, "bold"), f" in {visible(str(project.folder.resolve()))}")
    for path in files:
        terminal.say(f"  {path}")
    terminal.say()
    terminal.say("Next:")
    steps = [] if project.folder == Path() else [f"cd {visible(str(project.folder))}"]
    steps += [
        "pip install -e . pytest  # in a virtual environment",
        "pytest",
        f"twopipes call add a=2 b=3 -- {project.name}",
        f"twopipes install claude-code -- {project.name}  # or another host; see twopipes install --list",
    ]
    for step in steps:
        terminal.say(f"  {step}")
    terminal.flush()
