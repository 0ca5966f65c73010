"""Show every message of a server on stderr (``TWOPIPES_TRACE=1``), or record it in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from twopipes._channels.base import Channel
from twopipes._trace.channel import Observer, RecordedChannel
from twopipes._trace.format import Kind
from twopipes._trace.recorder import Recorder, header_for, names_to_redact
from twopipes._trace.redact import Redactor
from twopipes._trace.split_lines import Cutter
from twopipes.errors import LocalProtocolError

# The trace= of run(): a file, "1" for stderr, or a recorder of the caller's.
Trace = str | os.PathLike[str] | Recorder


class Tracing:
    """Observes the channels of one server. ``recorder`` is the observer, if it is ours to close."""

    def __init__(self, observer: Observer, recorder: Recorder | None = None) -> None:
        self.recorder = recorder
        self._observer = observer
        self._connections = 0

    def watch(self, channel: Channel) -> Channel:
        """Wrap a channel as the next connection."""
        number = self._connections
        self._connections += 1
        return RecordedChannel(channel, self._observer, reads=">", connection=number)


def open_tracing(
    wanted: Trace | None, to_stderr: Callable[[str], None], *, redact: Iterable[str] = (), target: str = ""
) -> Tracing | None:
    """Begin to trace, if the program or ``TWOPIPES_TRACE`` asks for it. ``to_stderr`` writes lines, from any thread.

    If the environment names a file that cannot be written, an error is shown, and the server goes on.
    """
    if isinstance(wanted, Recorder):
        return Tracing(wanted)
    asked = os.fspath(wanted or os.environ.get("TWOPIPES_TRACE") or "0")
    if asked == "0":
        return None
    names = names_to_redact(redact)
    if asked == "1":
        return Tracing(_Shown(to_stderr, Redactor(names) if names else None))
    header = header_for("server", argv=sys.orig_argv, target=target, redact=names)
    try:
        recorder = Recorder(asked, header, names, on_loss=lambda reason: to_stderr(f"Warning: {reason}\n"), must_open=True)
    except OSError as error:
        reason = f"the trace cannot be written to {asked}: {error.strerror or error}"
        if wanted:
            raise LocalProtocolError(reason) from error
        to_stderr(f"Error: {reason}\n")
        return None
    return Tracing(recorder, recorder)


class _Shown:
    """Shows each line on stderr."""

    def __init__(self, show: Callable[[str], None], redactor: Redactor | None) -> None:
        self._show = show
        self._redactor = redactor
        self._cutters: dict[tuple[int, Kind], Cutter] = {}

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        cutter = self._cutters.setdefault((connection, kind), Cutter(sys.maxsize))
        for cut in cutter.feed(data):
            self._show_line(kind, cut.data)

    def event(self, name: str, *, connection: int = 0, stream: Kind | None = None, **_: Any) -> None:
        if name == "eof" and stream is not None and (cutter := self._cutters.pop((connection, stream), None)) is not None:
            for cut in cutter.rest():  # FR-15: the last line may have no newline
                self._show_line(stream, cut.data)

    def _show_line(self, kind: Kind, line: bytes) -> None:
        if line:
            if self._redactor is not None:
                line = self._redactor.line(kind, line)
            self._show(f"[TRACE] {kind} {line.decode(errors='backslashreplace')}\n")
