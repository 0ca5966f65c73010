"""Enforce a policy with bubblewrap: new namespaces, and a file system that contains nothing but what the server can see."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from twopipes._process.process_group import Launch
from twopipes._process.sandbox.engine import Unusable
from twopipes._process.sandbox.view import View, is_below

assert sys.platform == "linux"  # no other system imports this

from twopipes._process.sandbox.engine import readable_descriptor
from twopipes._process.sandbox.socket_filter import socket_filter

# Where it is looked for after PATH: a host may start us with a short one.
_USUAL_FOLDERS: Final = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
# Seconds for the trial run. It takes a few milliseconds.
_TRIAL: Final = 10.0
# Every namespace is new, and the server cannot make more of them, which would give it access to more of the kernel. Versions before
# 0.8 have no option for that.
_ISOLATION: Final = (("--unshare-all", "--unshare-user", "--disable-userns"), ("--unshare-all",))
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - private ones

_working: dict[str, Bubblewrap] = {}


def find() -> Bubblewrap:
    """Return a bubblewrap that works here. The first call makes a trial run.

    Raises:
        Unusable: There is none.
    """
    path = shutil.which("bwrap") or shutil.which("bwrap", path=_USUAL_FOLDERS)
    if path is None:
        raise Unusable("bubblewrap (bwrap) is not installed")
    if path not in _working:
        candidates = [Bubblewrap(path, isolation) for isolation in _ISOLATION]
        problems = []
        for candidate in candidates:
            problems.append(candidate.trial())
            if not problems[-1]:
                _working[path] = candidate
                break
        else:
            raise Unusable(f"{path} does not work here: {problems[-1]}")
    return _working[path]


class Bubblewrap(Struct, frozen=True):
    """An installed bubblewrap, and the options that make its namespaces."""

    path: str
    isolation: tuple[str, ...]

    def trial(self) -> str:
        """Start a program with it. Return why that failed; nothing if it works."""
        mounts = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", _TEMPORARY[0])
        command = [self.path, *self.isolation, *mounts, "--", os.path.realpath(self.path), "--version"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL, cwd="/", check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        if done.returncode == 0:
            return ""
        return done.stderr.decode(errors="replace").strip().removeprefix("bwrap: ") or f"exit code {done.returncode}"

    def launch(self, view: View, argv: Sequence[str]) -> Launch:
        """Return the command that starts a server which can see only this."""
        options = [*self.isolation, *_file_system(view), "--chdir", view.folder]
        inherited: list[int] = []
        try:
            if view.network:
                # The network has abstract Unix sockets as well, and one of them may be that of the user's display.
                inherited.append(readable_descriptor("socket filter", socket_filter(except_internet=True)))
                options += ["--share-net", "--seccomp", str(inherited[0])]
            # By a descriptor: there may be more of them than a command line can hold, and `ps` shows the server's command first.
            inherited.append(readable_descriptor("bubblewrap options", b"".join(os.fsencode(each) + b"\0" for each in options)))
        except BaseException:
            for descriptor in inherited:
                os.close(descriptor)
            raise
        return Launch([self.path, "--args", str(inherited[-1]), "--", *argv], inherited=tuple(inherited), is_monitor=True)


def _file_system(view: View) -> Iterator[str]:
    mounts = _mounts(view)
    # A mount hides what was mounted below it before.
    for path in sorted(mounts, key=lambda path: (path.rstrip("/").count("/"), path)):
        yield from (*mounts[path], path)
    if "/" not in view.write:
        # Folders on the way to a mount are made in a temporary file system. A write there fails instead of being lost.
        yield from ("--remount-ro", "/")


def _mounts(view: View) -> dict[str, tuple[str, ...]]:
    """Return how each path is made visible: the option of bubblewrap that is given before the path."""
    writable = {os.path.realpath(each) for each in view.write}
    shown = writable | {os.path.realpath(each) for each in view.read}
    mounts: dict[str, tuple[str, ...]] = {"/proc": ("--proc",), "/dev": ("--dev",)}
    for path in (*_TEMPORARY, *([] if view.home is None else [view.home])):
        if not is_below(os.path.realpath(path), shown):
            mounts[path] = ("--tmpfs",)
    if view.folder != "/" and not is_below(os.path.realpath(view.folder), shown):
        mounts.setdefault(view.folder, ("--dir",))
    for path in view.read:
        places = [each for each in _places(path) if not _is_inside(each, shown)]
        mounts |= dict.fromkeys(places, ("--ro-bind", os.path.realpath(path)))
    for path in view.write:
        # A link cannot be mounted over, and leads to the other place.
        places = [each for each in _places(path) if not (os.path.islink(each) and _is_inside(each, shown))]
        mounts |= dict.fromkeys(places, ("--bind", os.path.realpath(path)))
    for path, target in view.links.items():
        if path not in mounts and not _is_inside(path, shown):
            mounts[path] = ("--symlink", target)
    return mounts


def _is_inside(path: str, shown: Iterable[str]) -> bool:
    """Whether a path is visible because a folder around it is."""
    return is_below(os.path.realpath(os.path.dirname(path)), shown) and path != "/"


def _places(path: str) -> set[str]:
    """Return where a path is mounted: where the server looks for it, and where it is, because links may lead there."""
    return {path, os.path.realpath(path)}
