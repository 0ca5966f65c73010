"""Writes a trace without slowing the conversation down.

Callers pass bytes to a :class:`Recorder` and go on. A thread splits them into lines, redacts values and writes. If the disk is slow
or full, the recording has a gap and an event that reports it; the wire never waits.

This module imports little: a host starts ``twopipes tap`` and waits for it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from queue import Empty, SimpleQueue

TYPE_CHECKING = False  # see twopipes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from twopipes._trace.file import TraceFile
    from twopipes._trace.format import EventName, Header, Kind
    from twopipes._trace.writer import Stream, Writer

# Bytes that may wait for the disk: one line of the largest size that a channel accepts by default.
MAX_QUEUED = 64 * 1024 * 1024
# Bytes that an entry needs in addition to its data, so that a flood of empty lines is bounded as well.
OVERHEAD = 256
# Seconds after which an unfinished line is written, so that a reader who follows the recording sees output without a newline.
PATIENCE = 0.5


class Losses:
    """What is missing in a recording, in total.

    Attributes:
        lines: The number of lines; a piece and an event count as one.
        size: Their size in bytes.
        reason: The last reason, for people.
    """

    lines = 0
    size = 0
    reason = ""

    def __bool__(self) -> bool:
        return self.lines > 0

    def __repr__(self) -> str:
        return f"<Losses of {self.lines} lines, {self.size} bytes: {self.reason or 'none'}>"


class Recorder:
    """Writes a trace in a thread of its own.

    :meth:`chunk`, :meth:`line` and :meth:`event` may be called from any thread and from a signal handler. They neither block nor
    raise: an entry that cannot be queued or written is counted, and the recording has a ``lost`` event in its place.

    Args:
        path: The file. An existing file is renamed: ``x.jsonl`` becomes ``x-1.jsonl``.
        header: The result of :func:`header_for`, or a header.
        redact: Names of members whose values are redacted; see :mod:`twopipes._trace.redact`.
        clock: Returns seconds since any fixed time.
        on_loss: Called once with a sentence when something is lost, in the recorder's thread or by :meth:`close`.
        max_queued: Bytes that may wait for the disk.
        must_open: Open the file now, in the thread of the caller.

    Attributes:
        path: The path of the file.
        losses: What is missing.

    Raises:
        OSError: The file cannot be opened, and ``must_open`` is true.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: Header | Callable[[], Header],
        redact: Iterable[str] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        on_loss: Callable[[str], object] | None = None,
        max_queued: int = MAX_QUEUED,
        must_open: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self.losses = Losses()
        self._header = header
        self._redact = tuple(redact)
        self._clock = clock
        self._began = clock()
        self._on_loss = on_loss
        self._max_queued = max_queued
        self._queue: SimpleQueue[Any] = SimpleQueue()
        # Reentrant, because a signal handler may interrupt any of our methods.
        self._lock = threading.RLock()
        self._put = 0  # total bytes; guarded by the lock
        self._taken = 0  # total bytes; changed only by the thread
        # What did not fit into the queue since the last entry that did: lines, bytes, and whether the last one ended its line.
        self._missing: dict[Stream, tuple[int, int, bool]] = {}
        self._closed = False
        self._abandoned = False
        self._ended = False
        self._on_closed: list[Callable[[], object]] = []
        self._file: TraceFile | None = None
        if must_open:
            self._file = self._open()
        self._thread = threading.Thread(target=self._work, name=f"twopipes trace {self.path}", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # in case the caller does not; the daemon thread does not keep the program alive

    # Entries

    def chunk(self, kind: Kind, data: bytes, *, at: float | None = None, connection: int = 0) -> None:
        """Record bytes, which may be split anywhere and must not change afterwards.

        Args:
            kind: ``>`` client to server, ``<`` server to client, ``!`` stderr.
            data: The bytes.
            at: The time, by the clock of the recorder; now by default.
            connection: The number of the connection, if there are several.
        """
        self._add(kind, data, at, connection, ends_line=False)

    def line(self, kind: Kind, data: bytes, *, at: float | None = None, is_whole: bool = True, connection: int = 0) -> None:
        """Record a line without its newline, or with ``is_whole=False`` a piece of one that continues."""
        self._add(kind, data, at, connection, ends_line=is_whole)

    def event(
        self,
        name: EventName,
        *,
        at: float | None = None,
        connection: int = 0,
        pid: int | None = None,
        stream: Kind | None = None,
        signal: str | None = None,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Record an event; see :class:`twopipes._trace.format.Event`.

        ``event("eof", stream="<")`` also ends an unfinished line.
        """
        members = {"pid": pid, "stream": stream, "signal": signal, "code": code, "reason": reason}
        with self._lock:
            now = self._clock() if at is None else at
            if self._has_room(OVERHEAD):
                self._report_missing(now)
                self._put += OVERHEAD
                self._queue.put((now - self._began, "=", name, members, connection))
            else:
                self._miss((connection, None), 0, ends_line=True)

    def close(self, timeout: float = 2.0) -> bool:
        """Write what is queued, for at most ``timeout`` seconds, and end. Return whether everything is in the file."""
        atexit.unregister(self.close)
        self.finish()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._abandon()
        self._report_losses()
        return not self.losses

    def finish(self, on_closed: Callable[[], object] | None = None) -> None:
        """Accept no more entries, and end when everything is written, without waiting for it.

        ``on_closed`` is called when the recorder has ended, in its thread; or now, if it has ended already.
        """
        with self._lock:
            if on_closed is not None and not self._ended:
                self._on_closed.append(on_closed)
                on_closed = None
            if not self._closed:
                self._report_missing(self._clock())
                self._closed = True
                self._queue.put(None)
        if on_closed is not None:
            on_closed()

    def _add(self, kind: Kind, data: bytes, at: float | None, connection: int, *, ends_line: bool) -> None:
        size = len(data) + OVERHEAD
        with self._lock:
            now = self._clock() if at is None else at
            if self._has_room(size):
                self._report_missing(now)
                self._put += size
                self._queue.put((now - self._began, kind, data, ends_line, connection))
            else:
                self._miss((connection, kind), len(data), ends_line=ends_line or data.endswith(b"\n"), lines=data.count(b"\n"))

    def _has_room(self, size: int) -> bool:
        if self._closed:
            return False
        queued = self._put - self._taken
        if self._missing:
            # One long gap is easier to understand than many small ones.
            return queued <= self._max_queued // 2
        return queued == 0 or queued + size <= self._max_queued

    def _miss(self, stream: Stream, size: int, *, ends_line: bool, lines: int = 1, reason: str = "") -> None:
        lines = max(lines, 1)
        self._count(lines, size, reason or ("the recorder was closed" if self._closed else "the disk is too slow"))
        self._add_missing(stream, lines, size, ends_line=ends_line)

    def _add_missing(self, stream: Stream, lines: int, size: int, *, ends_line: bool) -> None:
        known = self._missing.get(stream, (0, 0, True))
        self._missing[stream] = (known[0] + lines, known[1] + size, ends_line)

    def _report_missing(self, now: float) -> None:
        for stream, (lines, size, ends_line) in self._missing.items():
            self._put += OVERHEAD
            self._queue.put((now - self._began, "=", "lost", (stream, lines, size, ends_line), stream[0]))
        self._missing = {}

    def _count(self, lines: int, size: int, reason: str) -> None:
        with self._lock:
            self.losses.lines += lines
            self.losses.size += size
            self.losses.reason = reason

    # The thread

    def _work(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._count(1, 0, f"the recorder failed: {error!r}")
        finally:
            file, self._file = self._file, None
            if file is not None:
                file.close()
            with self._lock:
                # After a failure there may still be entries in the queue.
                self._closed = True
                self._discard_queue("the recorder has ended")
                self._ended = True
            atexit.unregister(self.close)
            self._report_losses()
            for callback in self._on_closed:
                callback()

    def _write(self) -> None:
        from twopipes._trace.writer import Writer  # in the thread, after the program has started

        writer = Writer(self._header, self._redact, self._count)
        is_over = False
        while not is_over:
            is_over = self._fill(writer)
            if is_over:
                writer.add_unfinished_lines(self._clock() - self._began)
            if self._file is None:
                try:
                    self._file = self._open()
                except OSError as error:
                    # Try again with the next entries: the folder may exist by then.
                    writer.give_up(error)
            if self._file is not None:
                writer.write(self._file)
            self._report_losses()

    def _fill(self, writer: Writer) -> bool:
        """Wait for entries and pass them on. Return whether the last one was among them."""
        try:
            item = self._queue.get(timeout=PATIENCE if writer.has_unfinished_line else None)
        except Empty:
            writer.add_unfinished_lines(self._clock() - self._began)
            return False
        while item is not None:
            self._taken += size_of(item)
            writer.take(item)
            if writer.is_full:
                return False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return False
        return True

    def _open(self) -> TraceFile:
        from twopipes._trace.file import TraceFile  # in the thread, after the program has started

        file = TraceFile(self.path, is_given_up=lambda: self._abandoned)
        self.path = file.path
        return file

    # Failures

    def _abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            self._discard_queue("the disk took too long")
            # The file still gets the event if the disk recovers.
            self._report_missing(self._clock())
            self._queue.put(None)  # the end marker was removed as well

    def _discard_queue(self, reason: str) -> None:
        try:
            while True:
                match self._queue.get_nowait():
                    case (_, "=", "lost", (stream, lines, size, ended_line), _):  # counted already
                        self._add_missing(stream, lines, size, ends_line=ended_line)
                    case (_, "=", _, _, connection):
                        self._miss((connection, None), 0, ends_line=True, reason=reason)
                    case (_, kind, data, ends_line, connection):
                        self._miss((connection, kind), len(data), ends_line=ends_line or data.endswith(b"\n"), reason=reason)
        except Empty:
            pass

    def _report_losses(self) -> None:
        with self._lock:
            callback = self._on_loss
            if not self.losses or callback is None:
                return
            self._on_loss = None
        callback(f"the trace {self.path} is incomplete: {self.losses.reason}")


def size_of(item: Any) -> int:
    """Return how many bytes an entry of the queue counts for."""
    return OVERHEAD if item[1] == "=" else len(item[2]) + OVERHEAD


def header_for(
    recorder: str,
    *,
    argv: Sequence[str] = (),
    target: str = "",
    cwd: str | None = None,
    environment: Iterable[str] | None = None,
    redact: Iterable[str] = (),
    now: float | None = None,
) -> Callable[[], Header]:
    """Return a function that makes the header of a recording that starts now. The recorder calls it in its thread.

    Args:
        recorder: What records: ``tap``, ``client`` or ``server``.
        argv: The command of the server.
        target: The address of the server, if there is no command.
        cwd: The folder that the server starts in; the folder of this process by default.
        environment: The names of the server's environment variables, or a mapping; those of this process by default.
        redact: The names given to the :class:`Recorder`. Values of these names in the command are redacted.
        now: The time in seconds since 1970.
    """
    now = time.time() if now is None else now
    if cwd is None:
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = ""  # the folder was removed
    names = sorted(os.environ if environment is None else environment)
    words, redacted = tuple(argv), tuple(redact)

    def make() -> Header:
        from twopipes._trace.format import VERSION, Header  # loads msgspec, in the thread
        from twopipes._trace.redact import redacted_argv  # loads msgspec, in the thread
        from twopipes._version import __version__

        return Header(
            version=VERSION,
            started=f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z",
            recorder=recorder,
            recorder_version=__version__,
            argv=tuple(map(_printable, redacted_argv(words, redacted))),
            target=_printable(*redacted_argv([target], redacted)),
            cwd=_printable(cwd),
            environment=tuple(map(_printable, names)),
            platform=_platform(),
            redacted=redacted,
        )

    return make


def default_path(name: str, *, now: float | None = None) -> str:
    """Return a new file name in the user's state folder, which is created: ``20260728T101500Z-name-4711.jsonl``.

    Raises:
        OSError: The folder cannot be created.
        RuntimeError: The home folder of the user is unknown.
    """
    from twopipes._process.user_files import state_path  # keeps the start of tap light

    folder = os.path.join(state_path(), "traces")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name).lstrip(".")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    return os.path.join(folder, f"{stamp}-{plain[:60] or 'server'}-{os.getpid()}.jsonl")


def check_redact(trace: object, redact: object) -> None:
    """Raise ``LocalProtocolError`` if ``trace=`` and ``redact=`` would record values that were meant to be redacted."""
    from twopipes.errors import LocalProtocolError  # keeps the start of tap light

    if isinstance(redact, str):
        raise LocalProtocolError(f"redact= must be a list of names, got a string; write redact=[{redact!r}]")
    if isinstance(trace, Recorder):
        raise LocalProtocolError("redact= has no effect on a Recorder in trace=; pass the names to the Recorder: redact=[...]")


def names_to_redact(given: Iterable[str]) -> tuple[str, ...]:
    """Return the given names of members to redact, and those in ``TWOPIPES_REDACT``."""
    named = (name.strip() for name in os.environ.get("TWOPIPES_REDACT", "").split(","))
    return tuple(dict.fromkeys([*given, *filter(None, named)]))


def _printable(text: str) -> str:
    """Escape bytes that are not text: arguments and paths may contain any bytes."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _platform() -> str:
    python = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    if sys.platform == "win32":
        system = sys.platform
    else:
        named = os.uname()
        system = f"{named.sysname} {named.release} {named.machine}"
    return f"{system}, {python}"
