"""Bytes to lines and back: the framing of every revision (section FR of the rules).

A message is one line: UTF-8 JSON ended by a newline (FR-01). :class:`LineDecoder` takes bytes as they come, cut anywhere
(FR-13), and gives back whole lines; what cannot be a message comes out as :class:`LineRejected`, and the next line is served.

The decoder is linear in time and bounded in memory. Only new bytes are searched for a newline, each byte is copied into the
buffer once and out of it once, and a line past the limit is dropped while it is still arriving.
"""

from __future__ import annotations

import codecs
from typing import Any, Final, Literal

import msgspec

from twopipes._codes import INVALID_REQUEST, PARSE_ERROR
from twopipes.errors import LocalProtocolError, RequestId
from twopipes.settings import Limits

__all__ = ["LineDecoder", "LineRejected", "encode_line"]

Reason = Literal["too long", "not UTF-8", "not JSON", "too deep", "not an object", "not JSON-RPC"]

_BOM: Final = codecs.BOM_UTF8
# How much of a line is held as text at once while its UTF-8 is checked.
_CHECKED_AT_ONCE: Final = 64 * 1024
# How much of the end of a dropped line is kept: the TypeScript SDK writes the id last.
_TAIL: Final = 256
# A byte order mark before a line and a \r after it.
_UNCOUNTED: Final = len(_BOM) + 1
_KEPT_TAIL: Final = _TAIL + 1


class LineRejected(msgspec.Struct, frozen=True, kw_only=True):
    """A line, or one member of a batch, that is not a message. The line after it is served as if nothing happened (JR-20).

    Attributes:
        reason: Which test it failed.
        detail: What exactly was found, in words, for the error message.
        excerpt: The first bytes of it, bounded by ``Limits.max_excerpt``.
        tail: The last bytes, for a line that could not be read to its end.
        size: Its length in bytes, without the newline.
        request_id: The id to answer with, where one could be read.
        is_response: It was meant as an answer to us, so it must not be answered itself.
        is_notification: It was meant as a notification, so it must not be answered either (JR-10).
    """

    reason: Reason
    detail: str
    excerpt: bytes
    size: int
    tail: bytes = b""
    request_id: RequestId | None = None
    is_response: bool = False
    is_notification: bool = False

    @property
    def code(self) -> int:
        """The JSON-RPC code for an answer: no JSON at all (ER-01), or JSON of the wrong shape (ER-02)."""
        return PARSE_ERROR if self.reason in {"not UTF-8", "not JSON"} else INVALID_REQUEST

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class LineDecoder:
    r"""Cuts a stream of bytes into lines.

    Tolerated on input and never produced (FR-15): ``\r`` before the newline, blank lines, a byte order mark at the start of
    the stream, a last line without a newline.

    Args:
        max_line: The longest line to hold, in bytes; ``None`` for no limit.
        max_excerpt: How much of a refused line is kept for the report.
    """

    __slots__ = ("_at_start", "_buffer", "_dropped", "_kept_head", "_max_excerpt", "_max_line", "_tail")

    def __init__(self, *, max_line: int | None = Limits().max_line, max_excerpt: int = Limits().max_excerpt) -> None:
        self._max_line = max_line
        self._max_excerpt = max_excerpt
        self._kept_head = max_excerpt + len(_BOM)
        # The line that has no newline yet. While a line is being dropped, only its head.
        self._buffer = bytearray()
        self._dropped = 0
        self._tail = b""
        self._at_start = True

    @property
    def held(self) -> int:
        """Bytes held of a line that is not complete yet."""
        return len(self._buffer) + len(self._tail)

    def feed(self, data: bytes) -> list[bytes | LineRejected]:
        """Takes the next bytes, however they were cut, and returns the lines that they complete, without their newlines."""
        end = data.find(b"\n")
        if end < 0:
            self._hold(data)
            return []
        events: list[bytes | LineRejected] = []
        if end == len(data) - 1 and not self._buffer:  # one whole message, as a peer that flushes each one writes it
            self._take(data[:end], events)
            return events
        start = 0
        if self._buffer or self._dropped:
            self._hold(memoryview(data)[:end])
            self._take_held(events)
            start = end + 1
        # What is left of the data starts a line of its own: cut it in C, copying each byte once.
        lines = data[start:].split(b"\n") if start else data.split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._take(line, events)
        if rest:
            self._hold(rest)
        return events

    def finish(self) -> list[bytes | LineRejected]:
        """Takes the end of the stream and returns the last line, if there is one without its newline (FR-15)."""
        events: list[bytes | LineRejected] = []
        if self._buffer or self._dropped:
            self._take_held(events)
        return events

    def _hold(self, data: bytes | memoryview) -> None:
        """Keeps the start of a line whose end has not come, or counts it away once it is past the limit."""
        if not self._dropped:
            limit = self._max_line
            # A little more than the limit is held, because a BOM and a \r do not count.
            if limit is None or len(self._buffer) + len(data) <= limit + _UNCOUNTED:
                self._buffer += data
                return
            # From here on only both ends are kept. A new buffer: shortening the old one would keep its memory.
            self._dropped = len(self._buffer)
            self._tail = bytes(self._buffer[-_KEPT_TAIL:])
            self._buffer = self._buffer[: self._kept_head]
        missing = self._kept_head - len(self._buffer)
        if missing > 0:
            self._buffer += data[:missing]
        self._dropped += len(data)
        self._tail = (self._tail + bytes(data[-_KEPT_TAIL:]))[-_KEPT_TAIL:]

    def _take_held(self, events: list[bytes | LineRejected]) -> None:
        if self._dropped:
            self._take_dropped(events)
            return
        line = bytes(self._buffer)
        self._buffer = bytearray()  # released before the line is looked at: two copies are the peak
        self._take(line, events)

    def _take_dropped(self, events: list[bytes | LineRejected]) -> None:
        """Reports a line of which only both ends are left, in the same words as one that was dropped whole."""
        head, tail, size = bytes(self._buffer), self._tail, self._dropped
        self._buffer = bytearray()
        self._tail = b""
        self._dropped = 0
        if self._at_start and head.startswith(_BOM):
            head = head[len(_BOM) :]
            size -= len(_BOM)
        self._at_start = False
        if tail.endswith(b"\r"):
            tail = tail[:-1]
            size -= 1
        events.append(self._too_long(head[: min(size, self._max_excerpt)], tail[-min(size, _TAIL) :], size))

    def _take(self, line: bytes, events: list[bytes | LineRejected]) -> None:
        """Judges one whole line and appends it, or why not, to the events."""
        start = 0
        if self._at_start:
            self._at_start = False
            if line.startswith(_BOM):
                start = len(_BOM)
        if line.endswith(b"\r"):
            line = line[start:-1]
        elif start:
            line = line[start:]
        if self._max_line is not None and len(line) > self._max_line:
            events.append(self._too_long(line[: self._max_excerpt], line[-_TAIL:], len(line)))
        elif not line or line.isspace():
            return
        elif line.isascii() or (bad := _first_byte_not_utf8(line)) < 0:
            events.append(line)
        else:
            events.append(
                LineRejected(
                    reason="not UTF-8",
                    detail=f"byte {bad} of the line (0x{line[bad]:02x}) does not belong to a UTF-8 character",
                    excerpt=line[: self._max_excerpt],
                    tail=line[-_TAIL:],
                    size=len(line),
                )
            )

    def _too_long(self, head: bytes, tail: bytes, size: int) -> LineRejected:
        return LineRejected(
            reason="too long",
            detail=f"a line of {size:,} bytes; the limit is {self._max_line:,}",
            excerpt=head,
            tail=tail,
            size=size,
        )


