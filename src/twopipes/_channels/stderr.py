"""Standard error that never blocks the protocol.

Some hosts connect a pipe to our stderr and never read it. After 64 KiB an ordinary write blocks forever, and with it the event
loop or the tool that only wanted to log a line. A :class:`StderrLog` passes to the system what it takes at once, keeps a bounded
backlog, drops whole lines beyond that, and reports their number as soon as the pipe is read again (FR-06).

Whether a descriptor blocks is a property of the *open file description*, which the shell's terminal or our own stdout
(``2>&1``) may share. So no flag of descriptor 2 is ever changed:

================================ =====================================================================================
stderr                           how it is written
================================ =====================================================================================
a pipe, a terminal, on Linux     at once, through our own non-blocking description opened from ``/proc/self/fd``
a socket                         at once; each call has a non-blocking flag
a regular file                   at once
anything else                    by a daemon thread that may block
================================ =====================================================================================

:func:`reroute` puts the interpreter's own ``sys.stderr`` on top of it, so that tracebacks, prints and logging handlers cannot
block either. Code that writes to descriptor 2 directly (a C extension, a child process) may still block, but only its own thread
or process.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Bytes that wait for a reader, in addition to the pipe's own capacity: about ten thousand lines.
LIMIT = 1024 * 1024
# Bytes per write from the backlog. A pipe takes up to this many atomically, so our lines and those of a child do not mix.
PIECE = 4096
# Seconds to wait for a thread that is about to end. It normally takes microseconds.
JOIN_TIMEOUT = 1.0
# Seconds that flush() of a standard stream waits for the thread. A pipe that is read takes a line in microseconds.
SETTLE = 0.05
# The highest descriptor of a standard stream.
STANDARD = 2


class StderrLog:
    """Writes lines to stderr from any thread, the event loop and signal handlers. Writing never blocks and never raises.

    Lines keep their order. If more than ``limit`` bytes wait, further lines are dropped until half of that is free again; then a
    line with their number is written. A single line longer than the limit is cut. If stderr is broken (a closed pipe, a full
    disk) or not open, lines are discarded silently. The descriptor is duplicated, never changed, and stays open.

    Attributes:
        lines_dropped: How many lines were dropped so far because too many were waiting.
    """

    def __init__(self, fd: int = 2, *, limit: int = LIMIT) -> None:
        self.lines_dropped = 0
        self._limit = limit
        self._target = _open_target(fd)
        self._pid = os.getpid()
        self._backlog = bytearray()
        self._thread: threading.Thread | None = None
        # A pipe by which close() wakes the thread while it waits for the reader: read end, write end.
        self._wakeup: tuple[int, int] | None = None
        # The thread has written everything; see settle().
        self._written = threading.Event()
        self._is_read = True
        # Reentrant, because a signal handler or a finalizer may log in the middle of a write of the same thread.
        self._changed = threading.Condition()
        self._closed = False
        # A write of this thread is in progress; a nested one (a signal handler) must be queued.
        self._writing = False
        # The thread is in a call that may block while stderr is not read.
        self._stuck = False
        # Lines dropped since the last report.
        self._unreported = 0
        # The last accepted byte did not end a line.
        self._line_open = False

    def write(self, text: str) -> None:
        """Write ``text``, normally whole lines, in UTF-8 whatever the locale is."""
        self.write_bytes(text.encode("utf-8", "backslashreplace"))

    def write_lines(self, lines: str) -> None:
        """Write whole lines. They begin on a new line, even if the last output (a prompt) did not end its line."""
        self.write_bytes(lines.encode("utf-8", "backslashreplace"), on_new_line=True)

    def write_bytes(self, data: bytes, *, on_new_line: bool = False) -> None:
        """Write encoded text."""
        if os.getpid() != self._pid:
            self._start_over()
        if sys.is_finalizing():
            # Threads were stopped at any point, perhaps while holding the lock.
            if not self._target.may_block and not self._closed:
                self._send(data)
            return
        with self._changed:
            if self._closed or not data:
                return
            if on_new_line and self._line_open and not self._unreported:  # else the number of dropped lines comes first
                data = b"\n" + data
            if self._backlog or self._writing or self._target.may_block:
                self._keep(data)
            else:
                self._writing = True
                try:
                    taken = self._send(data)
                finally:
                    self._writing = False
                self._remember_line_end(data[:taken])
                if taken < len(data):
                    # Before what a nested write may have queued.
                    later = bytes(self._backlog)
                    self._backlog.clear()
                    self._keep(data[taken:])
                    self._backlog += later
            self._report_dropped()
            if self._backlog:
                self._written.clear()
                self._wake()

    def settle(self) -> None:
        """Give a thread that has to write a moment: a program may flush its last words and call ``os._exit``.

        If that moment was too short, stderr is not read, and this does not wait again before some of the backlog was written.
        """
        # An event and not the condition: a signal handler that flushes must not release the lock of the write that it interrupted.
        if self._target.may_block and self._backlog and self._is_read and not sys.is_finalizing():
            self._is_read = self._written.wait(SETTLE)

    def flush(self, timeout: float = 0.5) -> bool:
        """Wait at most ``timeout`` seconds until the system has taken everything. Return whether it has."""
        if os.getpid() != self._pid:
            self._start_over()
        with self._changed:
            return self._changed.wait_for(lambda: not self._backlog or self._closed, timeout) and not self._backlog

    def close(self) -> None:
        """Drop what still waits, and free all resources. Call :meth:`flush` first to keep it. Later lines are discarded.

        If a thread has to write and is blocked, it ends after its current call.
        """
        if os.getpid() != self._pid:
            self._start_over()
        with self._changed:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
            if thread is None:
                self._target.release()
                return
            self._changed.notify_all()
            if self._wakeup is not None:
                os.write(self._wakeup[1], b"!")
            stuck = self._stuck
        if not stuck:
            thread.join(JOIN_TIMEOUT)

    def _send(self, data: bytes) -> int:
        """Return how many bytes the system took. A broken stderr takes everything."""
        try:
            return self._target.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def _keep(self, data: bytes) -> None:
        if not self._unreported:
            room = self._limit - len(self._backlog)
            cut = len(data) if len(data) <= room else data.rfind(b"\n", 0, max(room, 0)) + 1
            self._backlog += data[:cut]
            self._remember_line_end(data[:cut])
            data = data[cut:]
        if data:
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            self._unreported += lines
            self.lines_dropped += lines

    def _remember_line_end(self, accepted: bytes) -> None:
        if accepted:
            self._line_open = not accepted.endswith(b"\n")

    def _report_dropped(self) -> None:
        """Report the number of dropped lines, once there is room again."""
        if self._unreported and len(self._backlog) <= self._limit // 2:
            count, self._unreported = self._unreported, 0
            start = "\n" if self._line_open else ""
            lines = "1 line" if count == 1 else f"{count} lines"
            self._backlog += f"{start}... {lines} dropped, because stderr was not read in time\n".encode()
            self._line_open = False

    # The thread is started for the first line that the system does not take at once.

    def _wake(self) -> None:
        if self._thread is not None:
            self._changed.notify_all()
            return
        self._thread = threading.Thread(target=self._drain, name="twopipes writer of stderr", daemon=True)
        # At the end of the interpreter no thread can be started, and the descriptors may be used up.
        try:
            if sys.platform != "win32":
                self._wakeup = os.pipe()
            self._thread.start()
        except (OSError, RuntimeError):
            self._close_wakeup()
            self._thread = None

    def _drain(self) -> None:
        try:
            while (piece := self._next_piece()) is not None:
                if not self._wait_for_reader():
                    continue
                self._stuck = self._target.may_block
                taken = self._send(piece)
                self._stuck = False
                with self._changed:
                    del self._backlog[:taken]
                    self._is_read = True
                    self._report_dropped()
                    if not self._backlog:
                        self._written.set()
                        self._changed.notify_all()
        finally:
            self._target.release()
            self._close_wakeup()

    def _next_piece(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._backlog or self._closed)
            if self._closed:
                return None
            end = self._backlog.rfind(b"\n", 0, PIECE) + 1
            return bytes(self._backlog[: end or PIECE])

    def _wait_for_reader(self) -> bool:
        """Return True when a write may succeed, False when close() was called."""
        if sys.platform != "win32" and self._wakeup is not None:
            poll = select.poll()
            poll.register(self._target.fd, select.POLLOUT)
            poll.register(self._wakeup[0], select.POLLIN)
            return self._wakeup[0] not in dict(poll.poll())
        return True

    def _close_wakeup(self) -> None:
        wakeup, self._wakeup = self._wakeup, None
        for fd in wakeup or ():
            os.close(fd)

    def _start_over(self) -> None:
        # In a fork: the thread is gone, a lock that it held stays locked, and the backlog belongs to the parent.
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._written = threading.Event()
        self._backlog = bytearray()
        self._unreported = 0
        self._writing = False
        self._thread = None
        self._close_wakeup()


# Access to the descriptor


class _Target:
    """A private descriptor and how to use it."""

    def __init__(self, fd: int, send: Callable[[bytes], int], release: Callable[[], None], *, may_block: bool) -> None:
        self.fd = fd
        self.send = send
        self.release = release
        self.may_block = may_block


def _open_target(fd: int) -> _Target:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return _Target(-1, len, lambda: None, may_block=False)
    if sys.platform != "win32":
        if stat.S_ISSOCK(mode):
            import socket  # stderr is rarely a socket, and the import slows down every start

            sock = socket.socket(fileno=duplicate(fd))
            if sock.gettimeout() is not None:
                sock.settimeout(None)  # socket.setdefaulttimeout() is meant for the program's own sockets
            return _Target(sock.fileno(), lambda data: sock.send(data, socket.MSG_DONTWAIT), sock.close, may_block=False)
        if (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)) and (reopened := _reopen(fd)) is not None:
            return _Target(reopened, partial(os.write, reopened), partial(os.close, reopened), may_block=False)
    private = duplicate(fd)
    return _Target(private, partial(os.write, private), partial(os.close, private), may_block=not stat.S_ISREG(mode))


if sys.platform != "win32":

    def _reopen(fd: int) -> int | None:
        """Return a non-blocking descriptor of our own description, or None if that is not possible."""
        path = f"/proc/self/fd/{fd}"
        try:
            if os.readlink(path).endswith("ptmx"):
                return None
            opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            # No /proc (macOS, a sandbox), created by another user, or a pipe without a reader.
            return None
        if opened > STANDARD:
            return opened
        private = duplicate(opened)
        os.close(opened)
        return private


def duplicate(fd: int) -> int:
    """Return a duplicate that children do not inherit, with a number above those of the standard streams."""
    low = []
    while (private := os.dup(fd)) <= STANDARD:
        low.append(private)
    for each in low:
        os.close(each)
    return private


# The interpreter's own streams


class LogStream(io.RawIOBase):
    """The raw layer of a text stream: it writes to a :class:`StderrLog`, while ``fileno()`` returns the standard descriptor."""

    mode = "wb"

    def __init__(self, log: StderrLog, fd: int, name: str) -> None:
        super().__init__()
        self.name = name
        self._log = log
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the standard descriptor, for code that passes the stream to a child process."""
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        taken = bytes(data)
        self._log.write_bytes(taken)
        return len(taken)

    def flush(self) -> None:
        if not self.closed:
            self._log.settle()


