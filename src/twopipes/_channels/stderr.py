"""Standard error that never makes the protocol wait.

Some hosts connect a pipe to our stderr and never read it. After 64 KiB, an ordinary write to it blocks for ever, and with it the
event loop or the tool that only wanted to log a line. A :class:`StderrLog` gives the system what it takes at once, keeps
a bounded rest, drops whole lines beyond that, and says how many as soon as somebody reads again (FR-06).

Whether a descriptor blocks is a property of the *open file description*, which the shell's terminal or our own stdout
(``2>&1``) may share. So no flag of descriptor 2 is ever changed:

================================ =====================================================================================
what stderr is                   how it is written
================================ =====================================================================================
a pipe, a terminal, on Linux     at once, over a non-blocking description of our own opened through ``/proc/self/fd``
a socket                         at once; each call says that it must not block
a regular file                   at once
anything else                    by a daemon thread that blocks in our place
================================ =====================================================================================

:func:`reroute` puts the interpreter's own ``sys.stderr`` on top of it, so that tracebacks, prints and logging handlers
cannot block either. What remains is code that writes to descriptor 2 by its number: a C extension, a child process. It waits,
as it would anywhere, but only the thread or the child that wrote.
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

__all__ = ["LIMIT", "LogStream", "StderrLog", "duplicate", "reroute"]

# Bytes that wait for a reader, on top of what the pipe holds: ten thousand lines, more than a burst before a slow reader.
LIMIT = 1024 * 1024
# Bytes of one write from the backlog. A pipe takes up to this many whole, so that our lines and a child's do not mix.
PIECE = 4096
# Seconds to wait for a thread that is known to have nothing left to do but end. It takes microseconds; this is a net.
ENDING = 1.0
# The highest number that everybody takes for a standard stream.
STANDARD = 2


class StderrLog:
    """Lines for stderr, from any thread, the event loop and signal handlers; writing never blocks and never raises.

    Lines leave in the order in which they were written. When more than ``limit`` bytes wait, further lines are dropped, whole,
    until half of that is free again; then a line of the log says how many are missing. A single line longer than
    the limit is cut. When nobody can read any more (the pipe is broken, the disk is full), lines vanish without a word.

    Args:
        fd: The descriptor to write to. It is duplicated, never changed, and stays open. If it is not open, all lines vanish.
        limit: Bytes to keep while nobody reads.

    Attributes:
        lines_dropped: How many lines were dropped so far because too many were waiting.
    """

    def __init__(self, fd: int = 2, *, limit: int = LIMIT) -> None:
        self.lines_dropped = 0
        self._limit = limit
        self._way = _open_way(fd)
        self._pid = os.getpid()
        self._backlog = bytearray()
        self._thread: threading.Thread | None = None
        # Where close() wakes the thread out of its wait for a reader: the two ends of a pipe.
        self._alarm: tuple[int, int] | None = None
        # Reentrant, because a signal handler or a finalizer may log in the middle of a write of the same thread.
        self._changed = threading.Condition()
        self._closed = False
        # A write of this thread is under way, and whoever interrupts it has to queue behind it.
        self._writing = False
        # The thread is inside a call that may block for as long as nobody reads.
        self._stuck = False
        # Lines dropped since the log last said so.
        self._unsaid = 0
        # The last byte that was accepted did not end a line.
        self._line_open = False

    def write(self, text: str) -> None:
        """Write ``text``, which is whole lines as a rule, in UTF-8 whatever the locale."""
        self.write_bytes(text.encode("utf-8", "backslashreplace"))

    def say(self, lines: str) -> None:
        """Write whole lines of our own, below a line that somebody has left unfinished (a prompt), not at its end."""
        self.write_bytes(lines.encode("utf-8", "backslashreplace"), on_new_line=True)

    def write_bytes(self, data: bytes, *, on_new_line: bool = False) -> None:
        """Write what is encoded already."""
        if os.getpid() != self._pid:
            self._start_over()
        if sys.is_finalizing():
            # Threads were stopped wherever they were, with the lock in their hands perhaps. These are the last words.
            if not self._way.may_block and not self._closed:
                self._send_now(data)
            return
        with self._changed:
            if self._closed or not data:
                return
            if on_new_line and self._line_open and not self._unsaid:  # else the count of dropped lines comes first, on its own line
                data = b"\n" + data
            if self._backlog or self._writing or self._way.may_block:
                self._keep(data)
            else:
                taken = self._send_now(data)
                self._remember_the_end_of(data[:taken])
                if taken < len(data):
                    # In front of what an interruption of this very write may have left there.
                    later = bytes(self._backlog)
                    self._backlog.clear()
                    self._keep(data[taken:])
                    self._backlog += later
            self._own_up()
            if self._backlog:
                self._wake()

    def flush(self, timeout: float = 0.5) -> bool:
        """Wait, for ``timeout`` seconds at most, until the system has taken everything. Return whether it has."""
        if os.getpid() != self._pid:
            self._start_over()
        with self._changed:
            return self._changed.wait_for(lambda: not self._backlog or self._closed, timeout) and not self._backlog

    def close(self) -> None:
        """Drop what still waits, and free everything. Call :meth:`flush` before to keep it. Later lines vanish.

        Where the system left us no way but a thread that blocks, and it does, the thread ends with its current call.
        """
        if os.getpid() != self._pid:
            self._start_over()
        with self._changed:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
            if thread is None:
                self._way.release()
                return
            self._changed.notify_all()
            if self._alarm is not None:
                os.write(self._alarm[1], b"!")
            stuck = self._stuck
        if not stuck:
            thread.join(ENDING)

    def _send_now(self, data: bytes) -> int:
        self._writing = True
        try:
            return self._way.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)
        finally:
            self._writing = False

    def _keep(self, data: bytes) -> None:
        if not self._unsaid:
            room = self._limit - len(self._backlog)
            cut = len(data) if len(data) <= room else data.rfind(b"\n", 0, max(room, 0)) + 1
            self._backlog += data[:cut]
            self._remember_the_end_of(data[:cut])
            data = data[cut:]
        if data:
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            self._unsaid += lines
            self.lines_dropped += lines

    def _remember_the_end_of(self, accepted: bytes) -> None:
        if accepted:
            self._line_open = not accepted.endswith(b"\n")

    def _own_up(self) -> None:
        """Say what is missing, once there is room again."""
        if self._unsaid and len(self._backlog) <= self._limit // 2:
            count, self._unsaid = self._unsaid, 0
            start = "\n" if self._line_open else ""
            lines = "1 line" if count == 1 else f"{count} lines"
            self._backlog += f"{start}... {lines} dropped, because stderr was not read in time\n".encode()
            self._line_open = False

    # The thread. It exists from the first line on that the system did not take at once.

    def _wake(self) -> None:
        if self._thread is not None:
            self._changed.notify_all()
            return
        self._thread = threading.Thread(target=self._drain, name="twopipes writer of stderr", daemon=True)
        # No threads are to be had at the end of the interpreter, and no descriptors where too many are open.
        try:
            if sys.platform != "win32":
                self._alarm = os.pipe()
            self._thread.start()
        except (OSError, RuntimeError):
            self._close_alarm()
            self._thread = None

    def _drain(self) -> None:
        try:
            while (piece := self._next_piece()) is not None:
                if not self._wait_for_a_reader():
                    continue
                taken = self._send_piece(piece)
                with self._changed:
                    del self._backlog[:taken]
                    self._own_up()
                    if not self._backlog:
                        self._changed.notify_all()
        finally:
            self._way.release()
            self._close_alarm()

    def _next_piece(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._backlog or self._closed)
            if self._closed:
                return None
            end = self._backlog.rfind(b"\n", 0, PIECE) + 1
            return bytes(self._backlog[: end or PIECE])

    def _wait_for_a_reader(self) -> bool:
        """Return True when a write may work, False when the alarm was raised."""
        if sys.platform != "win32" and self._alarm is not None:
            poll = select.poll()
            poll.register(self._way.fd, select.POLLOUT)
            poll.register(self._alarm[0], select.POLLIN)
            return self._alarm[0] not in dict(poll.poll())
        return True

    def _send_piece(self, piece: bytes) -> int:
        self._stuck = self._way.may_block
        try:
            return self._way.send(piece)
        except BlockingIOError:
            return 0
        except OSError:
            return len(piece)
        finally:
            self._stuck = False

    def _close_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        for fd in alarm or ():
            os.close(fd)

    def _start_over(self) -> None:
        # In the child of a fork: the thread stayed behind, a lock that it held is held for ever, and what waits is the parent's.
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._backlog = bytearray()
        self._unsaid = 0
        self._writing = False
        self._thread = None
        self._close_alarm()


# How to reach the descriptor


class _Way:
    """A private descriptor and how to use it. Not a named tuple: making the class of one costs more than all other imports."""

    __slots__ = ("fd", "may_block", "release", "send")

    def __init__(self, fd: int, send: Callable[[bytes], int], release: Callable[[], None], *, may_block: bool) -> None:
        self.fd = fd
        self.send = send
        self.release = release
        self.may_block = may_block


def _open_way(fd: int) -> _Way:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return _Way(-1, len, lambda: None, may_block=False)
    if sys.platform != "win32":
        if stat.S_ISSOCK(mode):
            import socket  # noqa: PLC0415 - stderr is seldom one, and this costs every start

            sock = socket.socket(fileno=duplicate(fd))
            if sock.gettimeout() is not None:
                sock.settimeout(None)  # A program that called socket.setdefaulttimeout() meant its own sockets.
            return _Way(sock.fileno(), lambda data: sock.send(data, socket.MSG_DONTWAIT), sock.close, may_block=False)
        if (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)) and (reopened := _reopen(fd)) is not None:
            return _Way(reopened, partial(os.write, reopened), partial(os.close, reopened), may_block=False)
    private = duplicate(fd)
    return _Way(private, partial(os.write, private), partial(os.close, private), may_block=not stat.S_ISREG(mode))


if sys.platform != "win32":

    def _reopen(fd: int) -> int | None:
        """Return a non-blocking descriptor of a description of our own, or None where that cannot be had."""
        path = f"/proc/self/fd/{fd}"
        try:
            if os.readlink(path).endswith("ptmx"):
                return None
            opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            # No /proc (macOS, a sandbox), or it was made by another user, or nobody holds the other end.
            return None
        if opened > STANDARD:
            return opened
        private = duplicate(opened)
        os.close(opened)
        return private


def duplicate(fd: int) -> int:
    """Return a duplicate that children do not inherit, with a number that nobody takes for a standard stream."""
    low = []
    while (private := os.dup(fd)) <= STANDARD:
        low.append(private)
    for each in low:
        os.close(each)
    return private


# The interpreter's own streams


class LogStream(io.RawIOBase):
    """The bytes under a text stream: they go to a :class:`StderrLog`, while ``fileno()`` names the standard descriptor."""

    mode = "wb"

    def __init__(self, log: StderrLog, fd: int, name: str) -> None:
        super().__init__()
        self.name = name
        self._log = log
        self._fd = fd

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """Return the number of the standard descriptor, for whoever passes the stream to a child process."""
        return self._fd

    def isatty(self) -> bool:
        """Tell whether a person may be looking."""
        return os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        """Hand the bytes to the log, all of them, at once."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        taken = bytes(data)
        self._log.write_bytes(taken)
        return len(taken)