def _first_byte_not_utf8(line: bytes) -> int:
    """Where a line stops being UTF-8, or -1. Goes in steps, because one emoji makes a decoded ASCII text four times as large."""
    checked = 0
    while checked < len(line):
        chunk = line[checked : checked + _CHECKED_AT_ONCE]
        try:
            # Without `final`, a character that the cut halves is left for the next step.
            checked += codecs.utf_8_decode(chunk, "strict", checked + len(chunk) == len(line))[1]
        except UnicodeDecodeError as error:
            return checked + error.start
    return -1


_encoder = msgspec.json.Encoder()


def encode_line(message: Any) -> bytes:
    """Writes one message as one line of UTF-8 (FR-01 to FR-03), newline included.

    A string may hold anything Python lets it hold: newlines leave as JSON escapes, and a lone surrogate, which has no UTF-8
    form, as U+FFFD. ``NaN`` and the infinities leave as ``null``, since JSON has no word for them.

    Raises:
        LocalProtocolError: The message holds something that JSON cannot: an object of no known type, an integer past
            Python's conversion limit, a structure that contains itself.
    """
    try:
        try:
            line = _encoder.encode_lines([message])  # the newline comes without a second copy of the message
        except UnicodeEncodeError:
            plain = msgspec.to_builtins(message, builtin_types=(msgspec.Raw,))
            line = _encoder.encode_lines([_without_lone_surrogates(plain)])
        if line.find(b"\n") != len(line) - 1:
            # FR-02. Only a pretty-printed msgspec.Raw brings a newline in; everywhere else it is escaped.
            line = msgspec.json.format(line, indent=-1) + b"\n"
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise LocalProtocolError(f"this message cannot be written as JSON: {error}") from error
    return line


def _without_lone_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_lone_surrogates(item) for item in value]
        case _:
            return value
