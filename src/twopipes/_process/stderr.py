"""A child's stderr: always drained, so that the child never blocks on it, with only the last lines kept.

What a server wrote there is the only explanation of a crash, so the last lines are kept for the error message under every policy.
One turn of the event loop reads at most the capacity of a pipe: a child that floods its stderr neither delays other tasks
nor uses memory.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Literal, Protocol

from msgspec import Struct

from twopipes._channels.base import READ_SIZE
from twopipes._channels.stderr import StderrLog
from twopipes._process.user_files import open_private
from twopipes.errors import LocalProtocolError

KIB = 1024
# Lines and bytes of the tail. A Python traceback through an async framework has about 100 lines.
MAX_LINES = 200
MAX_BYTES = 64 * KIB
# Bytes. Longer lines are cut, so that a JSON dump does not push everything else out of the tail.
MAX_LINE = 8 * KIB
CUT_MARK = " ... (cut)"
# Bytes to read at most when the child has exited: the largest capacity that an unprivileged user can give a Linux pipe.
LAST_READ = 1024 * KIB
# Seconds to wait for a slow reader of our own stderr when the child has exited.
FLUSH = 0.1
# Seconds without output after which a thread that reads is taken to have read everything that a child wrote before it exited. EOF
# normally comes in microseconds; only a grandchild that keeps stderr open makes us wait that long.
QUIET = 0.05


class StderrLine(Struct, frozen=True):
    """One line of a child's stderr, and the time it was read on the event loop's clock."""

    time: float
    text: str


StderrPolicy = Literal["tail", "inherit", "discard"] | Path | IO[Any] | Callable[[StderrLine], Any]
"""What happens to a child's stderr, in addition to keeping its tail.

``tail``: nothing. ``inherit``: copied to our own stderr. A ``Path``: appended to that file. An open file: written to it in the
event loop, so its ``write`` should not block. A function: called in the event loop with each :class:`StderrLine`. ``discard``: sent
to the null device, and no tail is kept.
"""


class StderrTail:
    """The last lines of a child's stderr, bounded in lines and in bytes.

    Args:
        max_lines: How many lines are kept.
        max_bytes: How many bytes are kept in total.
        max_line: Bytes per line; longer lines are cut.
        on_line: Called with every line, including those that are not kept. It must not raise; see :class:`Listeners`.

    Attributes:
        first_at: When the first bytes arrived, on the event loop's clock; ``None`` before that.
        last_at: When the last bytes arrived.
        received: Total number of bytes.
        dropped: Number of lines that are no longer in the tail.
    """

    def __init__(
        self,
        *,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
        max_line: int = MAX_LINE,
        on_line: Callable[[StderrLine], object] | None = None,
    ) -> None:
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.received = 0
        self.dropped = 0
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._max_line = max_line
        self._on_line = on_line
        self._kept: deque[bytes] = deque()
        self._size = 0
        # The unfinished line: at most one byte more than the limit, which shows that it was cut.
        self._open = b""

    def lines(self, count: int | None = None) -> list[str]:
        """Return the last lines, at most ``count``, with the unfinished one. Bytes that are not UTF-8 are replaced."""
        found = [*self._kept, self._open] if self._open else list(self._kept)
        if count is not None:
            found = found[max(len(found) - count, 0) :]
        return [self._text(line) for line in found]

    def feed(self, data: bytes, now: float) -> None:
        """Add the next bytes."""
        if not data:
            return
        if self.first_at is None:
            self.first_at = now
        self.last_at = now
        self.received += len(data)
        lines = data.split(b"\n")
        lines[0] = self._open + lines[0]
        self._open = lines.pop()[: self._max_line + 1]
        self._keep(lines, now)

    def finish(self, now: float) -> None:
        """Handle EOF: a last line without a newline is a line too."""
        if self._open:
            line, self._open = self._open, b""
            self._keep([line], now)

    def _keep(self, lines: list[bytes], now: float) -> None:
        # Of a flood only the end is examined: 100,000 lines per second must not cost more than splitting them.
        surplus = len(lines) - self._max_lines
        if surplus > 0:
            self.dropped += surplus
        for line in lines[max(surplus, 0) :]:
            # A copy of the part that is kept, so that the tail does not hold the whole buffer in memory.
            kept = line[: self._max_line + 1]
            self._kept.append(kept)
            self._size += len(kept)
        while len(self._kept) > self._max_lines or (self._size > self._max_bytes and len(self._kept) > 1):
            self._size -= len(self._kept.popleft())
            self.dropped += 1
        if self._on_line is not None:
            for line in lines:
                self._on_line(StderrLine(now, self._text(line)))

    def _text(self, line: bytes) -> str:
        if len(line) > self._max_line:
            return line[: self._max_line].decode("utf-8", "replace") + CUT_MARK
        return line.removesuffix(b"\r").decode("utf-8", "replace")


class Listeners:
    """Calls several functions with every line. The first failure is reported; later lines are still delivered."""

    def __init__(self, functions: Sequence[Callable[[StderrLine], object]], loop: asyncio.AbstractEventLoop) -> None:
        self._functions = functions
        self._loop = loop
        self._reported = False

    def __call__(self, line: StderrLine) -> None:
        for function in self._functions:
            try:
                function(line)
            except Exception as error:
                if not self._reported and not self._loop.is_closed():
                    self._reported = True
                    message = "a listener for the stderr of a child failed; the lines are still kept"
                    self._loop.call_exception_handler({"message": message, "exception": error})


def check_policy(policy: Any) -> None:
    """Raise ``LocalProtocolError`` if this is not a stderr policy."""
    if policy in ("tail", "inherit", "discard") or isinstance(policy, Path) or callable(policy) or hasattr(policy, "write"):
        return
    hint = f"; for a file pass Path({policy!r})" if isinstance(policy, str) else ""
    raise LocalProtocolError(
        f"stderr={policy!r} is not one of 'tail', 'inherit', 'discard', a Path, an open file or a function that takes a line{hint}"
    )


class Copier(Protocol):
    """Passes on a child's stderr as it arrives, without blocking. A failure affects neither the child nor us."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class _LogCopier:
    """Copies to a descriptor that may be slow, full or broken: our stderr, or a file, which may be a pipe without a reader."""

    def __init__(self, fd: int) -> None:
        self._log = StderrLog(fd)

    def write(self, data: bytes) -> None:
        self._log.write_bytes(data)

    def close(self) -> None:
        self._log.flush(FLUSH)
        self._log.close()


