"""Protection of standard output, which belongs to the protocol (FR-04).

A single ``print()`` in a tool, the banner of a library, the output of a child process: each of them would be noise between two
messages, and some hosts disconnect because of it. A tool that calls ``input()``, or starts a child that reads stdin, would consume
the host's requests. So a server takes both descriptors before it serves:

* The wire moves to private duplicates, which no child process inherits. A forked process finds the null device in their place (see
  :mod:`twopipes._channels.fork`).
* Descriptor 1 becomes a duplicate of stderr, and descriptor 0 one of the null device, for everyone: prints, ``os.write(1, ...)``,
  C code, child processes.
* Output printed earlier that is still in a buffer of Python or C goes to stderr. Output that was flushed is on the wire already:
  install the guard before anything else is imported (``twopipes run server.py`` does).
* Prints and tracebacks go through a :class:`~twopipes._channels.stderr.StderrLog`, so they cannot block either.
* The first print of each call site is reported with file and line, because its author wanted it to be seen.

If the host itself connected stderr to the wire (``2>&1``), they cannot be separated.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import ExitStack, suppress
from functools import partial
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

from twopipes._channels.base import mode_of
from twopipes._channels.fork import in_forked_children, point_at_null
from twopipes._channels.stderr import LogStream, StderrLog, duplicate, reroute
from twopipes.errors import LocalProtocolError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Call sites that are remembered and reported. More reports would not help.
MAX_SITES = 256
# Seconds to wait for the reader of stderr at the end. An active reader needs milliseconds.
PATIENCE = 0.2
# The folder of the standard library: its prints are reported for its caller.
LIBRARY = os.path.dirname(os.__file__) + os.sep


class Guard:
    """Standard input and output, reserved for the protocol until :meth:`restore`.

    ::

        with Guard.take() as guard:
            channel = open_stdio(guard.stdin_fd, guard.stdout_fd)

    Attributes:
        stdin_fd: The wire to read. The guard owns it; ``open_stdio`` makes its own duplicate.
        stdout_fd: The wire to write, also owned by the guard. A host behind a pipe reads EOF when the process ends.
        log: For messages to people.
    """

    _current: ClassVar[Guard | None] = None

    def __init__(self, stdin_fd: int, stdout_fd: int, log: StderrLog, undo: ExitStack) -> None:
        self.stdin_fd = stdin_fd
        self.stdout_fd = stdout_fd
        self.log = log
        self._undo = undo

    @classmethod
    def current(cls) -> Guard | None:
        """Return the active guard, if any. Other code may use its descriptors, but only its owner restores it."""
        return Guard._current

    @classmethod
    def take(cls) -> Self:
        """Take standard input and output. A process can have one guard at a time.

        Raises:
            ChannelClosed: Descriptor 0 or 1 is not open, so there is no wire. Nothing was changed.
            LocalProtocolError: There is a guard already. Use :meth:`current`.
        """
        if Guard._current is not None:
            raise LocalProtocolError("standard input and output are guarded already; a process can serve stdio only once")
        mode_of(0, "standard input")
        mode_of(1, "standard output")
        with ExitStack() as undo:
            stderr = _stderr(undo)
            log = StderrLog(stderr)
            undo.callback(log.close)
            undo.callback(log.flush, PATIENCE)
            # Undone in reverse: first flush the buffers, then restore the descriptors, and last the streams.
            streams = undo.enter_context(ExitStack())
            wire_in, wire_out = _take(0, undo), _take(1, undo)
            for wire in (wire_in, wire_out):
                undo.callback(in_forked_children(partial(point_at_null, wire)))
            _point_at_null(0, os.O_RDONLY)
            # First the descriptor, then the buffers: their content must not go to the wire.
            os.dup2(stderr, 1)
            _flush(sys.stdout, sys.__stdout__)
            undo.callback(_flush, *(getattr(stream, "buffer", None) for stream in (sys.stdout, sys.__stdout__)))
            undo.callback(_flush_c)
            streams.callback(reroute("stderr", LogStream(log, 2, "<stderr>")))
            streams.callback(reroute("stdout", _StrayPrints(log, 1, "<stdout>")))
            # At exit nothing is restored: C code writes its buffers after us.
            atexit.register(_flush_all, log)
            undo.callback(atexit.unregister, _flush_all)
            guard = cls(wire_in, wire_out, log, undo.pop_all())
        Guard._current = guard
        return guard

    def restore(self) -> None:
        """Restore everything and close the private descriptors. A second call does nothing.

        Output for stderr gets a short time to be written. If descriptor 2 was closed, it stays on the null device.

        This is for a program that continues. Output in a buffer of other code is written at exit, wherever descriptor 1 points by
        then; ``twopipes run`` stays guarded because of that.
        """
        if Guard._current is self:
            Guard._current = None
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()


class _StrayPrints(LogStream):
    """The replacement for ``sys.stdout``: it writes to the log, and reports each call site once."""

    def __init__(self, log: StderrLog, fd: int, name: str) -> None:
        super().__init__(log, fd, name)
        self._sites: dict[tuple[str, int], object] = {}

    def write(self, data: ReadableBuffer, /) -> int:
        if len(self._sites) < MAX_SITES:
            # A print must not fail because of its report.
            with suppress(Exception):
                self._report(sys._getframe(1))  # noqa: SLF001 - print() is C code, so this is the frame that called print()
        return super().write(data)

    def _report(self, caller: FrameType) -> None:
        file, line = _call_site(caller)
        mark = object()
        # Of two threads at the same line, one gets its own mark back and reports.
        if file != __file__ and self._sites.setdefault((file, line), mark) is mark:
            place = format_place(file, line)
            self._log.write_lines(f"Warning: print() at {place} went to stderr, because stdout carries the protocol\n")


def format_place(file: str, line: int) -> str:
    """Return ``file:line`` for a warning, relative to the working folder."""
    with suppress(OSError):  # the folder may be gone
        file = file.removeprefix(os.getcwd() + os.sep)
    return f"{file}:{line}"


def _call_site(frame: FrameType) -> tuple[str, int]:
    """Return file and line of the nearest caller outside of the standard library."""
    nearest: FrameType | None = frame
    while nearest is not None:
        file = nearest.f_code.co_filename
        is_library = file.startswith("<frozen ") or (file.startswith(LIBRARY) and "-packages" not in file)
        if not is_library:
            return file, nearest.f_lineno
        nearest = nearest.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _stderr(undo: ExitStack) -> int:
    """Return descriptor 2, or one of the null device if 2 is not stderr."""
    try:
        os.fstat(2)
    except OSError:
        # The number 2 would be reused for the next opened file, and that file would get the prints.
        _point_at_null(2, os.O_WRONLY)
    try:
        os.write(2, b"")
    except OSError:
        # A file that is open for reading: stderr was closed, and the program has opened the file since. libffi 3.8 does that.
        null = os.open(os.devnull, os.O_WRONLY)
        undo.callback(os.close, null)
        return null
    return 2


def _take(fd: int, undo: ExitStack) -> int:
    private = duplicate(fd)
    undo.callback(os.close, private)
    undo.callback(os.dup2, private, fd)
    return private


def _point_at_null(fd: int, access: int) -> None:
    null = os.open(os.devnull, access)
    if null == fd:
        os.set_inheritable(fd, True)
    else:
        os.dup2(null, fd)
        os.close(null)


def _flush(*streams: IO[Any] | None) -> None:
    for stream in streams:
        if stream is not None:
            with suppress(Exception):  # it may be closed, or any other object
                stream.flush()


def _flush_c() -> None:
    # exit() would write the buffers of C code to the restored wire.
    with suppress(Exception):
        import ctypes  # a slow import that only this function needs

        if sys.platform == "win32":
            ctypes.cdll.ucrtbase.fflush(None)
        else:
            library = ctypes.CDLL(None)
            stdout = ctypes.c_void_p.in_dll(library, "__stdoutp" if sys.platform == "darwin" else "stdout")
            library.fflush(stdout)


def _flush_all(log: StderrLog) -> None:
    _flush(sys.stdout, sys.stderr)
    log.flush(PATIENCE)