def reroute(name: str, raw: LogStream) -> Callable[[], None]:
    """Make ``sys.stderr`` (or ``sys.stdout``) write to ``raw``, line by line and in UTF-8; return what undoes it.

    The stream objects stay the same, and only what is under them is exchanged: a logging handler, or anybody else who took
    ``sys.stderr`` before, is rerouted as well. A stream that somebody replaced by one which does not write to the
    descriptor of ``raw`` (a test's capture) is left alone, and where there is none, one is made. To undo it, the
    descriptor must be again what it was: a stream over a file asks where in the file it stands.
    """
    undo = ExitStack()
    for attribute in (f"__{name}__", name):
        stream = getattr(sys, attribute)
        if stream is None:
            setattr(sys, attribute, io.TextIOWrapper(raw, **_LINES_IN_UTF8))
            undo.callback(setattr, sys, attribute, None)
        elif isinstance(stream, io.TextIOWrapper) and not _is_over(stream, raw) and _descriptor_of(stream) == raw.fileno():
            with suppress(OSError, ValueError):
                undo.callback(_exchange(stream, raw))
    return undo.close


_LINES_IN_UTF8: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "line_buffering": True}


def _is_over(stream: io.TextIOWrapper, raw: LogStream) -> bool:
    with suppress(ValueError):
        return stream.buffer is raw
    return False


def _descriptor_of(stream: io.TextIOWrapper) -> int | None:
    with suppress(OSError, ValueError):
        return stream.fileno()
    return None


def _exchange(stream: io.TextIOWrapper, raw: LogStream) -> Callable[[], None]:
    before: dict[str, Any] = {
        "encoding": stream.encoding,
        "errors": stream.errors,
        "line_buffering": stream.line_buffering,
        "write_through": stream.write_through,
    }
    buffer = stream.detach()
    # A stream without its buffer may be given a new one by starting it anew. This is how everyone who holds it is reached.
    io.TextIOWrapper.__init__(stream, raw, **_LINES_IN_UTF8)

    def put_back() -> None:
        try:
            stream.detach()
        except ValueError:
            return  # Somebody closed it meanwhile, and so it stays.
        io.TextIOWrapper.__init__(stream, buffer, **before)

    return put_back
