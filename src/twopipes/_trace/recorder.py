"""Writing a trace, beside a conversation that must not notice it.

Whoever sees bytes hands them to a :class:`Recorder` and goes on. A thread cuts them into lines, blanks what must not be kept and
writes. It may be slow, or unable to: then the recording lacks something and says so, and the wire never waits.

What is imported here at once is what a program has at its start anyway: ``twopipes tap`` is launched by hosts, which wait for it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from _queue import Empty, SimpleQueue  # the two that the module queue wraps, at a price

TYPE_CHECKING = False  # see twopipes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from twopipes._trace.file import TraceFile
    from twopipes._trace.format import EventName, Header, Kind
    from twopipes._trace.writer import Stream, Writer

__all__ = ["MAX_QUEUED", "Losses", "Recorder", "check_redact", "default_path", "header_for", "names_to_redact"]

# Bytes that may wait for the disk: one line of the largest size that a channel takes by default. A disk that is so much behind
# is not slow but stuck.
MAX_QUEUED = 64 * 1024 * 1024
# Bytes that an entry costs beside its data. A flood of empty lines is bounded, too.
OVERHEAD = 256
# Seconds after which the begin of a line is written though its end has not come. Whoever follows the recording of a server that
# forgot a newline sees what it wrote.
PATIENCE = 0.5


class Losses:
    """What a recording lacks, all in all.

    Attributes:
        lines: How many lines; pieces and events count as one each.
        size: How many bytes of them.
        reason: Why, in words, as it was last.
    """

    __slots__ = ("lines", "reason", "size")

    def __init__(self) -> None:
        self.lines = 0
        self.size = 0
        self.reason = ""

    def __bool__(self) -> bool:
        return self.lines > 0

    def __repr__(self) -> str:
        return f"<Losses of {self.lines} lines, {self.size} bytes: {self.reason or 'none'}>"


class Recorder:
    """Writes a trace from a thread of its own.

    :meth:`chunk`, :meth:`line` and :meth:`event` may be called from any thread and from a signal handler. They neither wait nor
    raise: what finds no room or no disk is counted, and the recording has a ``lost`` event in its place.

    Args:
        path: The file. One that is there already keeps its content under another name: ``x.jsonl`` becomes ``x-1.jsonl``.
        header: As :func:`header_for` makes it, or one that is ready.
        redact: Names of members whose values are blanked; see :mod:`twopipes._trace.redact`.
        clock: Seconds, from any start.
        on_loss: Told once, with a sentence, that something is lost. Called in the recorder's thread, or by :meth:`close`.
        max_queued: Bytes that may wait for the disk.
        must_open: Open the file at once, in the thread of the caller.

    Attributes:
        path: Where it is.
        losses: What it lacks.

    Raises:
        OSError: The file cannot be opened, and ``must_open`` was asked for.
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
        # One that its own thread may take again: a signal handler comes in the middle of anything.
        self._lock = threading.RLock()
        self._put = 0  # bytes, all in all; changed by whoever holds the lock
        self._taken = 0  # bytes, all in all; changed by the thread alone
        # What found no room since the last entry that did: lines, bytes, and whether the last of it ended its line.
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
        atexit.register(self.close)  # for whoever forgets it; its thread does not keep a program from ending

    # What happens

    def chunk(self, kind: Kind, data: bytes, *, at: float | None = None, connection: int = 0) -> None:
        """Takes bytes of one direction as they came, cut anywhere.

        Args:
            kind: ``>`` client to server, ``<`` server to client, ``!`` stderr.
            data: Bytes that nobody changes afterwards.
            at: When, by the clock of the recorder; now if it is left out.
            connection: Which one, where there are several.
        """
        self._take(kind, data, at, connection, ends_line=False)

    def line(self, kind: Kind, data: bytes, *, at: float | None = None, is_whole: bool = True, connection: int = 0) -> None:
        """Takes a line without its newline, or with ``is_whole=False`` a piece of one that goes on."""
        self._take(kind, data, at, connection, ends_line=is_whole)

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
        """Takes something that happened beside the lines; see :class:`twopipes._trace.format.Event`.

        ``event("eof", stream="<")`` also ends a line that lacks its newline.
        """
        members = {"pid": pid, "stream": stream, "signal": signal, "code": code, "reason": reason}
        with self._lock:
            now = self._clock() if at is None else at
            if self._has_room(OVERHEAD):
                self._tell_what_is_missing(now)
                self._put += OVERHEAD
                self._queue.put((now - self._began, "=", name, members, connection))
            else:
                self._miss((connection, None), 0, ends_line=True)

    def close(self, timeout: float = 2.0) -> bool:
        """Writes what there is, for so long at most, and ends. Calling it again changes nothing.

        Returns:
            Whether everything is in the file.
        """
        atexit.unregister(self.close)
        self.finish()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._abandon()
        self._complain()
        return not self.losses

    def finish(self, on_closed: Callable[[], object] | None = None) -> None:
        """Takes nothing any more, and ends when everything is written; does not wait for that.

        Args:
            on_closed: Called when it has ended, in its thread; or now, if it has ended already.
        """
        with self._lock:
            if on_closed is not None and not self._ended:
                self._on_closed.append(on_closed)
                on_closed = None
            if not self._closed:
                self._tell_what_is_missing(self._clock())
                self._closed = True
                self._queue.put(None)
        if on_closed is not None:
            on_closed()

    def _take(self, kind: Kind, data: bytes, at: float | None, connection: int, *, ends_line: bool) -> None:
        size = len(data) + OVERHEAD
        with self._lock:
            now = self._clock() if at is None else at
            if self._has_room(size):
                self._tell_what_is_missing(now)
                self._put += size
                self._queue.put((now - self._began, kind, data, ends_line, connection))
            else:
                self._miss((connection, kind), len(data), ends_line=ends_line or data.endswith(b"\n"), lines=data.count(b"\n"))

    def _has_room(self, size: int) -> bool:
        if self._closed:
            return False
        queued = self._put - self._taken
        if self._missing:
            # One gap of some length is easier to understand than many small ones.
            return queued <= self._max_queued // 2
        return queued == 0 or queued + size <= self._max_queued

    def _miss(self, stream: Stream, size: int, *, ends_line: bool, lines: int = 1, reason: str = "") -> None:
        lines = max(lines, 1)
        self._count(lines, size, reason or ("the recorder was closed" if self._closed else "the disk is too slow"))
        known = self._missing.get(stream, (0, 0, True))
        self._missing[stream] = (known[0] + lines, known[1] + size, ends_line)

    def _tell_what_is_missing(self, now: float) -> None:
        if self._missing:
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
                # Only where it failed: nobody takes anything out any more.
                self._closed = True
                self._empty_the_queue("the recorder has ended")
                self._ended = True
            atexit.unregister(self.close)
            self._complain()
            for tell in self._on_closed:
                tell()

    def _write(self) -> None:
        from twopipes._trace.writer import Writer  # noqa: PLC0415 - whoever is recorded has begun by now

        writer = Writer(self._header, self._redact, self._count)
        is_over = False
        while not is_over:
            is_over = self._fill(writer)
            if is_over:
                writer.end(self._clock() - self._began)
            if self._file is None:
                try:
                    self._file = self._open()
                except OSError as error:
                    # Tried again with what comes next: somebody may make the folder.
                    writer.give_up(error)
            if self._file is not None:
                writer.write(self._file)
            self._complain()

    def _fill(self, writer: Writer) -> bool:
        """Waits for something, and takes what is there; tells whether that was the last."""
        try:
            item = self._queue.get(timeout=PATIENCE if writer.has_begun else None)
        except Empty:
            writer.take_half_lines(self._clock() - self._began)
            return False
        while item is not None:
            self._taken += OVERHEAD if item[1] == "=" else len(item[2]) + OVERHEAD
            writer.take(item)
            if writer.is_full:
                return False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return False
        return True

    def _open(self) -> TraceFile:
        from twopipes._trace.file import TraceFile  # noqa: PLC0415 - as above

        file = TraceFile(self.path, is_given_up=lambda: self._abandoned)
        self.path = file.path
        return file

    # When it goes wrong

    def _abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            self._empty_the_queue("the disk took too long")
            # Told by the file all the same, if the disk wakes up after all.
            self._tell_what_is_missing(self._clock())
            self._queue.put(None)  # the last was taken out, too

    def _empty_the_queue(self, reason: str) -> None:
        try:
            while True:
                match self._queue.get_nowait():
                    case (_, "=", "lost", (stream, lines, size, ended_line), _):  # counted already
                        known = self._missing.get(stream, (0, 0, True))
                        self._missing[stream] = (known[0] + lines, known[1] + size, ended_line)
                    case (_, "=", _, _, connection):
                        self._miss((connection, None), 0, ends_line=True, reason=reason)
                    case (_, kind, data, ends_line, connection):
                        self._miss((connection, kind), len(data), ends_line=ends_line or data.endswith(b"\n"), reason=reason)
        except Empty:
            pass

    def _complain(self) -> None:
        with self._lock:
            tell = self._on_loss
            if not self.losses or tell is None:
                return
            self._on_loss = None
        tell(f"the trace {self.path} is not complete: {self.losses.reason}")


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
    """What there is to say about a recording that begins now. Making a header of it is left to the recorder's thread.

    Args:
        recorder: Who records: ``tap``, ``client`` or ``server``.
        argv: The command of the server.
        target: What is talked to, where there is no command.
        cwd: The folder that the server starts in; that of this process if it is left out.
        environment: The names of the variables that the server gets; a mapping will do, its values are not looked at. Those of
            this process if it is left out.
        redact: As given to the :class:`Recorder`. Values in the command by these names are blanked.
        now: Seconds since 1970.
    """
    now = time.time() if now is None else now
    if cwd is None:
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = ""  # it was removed
    names = sorted(os.environ if environment is None else environment)
    words, redacted = tuple(argv), tuple(redact)

    def make() -> Header:
        from twopipes._trace.format import VERSION, Header  # noqa: PLC0415 - see above
        from twopipes._trace.redact import redacted_argv  # noqa: PLC0415 - see above
        from twopipes._version import __version__  # noqa: PLC0415 - see above

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
    """A fresh file in the user's state folder, which is made if need be: ``20260728T101500Z-name-4711.jsonl``.

    Args:
        name: Of the command that is recorded.
        now: Seconds since 1970.

    Raises:
        OSError: The folder cannot be made.
        RuntimeError: Nobody knows where this user is at home.
    """
    from twopipes._process.state_folder import state_path  # noqa: PLC0415 - only where it is wanted

    folder = os.path.join(state_path(), "traces")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name).lstrip(".")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    return os.path.join(folder, f"{stamp}-{plain[:60] or 'server'}-{os.getpid()}.jsonl")


def check_redact(trace: object, redact: object) -> None:
    """Looks at what a program gave as ``trace=`` and ``redact=``.

    Raises:
        LocalProtocolError: Something would be recorded that was meant to be blanked.
    """
    from twopipes.errors import LocalProtocolError  # noqa: PLC0415 - see above

    if isinstance(redact, str):
        raise LocalProtocolError(f"redact= is a list of names; write redact=[{redact!r}]")
    if isinstance(trace, Recorder):
        raise LocalProtocolError("redact= is for a file that is named by trace=; give the names to your Recorder: redact=[...]")


def names_to_redact(given: Iterable[str]) -> tuple[str, ...]:
    """The members to blank in a recording that begins here: those that the program names, and those of ``TWOPIPES_REDACT``."""
    named = (name.strip() for name in os.environ.get("TWOPIPES_REDACT", "").split(","))
    return tuple(dict.fromkeys([*given, *filter(None, named)]))


def _printable(text: str) -> str:
    """What the system takes for a name need not be text."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _platform() -> str:
    python = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    if sys.platform == "win32":
        system = sys.platform
    else:
        named = os.uname()
        system = f"{named.sysname} {named.release} {named.machine}"
    return f"{system}, {python}"
