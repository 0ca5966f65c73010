"""Why a print does not break the wire: standard output belongs to the protocol (FR-04).

A single ``print()`` in a tool, a banner of a library, the output of a child process: any of them between two messages is
noise on the wire, and some hosts hang up on it. And a tool that calls ``input()`` or starts a child that reads its
standard input eats the host's requests. So a server that is about to serve takes both descriptors for itself:

* The wire moves to private duplicates, which no child process inherits; a process that is merely forked finds the null device
  there (see :mod:`twopipes._channels.fork`).
* Descriptor 1 becomes a second descriptor of stderr, and descriptor 0 one of the null device, for everyone: prints,
  ``os.write(1, ...)``, C code, child processes.
* What was printed before and is still in Python's buffer, or in that of C, comes out on stderr. What was flushed before is
  on the wire already and cannot be fetched back: guard before anything else is imported (``twopipes run server.py`` does).
* Prints and tracebacks go through a :class:`~twopipes._channels.stderr.StderrLog`, so they cannot block either.
* The first print of each call site is reported with file and line, because its author meant it to be seen.

Where the host itself connected stderr to the wire (``2>&1``), stderr is the wire, and nothing here can part them.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import ExitStack, suppress
from functools import partial
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self

from twopipes._channels.fork import in_forked_children, point_at_null
from twopipes._channels.stderr import LogStream, StderrLog, duplicate, reroute
from twopipes.errors import ChannelClosed, LocalProtocolError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["Guard", "place_in_words"]

# Call sites that are remembered, and so reported. A program that prints in more places has got the message.
MAX_SITES = 256
# Seconds that the end waits for a reader of stderr. One that is there needs milliseconds.
PATIENCE = 0.2
# Where the standard library lives: what it prints, it prints for somebody else.
LIBRARY = os.path.dirname(os.__file__) + os.sep


class Guard:
    """Standard input and output, held for the protocol until :meth:`restore`.

    ::

        with Guard.take() as guard:
            channel = open_stdio(guard.stdin_fd, guard.stdout_fd)

    Attributes:
        stdin_fd: The wire to read. It belongs to the guard; ``open_stdio`` makes its own duplicate.
        stdout_fd: The wire to write. Likewise. A host behind a pipe reads the end of it when the process ends.
        log: Where to write what people should see.
    """

    _current: ClassVar[Guard | None] = None

    def __init__(self, stdin_fd: int, stdout_fd: int, log: StderrLog, undo: ExitStack) -> None:
        self.stdin_fd = stdin_fd
        self.stdout_fd = stdout_fd
        self.log = log
        self._undo = undo

    @classmethod
    def current(cls) -> Guard | None:
        """Return the guard that is in force, if any: who finds one uses its descriptors and leaves restoring to its owner."""
        return Guard._current

    @classmethod
    def take(cls) -> Self:
        """Take standard input and output. One process has one guard at a time.

        Raises:
            ChannelClosed: Descriptor 0 or 1 is not open, so there is no wire. Nothing was changed.
            LocalProtocolError: They were taken already. Use :meth:`current`.
        """
        if Guard._current is not None:
            raise LocalProtocolError("standard input and output are guarded already; there is one wire in a process")
        _check_open(0, "standard input")
        _check_open(1, "standard output")
        with ExitStack() as undo:
            # A closed descriptor 2 would be given to the next file that anybody opens, and that file would get the prints.
            if not _is_open(2):
                _point_at_null(2, os.O_WRONLY)
            log = StderrLog(2)
            undo.callback(log.close)
            undo.callback(log.flush, PATIENCE)
            # Undone in reverse: first the buffers are emptied, then the descriptors put back, and last the streams over them.
            streams = undo.enter_context(ExitStack())
            wire_in, wire_out = _take(0, undo), _take(1, undo)
            for wire in (wire_in, wire_out):
                undo.callback(in_forked_children(partial(point_at_null, wire)))
            _point_at_null(0, os.O_RDONLY)
            # First the descriptor, then the buffers: what is in them must not find the old way.
            os.dup2(2, 1)
            _flush(sys.stdout, sys.__stdout__)
            undo.callback(_flush, *(getattr(stream, "buffer", None) for stream in (sys.stdout, sys.__stdout__)))
            undo.callback(_flush_c)
            streams.callback(reroute("stderr", LogStream(log, 2, "<stderr>")))
            streams.callback(reroute("stdout", _StrayPrints(log, 1, "<stdout>")))
            # At the end of the process nothing is put back: what C still has in its buffers, it writes after us.
            atexit.register(_flush_all, log)
            undo.callback(atexit.unregister, _flush_all)
            guard = cls(wire_in, wire_out, log, undo.pop_all())
        Guard._current = guard
        return guard

    def restore(self) -> None:
        """Put everything back, and give up the private descriptors. A second call changes nothing.

        What waits for stderr is given a moment. If descriptor 2 was closed, it stays on the null device.

        This is for a program that goes on. What somebody has printed into a buffer of their own comes out at the very end,
        wherever descriptor 1 points by then; ``twopipes run`` stays guarded for that.
        """
        if Guard._current is self:
            Guard._current = None
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()


class _StrayPrints(LogStream):
    """What is left of ``sys.stdout``: it writes to the log, and says once for each place in the program that it did."""

    def __init__(self, log: StderrLog, fd: int, name: str) -> None:
        super().__init__(log, fd, name)
        self._sites: dict[tuple[str, int], object] = {}

    def write(self, data: ReadableBuffer, /) -> int:
        """Hand the bytes to the log, after the report if this is the first time."""
        if len(self._sites) < MAX_SITES:
            # The report is a courtesy. Whatever goes wrong with it, a print is not to fail for it.
            with suppress(Exception):
                self._report(sys._getframe(1))  # noqa: SLF001 - print() is C, so the caller of print() is next to us
        return super().write(data)

    def _report(self, caller: FrameType) -> None:
        file, line = _call_site(caller)
        mark = object()
        # Of two threads at the same line, one gets its own mark back.
        if file != __file__ and self._sites.setdefault((file, line), mark) is mark:
            place = place_in_words(file, line)
            self._log.say(f"Warning: print() at {place} went to stderr, because stdout carries the protocol\n")


def place_in_words(file: str, line: int) -> str:
    """A place in a program, as everybody who warns of one writes it: seen from the folder that the program runs in."""
    with suppress(OSError):  # that folder may be gone
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


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _check_open(fd: int, role: str) -> None:
    if not _is_open(fd):
        raise ChannelClosed(
            f"{role} (descriptor {fd}) is not open. A server over stdio is started by its host, with a pipe or a socket as "
            f"standard input and standard output"
        )


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
            with suppress(Exception):  # It may be closed, or anything that somebody put there.
                stream.flush()


def _flush_c() -> None:
    # What C code printed meanwhile and kept in its buffer would be written by exit(), on a wire that was put back.
    with suppress(Exception):
        import ctypes  # noqa: PLC0415 - for this moment only

        if sys.platform == "win32":
            ctypes.cdll.ucrtbase.fflush(None)
        else:
            library = ctypes.CDLL(None)
            stdout = ctypes.c_void_p.in_dll(library, "__stdoutp" if sys.platform == "darwin" else "stdout")
            library.fflush(stdout)


def _flush_all(log: StderrLog) -> None:
    _flush(sys.stdout, sys.stderr)
    log.flush(PATIENCE)
