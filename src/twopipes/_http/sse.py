r"""Server-sent events: the encoding of a response stream, and its incremental parser.

An event is a block of lines that ends with a blank line. :func:`encode_event` writes one message as one event. :class:`SseParser`
takes bytes in chunks of any size and returns whole events. It accepts what the format allows: ``\n``, ``\r\n`` and ``\r`` as line
ends, a byte order mark at the start, comments, unknown fields and data in several lines.

The parser takes linear time and bounded memory. An event over the limit is dropped while it arrives and becomes a
:class:`LineRejected`; parsing continues with the next event.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

import msgspec

from twopipes._wire import LineRejected
from twopipes.errors import LocalProtocolError
from twopipes.settings import Limits

# A comment, which a reader ignores. It keeps proxies and clients from closing a quiet stream.
COMMENT: Final = b":\n\n"
# The longest id of an event that is kept: a client sends it back in a header.
MAX_EVENT_ID: Final = 1024

_BOM: Final = codecs.BOM_UTF8
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_UNSAFE_ID: Final = re.compile(r"[^\x21-\x7e]")
# Bytes of a line that do not count as data: a byte order mark, the name of the field, the colon and the space.
_AROUND_DATA: Final = len(_BOM) + len(b"data: ")
# Bytes kept of the end of rejected data: the TypeScript SDK writes the id last.
_TAIL: Final = 256
# A longer pause would be 11 days.
_MAX_RETRY_DIGITS: Final = 9


def encode_event(data: bytes, *, id: str | None = None, retry: int | None = None) -> bytes:  # noqa: A002 - the name of the field
    """Encode one event.

    Args:
        data: The message, with or without its newline. A line break in it starts another ``data`` line, so it can neither end the
            event nor begin a field.
        id: The id of the event, by which a client resumes after it.
        retry: How many milliseconds a client waits before it connects again.

    Raises:
        LocalProtocolError: The id contains something else than visible ASCII characters.
    """
    if id is not None and (not id or _UNSAFE_ID.search(id)):
        raise LocalProtocolError(f"the id of an event must consist of visible ASCII characters, got {id!r}")
    head = b"" if id is None else b"id: %s\n" % id.encode("ascii")
    if retry is not None:
        head += b"retry: %d\n" % retry
    if data.endswith(b"\n"):
        data = data[:-1]
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%sdata: %s\n\n" % (head, data)


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    r"""One event with data.

    Attributes:
        data: Its data, with ``\n`` between the lines. Empty if the server only announces an id.
        type: Its type, ``message`` unless the stream names another.
        id: The last id of the stream up to this event, or an empty string.
    """

    data: bytes
    type: str = "message"
    id: str = ""


class SseParser:
    """Splits a stream of bytes into events.

    Args:
        max_event: The most data of one event, in bytes; ``None`` for no limit.
        max_excerpt: How many bytes of a rejected event to keep.

    Attributes:
        last_id: The id to resume after, or an empty string.
        retry: How many milliseconds the server asks to wait before connecting again, or ``None``.
    """

    def __init__(self, max_event: int | None = Limits().max_line, *, max_excerpt: int = Limits().max_excerpt) -> None:
        self.last_id = ""
        self.retry: int | None = None
        self._max = max_event
        self._max_line = None if max_event is None else max_event + _AROUND_DATA
        self._max_excerpt = max_excerpt
        self._line = bytearray()  # the incomplete line; of one over the limit, only its start
        self._dropped = 0  # the length of the incomplete line, if it is over the limit
        self._tail = b""  # the end of a line over the limit, then of the rejected data
        self._after_cr = False  # the last chunk ended with \r, so a \n belongs to it
        self._at_start = True
        self._reset()

    def _reset(self) -> None:
        self._data: bytes | bytearray | None = None  # of rejected data, only the start
        self._size = 0  # of the data
        self._is_rejected = False
        self._type = "message"

    @property
    def held(self) -> int:
        """Bytes held of an incomplete event."""
        return len(self._line) + len(self._tail) + len(self._data or b"")

    def feed(self, chunk: bytes) -> list[SseEvent | LineRejected]:
        """Take the next chunk of bytes and return the events that it completes."""
        events: list[SseEvent | LineRejected] = []
        start = 0
        if chunk and self._after_cr:
            self._after_cr = False
            start = int(chunk.startswith(b"\n"))
        for end in _LINE_END.finditer(chunk, start):
            line = chunk[start : end.start()]
            if self._line or self._dropped or (self._max_line is not None and len(line) > self._max_line):
                self._hold(line)
                self._take_held(events)
            else:
                self._take(line, events)
            start = end.end()
        if start < len(chunk):
            self._hold(chunk[start:])
        elif chunk.endswith(b"\r"):
            self._after_cr = True
        return events

    def _hold(self, part: bytes) -> None:
        """Keep a part of an incomplete line, or only both ends if the line is over the limit."""
        kept = self._max_excerpt + _AROUND_DATA
        if not self._dropped:
            if self._max_line is None or len(self._line) + len(part) <= self._max_line:
                self._line += part
                return
            self._dropped = len(self._line)
            self._tail = bytes(self._line[-_TAIL:])
            self._line = self._line[:kept]
        if len(self._line) < kept:
            self._line += part[: kept - len(self._line)]
        self._dropped += len(part)
        self._tail = (self._tail + part[-_TAIL:])[-_TAIL:]

    def _take_held(self, events: list[SseEvent | LineRejected]) -> None:
        line, self._line = bytes(self._line), bytearray()
        size, self._dropped = self._dropped, 0
        if not size:
            self._take(line, events)
            return
        name, value = _field(self._without_bom(line))
        size -= len(line) - len(value)  # the length of the whole value
        if name == b"data":
            self._reject(value, self._tail[-size:], size)
        elif name == b"id":
            self.last_id = ""

    def _without_bom(self, line: bytes) -> bytes:
        if self._at_start:
            self._at_start = False
            return line.removeprefix(_BOM)
        return line

    def _take(self, line: bytes, events: list[SseEvent | LineRejected]) -> None:
        """Take one whole line: a field, or the end of an event."""
        line = self._without_bom(line)
        if not line:
            self._dispatch(events)
            return
        name, value = _field(line)
        match name:
            case b"data":
                self._add_data(value)
            case b"id":
                self._set_id(value)
            case b"event":
                self._type = value.decode("utf-8", "replace") or "message"
            case b"retry":
                if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                    self.retry = int(value)
            case _:
                pass  # a comment or an unknown field

    def _set_id(self, value: bytes) -> None:
        if b"\0" not in value:  # the format ignores an id with a NUL
            # An id that no header can carry is useless, and resuming after the one before it would repeat events.
            text = value.decode("utf-8", "replace")
            self.last_id = "" if len(value) > MAX_EVENT_ID or _UNSAFE_ID.search(text) else text

    def _add_data(self, value: bytes) -> None:
        size = self._size + len(value) + (self._data is not None)
        if self._is_rejected or (self._max is not None and size > self._max):
            self._reject(value, value[-_TAIL:], len(value))
            return
        self._size = size
        if self._data is None:
            self._data = value
        else:
            self._append(value)

    def _append(self, value: bytes) -> None:
        """Add another line to the data. One buffer, because a list of short lines would take many times their size."""
        if not isinstance(self._data, bytearray):
            self._data = bytearray(self._data or b"")
        self._data += b"\n"
        self._data += value

    def _reject(self, head: bytes, tail: bytes, size: int) -> None:
        """Count data over the limit, and keep only both ends of it."""
        if not self._is_rejected:
            self._is_rejected = True
            if self._data is None:
                self._data = head
                self._size = -1  # there is no line break before the first line
            else:
                self._append(head)
            self._data = bytes(self._data[: self._max_excerpt])
        self._size += 1 + size
        self._tail = tail

    def _dispatch(self, events: list[SseEvent | LineRejected]) -> None:
        """End an event. One without data has no effect."""
        if self._is_rejected:
            detail = f"an event of {self._size:,} bytes; the limit is {self._max:,}"
            excerpt, tail = bytes(self._data or b""), self._tail
            events.append(LineRejected(reason="too long", detail=detail, excerpt=excerpt, tail=tail, size=self._size))
        elif self._data is not None:
            events.append(SseEvent(bytes(self._data), self._type, self.last_id))
        self._tail = b""
        self._reset()


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into the name and the value of its field. A comment has an empty name."""
    name, _, value = line.partition(b":")
    return name, value[1:] if value.startswith(b" ") else value