def reroute(name: str, raw: LogStream) -> Callable[[], None]:
    """Make ``sys.stderr`` (or ``sys.stdout``) write to ``raw``, line by line and in UTF-8; return a function that undoes it.

    The stream objects stay the same; only the layer below them is replaced. So a logging handler or other code that has stored
    ``sys.stderr`` is rerouted as well. A stream that was replaced by one that does not write to the descriptor of ``raw`` (a test's
    capture) is not changed, and a missing stream is created. Before undoing it, restore the descriptor: a stream over a file
    queries its file position.
    """
    undo = ExitStack()
    for attribute in (f"__{name}__", name):
        stream = getattr(sys, attribute)
        if stream is None:
            setattr(sys, attribute, io.TextIOWrapper(raw, **_LINES_IN_UTF8))
            undo.callback(setattr, sys, attribute, None)
        elif isinstance(stream, io.TextIOWrapper) and _is_to_be_rerouted(stream, raw):
            with suppress(OSError, ValueError):
                undo.callback(_exchange(stream, raw))
    return undo.close


_LINES_IN_UTF8: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "line_buffering": True}


def _is_to_be_rerouted(stream: io.TextIOWrapper, raw: LogStream) -> bool:
    """Whether a stream writes to the descriptor of ``raw``, and not through ``raw`` already."""
    with suppress(OSError, ValueError):
        return stream.buffer is not raw and stream.fileno() == raw.fileno()
    return False


def _exchange(stream: io.TextIOWrapper, raw: LogStream) -> Callable[[], None]:
    before: dict[str, Any] = {
        "encoding": stream.encoding,
        "errors": stream.errors,
        "line_buffering": stream.line_buffering,
        "write_through": stream.write_through,
    }
    buffer = stream.detach()
    # Calling __init__ again on a detached stream gives it a new buffer, and everyone who holds the stream sees the change.
    io.TextIOWrapper.__init__(stream, raw, **_LINES_IN_UTF8)

    def restore() -> None:
        try:
            stream.detach()
        except ValueError:
            return  # it was closed meanwhile and stays closed
        io.TextIOWrapper.__init__(stream, buffer, **before)

    return restore
