"""Look up an executable by the rules of the child: its PATH, its folder, its extensions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

# What Windows treats as a program if the child's environment has no PATHEXT.
USUAL_EXTENSIONS = ".COM;.EXE;.BAT;.CMD"


class Lookup(NamedTuple):
    """The result of a search."""

    found: str | None  # an absolute path
    unfit: str | None  # has the right name but cannot be executed: a folder, or a file without the permission or the extension
    folders: tuple[str, ...]  # the searched folders, in order; empty if the name contains a folder


def search_path(environment: Mapping[str, str]) -> list[str]:
    """Return the folders of a child's PATH, or the system's default if it has none."""
    path = environment.get("PATH")
    return (os.defpath if path is None else path).split(os.pathsep)


def look_up(name: str, environment: Mapping[str, str], folder: str, *, windows: bool = sys.platform == "win32") -> Lookup:
    """Find the file for the first word of a command.

    A name that contains a slash is a path relative to the child's folder. Any other name is searched for in the child's PATH, whose
    relative entries are relative to the child's folder too. On Windows the extensions of ``PATHEXT`` are tried unless the name
    has one of them. The current folder is searched only if PATH names it, because a file that happens to be there must not run.

    Args:
        name: The first word of the command.
        environment: The child's environment.
        folder: The child's working folder, as an absolute path.
        windows: Whether to apply the rules of Windows.
    """
    names = _spellings(name, environment) if windows else [name]
    if "/" in name or (windows and ("\\" in name or ":" in name)):
        folders: list[str] = []
        candidates = [os.path.join(folder, each) for each in names]
    else:
        # An empty entry means the current folder; on Windows it is ignored.
        entries = [each for each in search_path(environment) if each or not windows]
        folders = [os.path.normpath(os.path.join(folder, each)) for each in entries]
        candidates = [os.path.join(each, spelling) for each in folders for spelling in names]
    # On Windows the file of the exact name may be there, and lack an extension that makes it a program.
    exact = os.path.join(folder, name)
    unfit = os.path.normpath(exact) if windows and not folders and os.path.exists(exact) else None
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return Lookup(os.path.normpath(candidate), unfit, tuple(folders))
        if unfit is None and os.path.exists(candidate):
            unfit = os.path.normpath(candidate)
    return Lookup(None, unfit, tuple(folders))


def _spellings(name: str, environment: Mapping[str, str]) -> list[str]:
    """Return the names to try on Windows: for ``npx`` it is ``npx.cmd``; the file ``npx`` is a script for other systems."""
    extensions = [each for each in environment.get("PATHEXT", USUAL_EXTENSIONS).lower().split(";") if each]
    if name.lower().endswith(tuple(extensions)):
        return [name]
    return [name + extension for extension in extensions]
