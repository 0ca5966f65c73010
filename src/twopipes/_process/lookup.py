"""Where an executable is, by the rules of the child that will be it: its PATH, its folder, its extensions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Lookup", "look_up", "search_path"]

# What Windows takes for a program where the child's environment does not say.
USUAL_EXTENSIONS = ".COM;.EXE;.BAT;.CMD"


class Lookup(NamedTuple):
    """What a search brought to light."""

    found: str | None  # absolute
    unfit: str | None  # has the right name and cannot be executed: a folder, or a file without the permission
    folders: tuple[str, ...]  # where was looked, in this order; empty for a name that says its own folder


def search_path(environment: Mapping[str, str]) -> list[str]:
    """Return the folders of a child's PATH; those that the system searches where it has none."""
    path = environment.get("PATH")
    return (os.defpath if path is None else path).split(os.pathsep)


def look_up(name: str, environment: Mapping[str, str], folder: str, *, windows: bool = sys.platform == "win32") -> Lookup:
    """Find the file that ``name`` stands for.

    A name with a slash in it is a path, seen from the child's folder. Any other name is searched for in the child's PATH, whose
    relative entries are seen from the child's folder as well. On Windows the extensions of ``PATHEXT`` are tried where the name
    has none of them; the current folder is not searched unless PATH names it, because what lies there by accident must not be run.

    Args:
        name: The first word of the command.
        environment: The child's.
        folder: The child's working folder, absolute.
        windows: Whether its rules apply.
    """
    names = _spellings(name, environment) if windows else [name]
    if "/" in name or (windows and ("\\" in name or ":" in name)):
        folders: list[str] = []
        candidates = [os.path.join(folder, each) for each in names]
    else:
        # An empty entry means the current folder, except on Windows, where it means nothing.
        entries = [each for each in search_path(environment) if each or not windows]
        folders = [os.path.normpath(os.path.join(folder, each)) for each in entries]
        candidates = [os.path.join(each, spelling) for each in folders for spelling in names]
    unfit = None
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return Lookup(os.path.normpath(candidate), unfit, tuple(folders))
        if unfit is None and os.path.exists(candidate):
            unfit = os.path.normpath(candidate)
    return Lookup(None, unfit, tuple(folders))


def _spellings(name: str, environment: Mapping[str, str]) -> list[str]:
    """The names to try on Windows: ``npx`` is ``npx.cmd``, and the file ``npx`` beside it is a script for other systems."""
    extensions = [each for each in environment.get("PATHEXT", USUAL_EXTENSIONS).lower().split(";") if each]
    if name.lower().endswith(tuple(extensions)):
        return [name]
    return [name + extension for extension in extensions]
