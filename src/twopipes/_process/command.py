"""What to start: the words of a command, its environment, its folder, and how it is to end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from twopipes._process.environment import EnvironmentPolicy, check_environment, environment_of
from twopipes._process.lookup import look_up, search_path
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrPolicy, check_policy
from twopipes.errors import LocalProtocolError, StartFailed

__all__ = ["ServerCommand"]

MASK = "***"
POLICIES = ("minimal", "inherit", "explicit")
# What cmd.exe, which runs batch files, reads as its own in an argument; there is no way to quote all of it.
MEANT_FOR_CMD = frozenset('"%!^&|<>\r\n')


class _Words(Struct, frozen=True):
    # The one field without a keyword; msgspec has that decided for a whole class at a time.
    argv: Sequence[str]


class ServerCommand(_Words, frozen=True, kw_only=True):
    """A server to be started as a child process. Nothing is started by making one.

    Secrets belong into ``env``: arguments can be read by every user of the machine. ``repr`` never shows a value of it.

    Args:
        argv: The executable and its arguments, one word each; no shell is involved. The executable is searched for on the
            *child's* PATH. A name with a slash in it is seen from ``cwd``.
        env: Variables laid over what the policy gives. ``PYTHONUTF8`` and ``PYTHONUNBUFFERED`` are never set for you.
        environment: ``minimal`` gives the child the few variables that every program needs, ``inherit`` all of ours, and
            ``explicit`` nothing but ``env``.
        cwd: The child's folder; ours unless given.
        stderr: What is done with its stderr beside keeping the last lines for error messages; see
            :data:`twopipes._process.stderr.StderrPolicy`.
        shutdown: How it is ended; close stdin, wait 2 s, SIGTERM, wait 2 s, SIGKILL unless given.
        die_with_us: End its whole process group when this program dies in any way, also by SIGKILL: SIGTERM, 2 s, SIGKILL.

    Raises:
        LocalProtocolError: A part of it cannot be handed to any process.
    """

    env: Mapping[str, str] | None = None
    environment: EnvironmentPolicy = "minimal"
    cwd: str | Path | None = None
    stderr: StderrPolicy = "tail"
    shutdown: ShutdownPlan | None = None
    die_with_us: bool = True

    def __post_init__(self) -> None:
        force_setattr(self, "argv", _checked_words(self.argv))
        if self.env is not None:
            check_environment(self.env)
            force_setattr(self, "env", dict(self.env))
        if self.environment not in POLICIES:
            raise LocalProtocolError(f"environment={self.environment!r} is none of {', '.join(map(repr, POLICIES))}")
        if self.cwd is not None and "\0" in os.fspath(self.cwd):
            raise LocalProtocolError(f"cwd={os.fspath(self.cwd)!r} holds a NUL byte, which no path can")
        check_policy(self.stderr)

    def child_environment(self) -> dict[str, str]:
        """Return the whole environment that the child will have, if it is started now."""
        return environment_of(self.environment, self.env or {})

    def resolve(self) -> str:
        """Return the executable's absolute path, found by the rules of the child.

        Raises:
            StartFailed: There is none, it cannot be executed, or the child's folder does not exist.
        """
        folder = self.folder()
        if not os.path.isdir(folder):
            raise self.failure("no such folder")
        environment = self.child_environment()
        found = look_up(self.argv[0], environment, folder)
        if found.found is not None:
            self._check_batch_file(found.found)
            return found.found
        if found.unfit is not None:
            kind = "it is a folder" if os.path.isdir(found.unfit) else "the permission is missing"
            raise self.failure("not executable", detail=f"{found.unfit}: {kind}", path=found.folders)
        raise self.failure(
            "not found", path=found.folders, detail="" if "PATH" in environment else "the child has no PATH of its own"
        )

    def folder(self) -> str:
        """Return the child's working folder, absolute."""
        return os.path.abspath(os.fspath(self.cwd) if self.cwd is not None else os.curdir)

    def failure(self, reason: Any, *, detail: str = "", path: Sequence[str] | None = None) -> StartFailed:
        """Return the error that says why this command could not be started."""
        searched = search_path(self.child_environment()) if path is None else path
        return StartFailed(self.argv, reason, path=searched, cwd=self.folder(), detail=detail)

    def identity(self) -> str:
        """Return a name for this command that is the same for the same command, and from which nothing can be read.

        Words, folder, policy and the given variables count; what is done with stderr, and how it ends, do not.
        """
        import hashlib  # noqa: PLC0415 - most commands are never remembered
        import json  # noqa: PLC0415

        told = [list(self.argv), self.folder(), self.environment, sorted((self.env or {}).items())]
        return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogatepass")).hexdigest()

    def describe(self) -> str:
        """Return the command on one line, as one would type it."""
        import shlex  # noqa: PLC0415 - for messages only

        return shlex.join(self.argv)

    def _check_batch_file(self, executable: str, *, windows: bool = sys.platform == "win32") -> None:
        if not windows or not executable.lower().endswith((".cmd", ".bat")):
            return
        for word in self.argv[1:]:
            if MEANT_FOR_CMD & set(word):
                raise self.failure(
                    "refused",
                    detail=f"{executable} is a batch file, and cmd.exe would change its argument {word!r}; start what is behind it",
                )

    def _parts(self) -> Iterator[tuple[str, object]]:
        if self.env is not None:
            yield "env", dict.fromkeys(self.env, MASK)
        if self.environment != "minimal":
            yield "environment", self.environment
        if self.cwd is not None:
            yield "cwd", os.fspath(self.cwd)
        if self.stderr != "tail":
            yield "stderr", self.stderr
        if self.shutdown is not None:
            yield "shutdown", str(self.shutdown)
        if not self.die_with_us:
            yield "die_with_us", False

    def __repr__(self) -> str:
        parts = [repr(list(self.argv)), *(f"{name}={value!r}" for name, value in self._parts())]
        return f"ServerCommand({', '.join(parts)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # what pretty printers ask for; the inherited one shows the values
        return [("argv", list(self.argv)), *self._parts()]


def _checked_words(argv: Any) -> tuple[str, ...]:
    if isinstance(argv, str | bytes | os.PathLike):
        hint = f"; write {argv.split()!r}" if isinstance(argv, str) else ""
        raise LocalProtocolError(f"a command is a list of words, and {argv!r} is not{hint}")
    words = tuple(os.fspath(word) if isinstance(word, os.PathLike) else word for word in argv)
    if not words or not words[0]:
        raise LocalProtocolError("a command needs at least one word that is not empty: the executable")
    for word in words:
        if not isinstance(word, str):
            raise LocalProtocolError(f"every word of a command must be a string, and {word!r} is a {type(word).__name__}")
        if "\0" in word:
            raise LocalProtocolError(f"the word {word!r} of the command holds a NUL byte, which no system can hand over")
    return words
