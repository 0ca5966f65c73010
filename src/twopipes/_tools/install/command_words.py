"""Commands for hosts: a host starts a server from another folder, and often with a shorter PATH."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from twopipes._process.batch_file import is_batch_file
from twopipes._process.lookup import look_up
from twopipes._tools.install.keep import without_keep
from twopipes._tools.install.server_name import declared_name
from twopipes._tools.usage import UsageError, split_target

# Folders that are in the PATH of every host.
_SYSTEM_FOLDERS = {"/usr/bin", "/bin", "/usr/sbin", "/sbin"}
# Claude Code and Codex allow no other characters.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Common names of files and modules. The name of their folder describes the server better.
_GENERIC_NAMES = {"server", "main", "__main__", "__init__", "app", "index", "cli", "run", "mcp_server", "src"}
# Programs that run what their arguments name.
_RUNNERS = re.compile(r"(python|pypy|node|npx|npm|uvx|uv|pipx|bunx|bun|deno|pnpm|yarn|docker|podman|sh|bash|env|twopipes)[0-9.]*")
_RUNNER_VERBS = {"run", "exec", "tool", "x", "dlx", "tap", "dev", "bridge", "start"}


class Resolved(NamedTuple):
    """A command for hosts, and how it differs from the one that the user typed."""

    words: list[str]
    changes: list[tuple[str, str, str]]  # the word, its replacement, and why
    notes: list[str]


def resolved(
    words: Sequence[str], environment: Mapping[str, str], folder: str, *, windows: bool = sys.platform == "win32"
) -> Resolved:
    """Replace the words of a command that depend on the current folder or PATH by full paths.

    On Windows, hosts that are written in Node.js start no batch file, such as npx; their documentation says to put ``cmd /c``
    before it. The name stays short, because cmd.exe removes quotes around a path with a space.
    """
    found = Resolved([], [], [])
    program = words[0]
    looked = look_up(program, environment, folder, windows=windows)
    if looked.found is not None and windows and is_batch_file(looked.found):
        found.words.extend(("cmd", "/c", program))
        found.changes.append((program, f"cmd /c {program}", "it is a batch file, which hosts cannot start themselves"))
    elif looked.found is None:
        found.words.append(program)
        found.notes.append(f"{program} was not found here; it is written unchanged")
    elif Path(program).is_absolute() or (not windows and not _is_path(program) and _is_in_system_folder(looked.found)):
        found.words.append(program)
    else:
        found.words.append(looked.found)
        why = "hosts start servers from another folder" if _is_path(program) else "the host may have another PATH"
        found.changes.append((program, looked.found, why))
    before = program
    for word in words[1:]:
        full = None if before == "-m" else _full_path(word, folder)
        if full is not None and full != word:
            found.changes.append((word, full, "hosts start servers from another folder"))
        found.words.append(full or word)
        before = word
    return found


def suggested_name(words: Sequence[str], folder: str) -> str:
    """Suggest a name for a server: the one in its source, or else one made from its command."""
    words = without_keep(words) or words
    if declared := _cleaned(declared_name(words, folder) or ""):
        return declared
    name = ""
    rest = list(words)
    if Path(words[0]).stem in {"docker", "podman"}:
        # The image is usually the last word that is not an option; options before it have values.
        rest = [word for word in words if not word.startswith("-")][-1:]
    before = ""
    while rest and not name:
        word = rest.pop(0)
        full = Path(folder, split_target(word)[0])
        stem = re.sub(r"\.(exe|cmd|bat)$", "", full.name)
        if before == "-m":
            name = next((part for part in reversed(word.split(".")) if part not in _GENERIC_NAMES), word)
        elif word.startswith("-") or "=" in word:
            pass
        elif full.suffix in {".py", ".js", ".mjs", ".ts", ".cjs"} or (full.is_file() and not _RUNNERS.fullmatch(stem)):
            name = _descriptive_stem(full)
        elif not _RUNNERS.fullmatch(stem) and not (before and word in _RUNNER_VERBS):
            # A package: @scope/name@1.2, name==1.2, image:tag
            name = re.split(r"(?<=.)@|==|:", stem)[0]
        before = word
    name = _cleaned(name)
    if not name:
        raise UsageError("no name can be made from this command; use --name NAME")
    return name


def check_name(name: str) -> str:
    """Return the name, if every host accepts it."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: use only letters, digits, - and _; some hosts reject other characters")
    return name


def _cleaned(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")


def _descriptive_stem(path: Path) -> str:
    while path.stem in _GENERIC_NAMES and path.parent != path:
        path = path.parent
    return path.stem


def _is_path(word: str) -> bool:
    return "/" in word or os.sep in word


def _is_in_system_folder(program: str) -> bool:
    return str(Path(program).parent) in _SYSTEM_FOLDERS


def _full_path(word: str, folder: str) -> str | None:
    """Return the full path of an argument that names a file; ``None`` for any other word."""
    if not word or word.startswith("-") or Path(word).is_absolute():
        return None
    # ./x and .. are always paths. Other words are paths only if such a file exists: `server` may be a plain word.
    if word in {".", ".."} or word.startswith(("./", "../", f".{os.sep}", f"..{os.sep}")):
        return os.path.normpath(os.path.join(folder, word))
    if Path(folder, word).is_file():
        return str(Path(folder, word))
    file, name = split_target(word)
    if name and file.endswith(".py") and Path(folder, file).is_file():
        return f"{Path(folder, file)}:{name}"
    return None
