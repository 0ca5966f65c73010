"""The description of a server to start: command, environment, folder and shutdown plan."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, force_setattr

from twopipes._process.batch_file import argument_refused
from twopipes._process.environment import EnvironmentPolicy, check_environment, environment_of
from twopipes._process.lookup import look_up, search_path
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrPolicy, check_policy
from twopipes.errors import LocalProtocolError, StartFailed
from twopipes.settings import Sandbox

MASK = "***"
POLICIES = ("minimal", "inherit", "explicit")


class _Words(Struct, frozen=True):
    # argv is the one positional field; msgspec sets kw_only per class.
    argv: Sequence[str]


class ServerCommand(_Words, frozen=True, kw_only=True):
    """A server to be started as a child process. Creating the object starts nothing.

    Put secrets in ``env``: every user of the machine can read the arguments of a process. ``repr`` never shows a value of ``env``.

    Args:
        argv: The executable and its arguments; no shell is involved. The executable is searched for on the *child's* PATH.
            A name that contains a slash is relative to ``cwd``.
        env: Variables added to those of the policy. ``PYTHONUTF8`` and ``PYTHONUNBUFFERED`` are never set for you.
        environment: ``minimal`` gives the child the few variables that every program needs, ``inherit`` all of ours, and
            ``explicit`` nothing but ``env``.
        cwd: The child's working folder; ours by default.
        stderr: What happens to its stderr, in addition to keeping the last lines for error messages; see
            :data:`twopipes._process.stderr.StderrPolicy`.
        shutdown: How to end it. By default: close stdin, wait 2 s, SIGTERM, wait 2 s, SIGKILL.
        die_with_us: End its whole process group when this program dies for any reason, SIGKILL included: SIGTERM, 2 s, SIGKILL.
        sandbox: What it may reach. By default it may do what we may.

    Raises:
        LocalProtocolError: An argument cannot be passed to a process.
    """

    env: Mapping[str, str] | None = None
    environment: EnvironmentPolicy = "minimal"
    cwd: str | Path | None = None
    stderr: StderrPolicy = "tail"
    shutdown: ShutdownPlan | None = None
    die_with_us: bool = True
    sandbox: Sandbox | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "argv", _checked_words(self.argv))
        if self.env is not None:
            check_environment(self.env)
            force_setattr(self, "env", dict(self.env))
        if self.environment not in POLICIES:
            raise LocalProtocolError(f"environment={self.environment!r} is not one of {', '.join(map(repr, POLICIES))}")
        if self.cwd is not None and "\0" in os.fspath(self.cwd):
            raise LocalProtocolError(f"cwd={os.fspath(self.cwd)!r} contains a NUL byte, which no path can contain")
        check_policy(self.stderr)
        if self.sandbox is not None and not isinstance(self.sandbox, Sandbox):
            raise LocalProtocolError(f"sandbox= must be a Sandbox object, got {self.sandbox!r}; write Sandbox(read=[...])")

    def child_environment(self) -> dict[str, str]:
        """Return the complete environment that the child would get if it were started now."""
        return environment_of(self.environment, self.env or {})

    def resolve(self, environment: Mapping[str, str] | None = None) -> str:
        """Return the executable's absolute path, looked up with the child's PATH and folder.

        Args:
            environment: The result of :meth:`child_environment`, if it is known already.

        Raises:
            StartFailed: The executable was not found or cannot be executed, or the child's folder does not exist.
        """
        folder = self.folder()
        if not os.path.isdir(folder):
            raise self.failure("no such folder")
        if environment is None:
            environment = self.child_environment()
        found = look_up(self.argv[0], environment, folder)
        if found.found is not None:
            self._check_arguments(found.found)
            return found.found
        if found.unfit is not None:
            missing = "its extension is not in PATHEXT" if sys.platform == "win32" else "the permission is missing"
            kind = "it is a folder" if os.path.isdir(found.unfit) else missing
            raise self.failure("not executable", detail=f"{found.unfit}: {kind}", path=found.folders)
        raise self.failure(
            "not found", path=found.folders, detail="" if "PATH" in environment else "the child's environment has no PATH"
        )

    def folder(self) -> str:
        """Return the child's working folder as an absolute path."""
        return os.path.abspath(os.fspath(self.cwd) if self.cwd is not None else os.curdir)

    def failure(self, reason: Any, *, detail: str = "", path: Sequence[str] | None = None) -> StartFailed:
        """Return the error for a failed start of this command."""
        searched = search_path(self.child_environment()) if path is None else path
        return StartFailed(self.argv, reason, path=searched, cwd=self.folder(), detail=detail)

    def identity(self) -> str:
        """Return a stable hash of the command that reveals nothing about it.

        It covers argv, folder, environment policy, ``env`` and ``sandbox``, but not ``stderr`` and ``shutdown``.
        """
        parts: list[object] = [list(self.argv), self.folder(), self.environment, sorted((self.env or {}).items())]
        if self.sandbox is not None:
            parts.append(asdict(self.sandbox))
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def describe(self) -> str:
        """Return the command on one line, quoted for a shell."""
        return shlex.join(self.argv)

    def _check_arguments(self, executable: str) -> None:
        if sys.platform == "win32" and (reason := argument_refused([executable, *self.argv[1:]])) is not None:
            raise self.failure("refused", detail=reason)

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
        if self.sandbox is not None:
            yield "sandbox", self.sandbox

    def __repr__(self) -> str:
        parts = [repr(list(self.argv)), *(f"{name}={value!r}" for name, value in self._parts())]
        return f"ServerCommand({', '.join(parts)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # used by rich; the inherited one shows the values of env
        return [("argv", list(self.argv)), *self._parts()]


def _checked_words(argv: Any) -> tuple[str, ...]:
    if isinstance(argv, str | bytes | os.PathLike):
        hint = f"; write {argv.split()!r}" if isinstance(argv, str) else ""
        raise LocalProtocolError(f"a command must be a list of strings, got {argv!r}{hint}")
    words = tuple(os.fspath(word) if isinstance(word, os.PathLike) else word for word in argv)
    if not words or not words[0]:
        raise LocalProtocolError("a command needs at least one non-empty string: the executable")
    for word in words:
        if not isinstance(word, str):
            raise LocalProtocolError(f"every argument of a command must be a string, got {word!r} ({type(word).__name__})")
        if "\0" in word:
            raise LocalProtocolError(f"the argument {word!r} of the command contains a NUL byte, which no system can pass on")
    return words
