"""The words of a command as a host needs them: hosts start servers from folders of their own, and with a shorter PATH."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from twopipes._process.lookup import look_up
from twopipes._tools.install.server_name import declared_name
from twopipes._tools.usage import UsageError, split_target

__all__ = ["Resolved", "check_name", "resolved", "suggested_name"]

# What every program can start by its name, however the host itself was started.
_FOUND_BY_EVERYBODY = {"/usr/bin", "/bin", "/usr/sbin", "/sbin"}
# Claude Code and Codex allow these and nothing else.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# Files that are called like this say nothing about what they are; their folder does.
_SAYS_NOTHING = {"server", "main", "__main__", "__init__", "app", "index", "cli", "run", "mcp_server", "src"}
# Programs that run what their arguments name.
_RUNNERS = re.compile(r"(python|pypy|node|npx|npm|uvx|uv|pipx|bunx|bun|deno|pnpm|yarn|docker|podman|sh|bash|env|twopipes)[0-9.]*")
_RUNNERS_VERBS = {"run", "exec", "tool", "x", "dlx", "tap", "start"}


class Resolved(NamedTuple):
    """A command for hosts, and what was made of it."""

    words: list[str]
    changes: list[tuple[str, str, str]]  # the word, what it became, and why
    doubts: list[str]


def resolved(words: Sequence[str], environment: Mapping[str, str], folder: str) -> Resolved:
    """The command with everything that is seen from our folder, or by our PATH, written out in full.

    Args:
        words: The command as it works here.
        environment: Ours, for its PATH.
        folder: Ours, absolute.
    """
    found = Resolved([], [], [])
    program = words[0]
    looked = look_up(program, environment, folder)
    if looked.found is None:
        found.words.append(program)
        found.doubts.append(f"{program} is not found here, so that it is written as it is")
    elif Path(program).is_absolute() or (sys.platform != "win32" and not _is_path(program) and _is_near(looked.found)):
        found.words.append(program)
    else:
        found.words.append(looked.found)
        why = "hosts start servers from another folder" if _is_path(program) else "a host may have another PATH"
        found.changes.append((program, looked.found, why))
    before = program
    for word in words[1:]:
        full = None if before == "-m" else _in_full(word, folder)
        if full is not None and full != word:
            found.changes.append((word, full, "hosts start servers from another folder"))
        found.words.append(full or word)
        before = word
    return found


def suggested_name(words: Sequence[str], folder: str) -> str:
    """What a server may be called: as it calls itself, or else by the words that start it.

    Raises:
        UsageError: Nothing in them makes a name.
    """
    if declared := _fitting(declared_name(words, folder) or ""):
        return declared
    name = ""
    rest = list(words)
    if Path(words[0]).stem in {"docker", "podman"}:
        # The image is the last word that is no option, or nearly so; before it stand options with values of their own.
        rest = [word for word in words if not word.startswith("-")][-1:]
    before = ""
    while rest and not name:
        word = rest.pop(0)
        full = Path(folder, split_target(word)[0])
        stem = re.sub(r"\.(exe|cmd|bat)$", "", full.name)
        if before == "-m":
            name = next((part for part in reversed(word.split(".")) if part not in _SAYS_NOTHING), word)
        elif word.startswith("-") or "=" in word:
            pass
        elif full.suffix in {".py", ".js", ".mjs", ".ts", ".cjs"} or (full.is_file() and not _RUNNERS.fullmatch(stem)):
            name = _telling(full)
        elif not _RUNNERS.fullmatch(stem) and not (before and word in _RUNNERS_VERBS):
            # A package: @scope/name@1.2, name==1.2, image:tag
            name = re.split(r"(?<=.)@|==|:", stem)[0]
        before = word
    name = _fitting(name)
    if not name:
        raise UsageError("what is the server to be called? Say it with --name NAME")
    return name


def check_name(name: str) -> str:
    """The name, if every host takes it.

    Raises:
        UsageError: Some host does not.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: hosts take letters, digits, - and _ in the name of a server, and nothing else")
    return name


def _fitting(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")


def _telling(path: Path) -> str:
    while path.stem in _SAYS_NOTHING and path.parent != path:
        path = path.parent
    return path.stem


def _is_path(word: str) -> bool:
    return "/" in word or os.sep in word


def _is_near(program: str) -> bool:
    return str(Path(program).parent) in _FOUND_BY_EVERYBODY


def _in_full(word: str, folder: str) -> str | None:
    """An argument that names a file of our folder, in full; ``None`` for any other word."""
    if not word or word.startswith("-") or Path(word).is_absolute():
        return None
    # ./x and .. can be nothing but paths. Other words are only where a file of this name lies here: `server` is also a word.
    if word in {".", ".."} or word.startswith(("./", "../", f".{os.sep}", f"..{os.sep}")):
        return os.path.normpath(os.path.join(folder, word))
    if Path(folder, word).is_file():
        return str(Path(folder, word))
    file, name = split_target(word)
    if name and file.endswith(".py") and Path(folder, file).is_file():
        return f"{Path(folder, file)}:{name}"
    return None