class _FileCopier:
    """Copies to a file object of the caller, which is flushed after each write and stays open."""

    def __init__(self, file: Any) -> None:
        self._file = file
        is_text = isinstance(file, io.TextIOBase) or hasattr(file, "encoding")
        # Joins a character that was split between two reads. On Windows a text file writes its own line ends.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=sys.platform == "win32") if is_text else None

    def write(self, data: bytes) -> None:
        # A full disk, a closed file, a custom file object.
        with suppress(Exception):
            self._file.write(data if self._decoder is None else self._decoder.decode(data))
            self._file.flush()

    def close(self) -> None:
        with suppress(Exception):
            if self._decoder is not None and (rest := self._decoder.decode(b"", final=True)):
                self._file.write(rest)
                self._file.flush()


def copier_for(policy: StderrPolicy) -> Copier | None:
    """Return the copier for a policy, or ``None`` if it needs no copy. Raises ``OSError`` if the file cannot be opened."""
    if policy == "inherit":
        return _LogCopier(2)
    if isinstance(policy, Path):
        # Private, because programs write secrets to stderr. Non-blocking, so that a FIFO without a reader does not block us.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        if sys.platform != "win32":
            flags |= os.O_NONBLOCK
        fd = open_private(policy, flags)
        try:
            return _LogCopier(fd)  # it duplicates the descriptor
        finally:
            os.close(fd)
    if isinstance(policy, str) or not hasattr(policy, "write"):
        return None
    return _FileCopier(policy)


class StderrReader:
    """Drains the pipe of a child's stderr into its tail and an optional copier.

    The event loop does this in a callback, not in a task, so that no cancellation can stop it. On Windows, where an event loop
    cannot watch a pipe, a daemon thread reads one chunk at a time.

    Attributes:
        is_open: Whether more data may arrive. At EOF and by :meth:`close`, the descriptor and the copier are closed.
    """

    def __init__(
        self,
        fd: int,
        tail: StderrTail,
        *,
        loop: asyncio.AbstractEventLoop,
        copier: Copier | None = None,
        on_data: Callable[[bytes], object] | None = None,
        by_thread: bool = sys.platform == "win32",
    ) -> None:
        self._fd = fd
        self._tail = tail
        self._loop = loop
        self._copier = copier
        self._on_data = on_data
        self.is_open = True
        self._thread: threading.Thread | None = None
        # What the thread has read and the loop has not taken: at most one chunk.
        self._chunks: SimpleQueue[bytes] = SimpleQueue()
        self._next = threading.Event()
        if by_thread or sys.platform == "win32":
            self._thread = threading.Thread(target=self._read_in_thread, name=f"twopipes reader of stderr fd {fd}", daemon=True)
            self._thread.start()
        else:
            os.set_blocking(fd, False)
            loop.add_reader(fd, self._read_some)

    def read_available(self) -> None:
        """Read everything that the child has written so far. A thread that reads is given :data:`QUIET` seconds for each chunk."""
        read_more = self._read_some if self._thread is None else self._take_next
        before = self._tail.received
        while self.is_open and self._tail.received - before < LAST_READ and read_more():
            pass

    def close(self) -> None:
        """Stop reading and free all resources. A second call does nothing."""
        if not self.is_open:
            return
        self.is_open = False
        if self._thread is None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
        else:
            self._next.set()
        self._tail.finish(self._loop.time())
        if self._copier is not None:
            self._copier.close()

    def _read_some(self) -> bool:
        try:
            data = os.read(self._fd, READ_SIZE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        if not self.is_open:
            return
        if not data:
            self.close()
            return
        if self._on_data is not None:
            self._on_data(data)
        if self._copier is not None:
            self._copier.write(data)
        self._tail.feed(data, self._loop.time())

    def _read_in_thread(self) -> None:
        try:
            while self.is_open:
                try:
                    data = os.read(self._fd, READ_SIZE)
                except OSError:
                    data = b""
                self._next.clear()
                self._chunks.put(data)
                try:
                    self._loop.call_soon_threadsafe(self._take_next, 0.0)
                except RuntimeError:
                    return  # the loop is closed
                if not data:
                    return
                # Read the next chunk only when this one is handled, so that a flood stays in the pipe and not in our memory.
                self._next.wait()
        finally:
            os.close(self._fd)

    def _take_next(self, seconds: float = QUIET) -> bool:
        """Take the next chunk of the thread, if one comes in time."""
        try:
            data = self._chunks.get(timeout=seconds) if seconds else self._chunks.get_nowait()
        except Empty:
            return False  # read_available() has taken it
        self._take(data)
        self._next.set()
        return bool(data)
