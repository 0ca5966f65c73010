"""The files of a program: itself, its interpreter, and the folders in which both are installed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from twopipes._process.lookup import look_up

# Links and interpreters that lead from a command to a program. A virtual environment needs about five.
_MAX_STEPS: Final = 40
# Bytes of a script in which its interpreter is named. The kernel reads 256.
_FIRST_LINE: Final = 256
# The folder of an installation that contains one of these belongs to an interpreter as a whole.
_MARKS: Final = ("pyvenv.cfg", "conda-meta", "lib/python3*", "lib/node_modules")
_LIBRARIES: Final = ("lib", "lib64", "libexec")


def files_of_program(
    executable: str,
    environment: Mapping[str, str],
    folder: str,
    *,
    home: str | None,
    is_controlled: Callable[[str], bool] = lambda _: False,
) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the paths that a program needs to start, the symbolic links on the way to it with their targets, and what is missing.

    Missing is what only a file names that the server can change: a link, the first line of a script, the settings of a virtual
    environment. Otherwise a server could make any file visible for its next start.

    Args:
        executable: The absolute path of the program.
        environment: The environment of the child.
        folder: The folder of the child.
        home: The home folder. It never belongs to a program as a whole, and neither does ``~/.local``.
        is_controlled: Whether the server can change a file, or where its path leads.
    """
    found: dict[str, None] = {}
    links: dict[str, str] = {}
    missing: list[str] = []
    queue = [executable]
    seen: set[str] = set()
    while queue and len(seen) < _MAX_STEPS:
        path = os.path.normpath(queue.pop())
        if path in seen or not os.path.lexists(path):
            continue
        seen.add(path)
        target = os.readlink(path) if os.path.islink(path) else None
        leads_to = _base_of_environment(path)
        if target is None:
            leads_to += _interpreters(path, environment, folder)
        else:
            leads_to.append(os.path.join(os.path.realpath(os.path.dirname(path)), target))
        if is_controlled(path):
            reals = [os.path.realpath(each) for each in (path, *leads_to) if os.path.exists(each)]
            missing += [next(_installation(real, home), real) for real in reals]
            continue
        queue += leads_to
        if target is None:
            found[path] = None
        else:
            links[path] = target
        found |= dict.fromkeys(_installation(path, home))
    return list(found), links, missing


def _installation(path: str, home: str | None) -> Iterator[str]:
    """Yield the folders in which a program is installed."""
    head, mark, _ = path.partition("/node_modules/")
    if mark:
        yield head + mark.rstrip("/")
        return
    folder = os.path.dirname(path)
    root = os.path.dirname(folder)
    if os.path.basename(folder) not in {"bin", "sbin"}:
        return
    if not _is_personal(root, home) and any(glob.glob(os.path.join(glob.escape(root), mark)) for mark in _MARKS):
        yield root
    else:
        yield from filter(os.path.isdir, (os.path.join(root, name) for name in _LIBRARIES))


def _is_personal(folder: str, home: str | None) -> bool:
    """Whether a folder contains much that has nothing to do with a program in it."""
    return home is not None and (f"{home}/".startswith(folder.rstrip("/") + "/") or folder == os.path.join(home, ".local"))


def _interpreters(path: str, environment: Mapping[str, str], folder: str) -> list[str]:
    """Return the program that a script names in its first line."""
    try:
        with open(path, "rb") as file:
            line = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return []
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return []
    if os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        resolved = look_up(names[0], environment, folder).found if names else None
        return [words[0]] if resolved is None else [words[0], resolved]
    return [os.path.join(folder, words[0])]


def _base_of_environment(path: str) -> list[str]:
    """Return the Python that a virtual environment was made from. A link leads there as well, but some have copies."""
    root = os.path.dirname(os.path.dirname(path))
    try:
        with open(os.path.join(root, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            pairs = dict(line.partition("=")[::2] for line in file)
    except OSError:
        return []
    values = {name.strip().lower(): value.strip() for name, value in pairs.items()}
    return [os.path.join(values["home"], name) for name in ("python3", "python")] if values.get("home") else []
