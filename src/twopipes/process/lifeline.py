"""A child that dies with us, even when we are killed and can do nothing any more. Linux alone has this.

The kernel sends a process the signal of its choice when its parent dies, but the process has to ask for it itself, between fork and
exec. Python code cannot run there safely in a program with threads. So the child is started through ``setpriv`` of
util-linux, which asks and then becomes the program: same process id, no process more. See docs/decisions/0014.

The kernel means the *thread* that forked. Where that thread may end before the program, a child would die for no reason, so there
is no lifeline then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import cache

__all__ = ["lifeline"]

# Not searched for on any PATH: this runs with the child's secrets in its environment.
PLACES = ("/usr/bin/setpriv", "/bin/setpriv", "/run/current-system/sw/bin/setpriv")
# SIGTERM and not SIGKILL: npx, uv and npm pass it on to the server behind them, which nobody would tell otherwise.
ASKING = ("--pdeathsig", "TERM", "--")
# Seconds. The trial takes two milliseconds.
TRIAL = 5.0
# Bytes at the beginning of an ELF file that say for which processor it is: the class and the byte order, then the machine.
KIND, MACHINE = slice(0, 6), slice(18, 20)
HEAD = 256


def lifeline(executable: str, *, lasting_thread: bool = False) -> tuple[str, ...]:
    """Return the words to put before a command so that its process dies with us; none where that is not to be had.

    Args:
        executable: The absolute path of what will be executed.
        lasting_thread: The calling thread lives as long as the child may, as the main thread does.
    """
    if (
        sys.platform == "linux"
        and (lasting_thread or threading.current_thread() is threading.main_thread())
        # Otherwise it is started directly, and the failure comes back as an error of ours and not as a complaint of setpriv.
        and _exec_will_work(executable)
        and (setpriv := _setpriv()) is not None
    ):
        return (setpriv, *ASKING)
    return ()


@cache
def _setpriv() -> str | None:
    """The setpriv of this machine, if it knows the option (that of BusyBox does not) and may use it here. Tried once."""
    for place in PLACES:
        if not os.access(place, os.X_OK):
            continue
        try:
            tried = subprocess.run(  # noqa: S603 - two programs of the system
                [place, *ASKING, place, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                timeout=TRIAL,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if tried.returncode == 0:
            return place
    return None


def _exec_will_work(executable: str) -> bool:
    """Whether the file is a program for this processor, or a script whose interpreter is there."""
    head = _head(executable)
    if head.startswith(b"#!"):
        # As the kernel parts them: a carriage return, from an editor of another system, is part of the name, which nobody has.
        words = head[2:].split(b"\n", 1)[0].replace(b"\t", b" ").strip(b" ").split(b" ")
        return bool(words[0]) and os.access(words[0], os.X_OK)
    ours = _head(os.path.realpath(sys.executable))
    return head.startswith(b"\x7fELF") and (head[KIND], head[MACHINE]) == (ours[KIND], ours[MACHINE])


def _head(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the plainest way
            return file.read(HEAD)
    except OSError:
        return b""
