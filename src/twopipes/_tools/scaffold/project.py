"""Write a new project from the template."""

from __future__ import annotations

import keyword
import re
import sys
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from twopipes._tools.pack.links import entry_of, markdown
from twopipes._tools.usage import UsageError
from twopipes._version import __version__

# The files of a project, and the files of the template. Those end with .txt, so that no tool takes them for code of twopipes.
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "Dockerfile": "Dockerfile.txt",
    ".gitignore": "gitignore.txt",
    "src/@package@/__init__.py": "init.py.txt",
    "src/@package@/__main__.py": "main.py.txt",
    "src/@package@/server.py": "server.py.txt",
    "tests/test_server.py": "test_server.py.txt",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_OWNER = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")
# Modules that the tests of the project import.
_NEEDED_MODULES = {"twopipes", "msgspec", "pytest", "conftest", "tests", "test_server"}


class Project(NamedTuple):
    """A project to write."""

    name: str
    package: str
    folder: Path
    owner: str = "OWNER"  # the account on GitHub, for the name in the MCP registry

    def fill_in(self, text: str) -> str:
        """Replace the placeholders in a text of the template."""
        words = {
            "project": self.name,
            "package": self.package,
            "owner": self.owner,
            "links": markdown(self.name, entry_of(["uvx", self.name])),
            "twopipes": ".".join(__version__.split(".")[:2]),
        }
        return re.sub(f"@({'|'.join(words)})@", lambda found: words[found.group(1)], text)


def check_owner(owner: str) -> str:
    """Return the name of an account on GitHub, or raise if it cannot be one."""
    if not _OWNER.fullmatch(owner):
        raise UsageError(f"{owner!r} is not the name of an account on GitHub; use letters, digits and single -")
    return owner


def files_of(project: Project) -> dict[str, str]:
    """Return the contents of the files of a project, by their paths in its folder."""
    template = resources.files("twopipes._tools.scaffold") / "template"
    return {
        project.fill_in(path): project.fill_in((template / source).read_text(encoding="utf-8")) for path, source in _FILES.items()
    }


def package_of(name: str) -> str:
    """Return the name of the Python package of a project."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"invalid project name {name!r}; use letters, digits, - and _, and begin with a letter")
    package = name.lower().replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise UsageError(f"{name!r} is a keyword of Python, so the package {package} could not be imported; try {name}-server")
    if package in sys.stdlib_module_names:
        raise UsageError(f"{name!r} is a module of the standard library, which the package {package} would hide; try {name}-server")
    if package in _NEEDED_MODULES:
        raise UsageError(f"{name!r} is the name of a module that the project itself needs; try {name}-server")
    return package


def write_project(project: Project, files: dict[str, str], *, needs_new_folder: bool) -> None:
    """Write the files of a project. No existing file is overwritten."""
    folder = project.folder
    try:
        if needs_new_folder and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} already exists; use twopipes new {project.name} PATH, or --here for the current folder")
        # Check all files first, so that a project is written completely or not at all.
        existing = [path for path in files if (folder / path).exists() or (folder / path).is_symlink()]
        if existing:
            raise UsageError(f"{folder.resolve()} already contains {', '.join(existing)}; nothing was written")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
