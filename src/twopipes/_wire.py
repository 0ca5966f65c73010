"""Bytes to lines and back: the framing of messages (section FR of the rules).

A message is one line: UTF-8 JSON that ends with a newline (FR-01). :class:`LineDecoder` takes bytes in chunks of any size (FR-13)
and returns whole lines. A line that cannot be a message becomes a :class:`LineRejected`, and decoding continues with the next line.

The decoder takes linear time and bounded memory: each byte is searched and copied once, and a line over the limit is dropped while
it arrives.
"""

from __future__ import annotations

import codecs
from itertools import accumulate
from typing import Any, Final, Literal

import msgspec

from twopipes._codes import INVALID_REQUEST, PARSE_ERROR
from twopipes.errors import LocalProtocolError, RequestId
from twopipes.settings import Limits

Reason = Literal["too long", "not UTF-8", "not JSON", "too deep", "not an object", "not JSON-RPC"]

_BOM: Final = codecs.BOM_UTF8
# Bytes that are decoded at once to check that a line is UTF-8.
_UTF8_CHUNK: Final = 64 * 1024
# Bytes kept of the end of a dropped line: the TypeScript SDK writes the id last.
_TAIL: Final = 256
# How deeply the arrays and objects of a line may be nested. CPython 3.13 allows as much.
MAX_DEPTH: Final = 10_000
# Bytes of a line, and brackets of a line, that are counted at once.
_CHUNK: Final = 4 * 1024
_BLOCK: Final = 1024
# A byte order mark before a line and a \r after it do not count as part of the line.
_UNCOUNTED: Final = len(_BOM) + 1
_KEPT_TAIL: Final = _TAIL + 1


class LineRejected(msgspec.Struct, frozen=True, kw_only=True):
    """A line, or one member of a batch, that is not a message. It does not affect the lines after it (JR-20).

    Attributes:
        reason: Which check it failed.
        detail: What exactly is wrong, for the error message.
        excerpt: Its first bytes, at most ``Limits.max_excerpt``.
        tail: Its last bytes, if the line could not be read completely.
        size: Its length in bytes, without the newline.
        request_id: The id for the error response, if it could be read.
        is_response: Whether it was meant as a response, so it gets no error response.
        is_notification: Whether it was meant as a notification, so it gets no error response either (JR-10).
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
        """The JSON-RPC code for the error response: not JSON (ER-01), or JSON that is not a message (ER-02)."""
        return PARSE_ERROR if self.reason in {"not UTF-8", "not JSON"} else INVALID_REQUEST

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class LineDecoder:
    r"""Splits a stream of bytes into lines.

    Accepted but never written (FR-15): ``\r`` before the newline, blank lines, a byte order mark at the start of the stream, a last
    line without a newline.

    Args:
        max_line: The longest line to accept, in bytes; ``None`` for no limit.
        max_excerpt: How many bytes of a rejected line to keep.
    """

    __slots__ = ("_at_start", "_buffer", "_dropped", "_kept_head", "_max_excerpt", "_max_line", "_tail")

    def __init__(self, *, max_line: int | None = Limits().max_line, max_excerpt: int = Limits().max_excerpt) -> None:
        self._max_line = max_line
        self._max_excerpt = max_excerpt
        self._kept_head = max_excerpt + len(_BOM)
        # The incomplete line. While a line is being dropped, only its start.
        self._buffer = bytearray()
        self._dropped = 0
        self._tail = b""
        self._at_start = True

    @property
    def held(self) -> int:
        """Bytes held of an incomplete line."""
        return len(self._buffer) + len(self._tail)

    def feed(self, data: bytes) -> list[bytes | LineRejected]:
        """Take the next chunk of bytes and return the lines that it completes, without their newlines."""
        end = data.find(b"\n")
        if end < 0:
            self._hold(data)
            return []
        events: list[bytes | LineRejected] = []
        if end == len(data) - 1 and not self._buffer:  # the common case: exactly one line
            self._take(data[:end], events)
            return events
        start = 0
        if self._buffer or self._dropped:
            self._hold(memoryview(data)[:end])
            self._take_held(events)
            start = end + 1
        # The rest of the data starts at the beginning of a line.
        lines = data[start:].split(b"\n") if start else data.split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._take(line, events)
        if rest:
            self._hold(rest)
        return events

    def finish(self) -> list[bytes | LineRejected]:
        """Take the end of the stream and return the last line, if it had no newline (FR-15)."""
        events: list[bytes | LineRejected] = []
        if self._buffer or self._dropped:
            self._take_held(events)
        return events

    def _hold(self, data: bytes | memoryview) -> None:
        """Keep a part of an incomplete line, or only count it if the line is over the limit."""
        if not self._dropped:
            limit = self._max_line
            # A BOM and a \r do not count, so hold a little more than the limit.
            if limit is None or len(self._buffer) + len(data) <= limit + _UNCOUNTED:
                self._buffer += data
                return
            # From now on keep only both ends. Copy to a new buffer, because a shortened one would keep its memory.
            self._dropped = len(self._buffer)
            self._tail = bytes(self._buffer[-_KEPT_TAIL:])
            self._buffer = self._buffer[: self._kept_head]
        missing = self._kept_head - len(self._buffer)
        if missing > 0:
            self._buffer += data[:missing]
        self._dropped += len(data)
        self._tail = (self._tail + bytes(data[-_KEPT_TAIL:]))[-_KEPT_TAIL:]

    def _take_held(self, events: list[bytes | LineRejected]) -> None:
        head, tail, size = bytes(self._buffer), self._tail, self._dropped
        self._buffer = bytearray()  # released early, so that at most two copies exist
        if not size:
            self._take(head, events)
            return
        # A line of which only both ends were kept.
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
        """Check one whole line and append it, or the reason for its rejection, to the events."""
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
        elif line.isascii():
            events.append(line)
        else:
            events.append(check_utf8(line, max_excerpt=self._max_excerpt))

    def _too_long(self, head: bytes, tail: bytes, size: int) -> LineRejected:
        detail = f"a line of {size:,} bytes; the limit is {self._max_line:,}"
        return LineRejected(reason="too long", detail=detail, excerpt=head, tail=tail, size=size)


def check_utf8(line: bytes, *, max_excerpt: int = Limits().max_excerpt) -> bytes | LineRejected:
    """Return the line if it is valid UTF-8, as a decoder of messages needs it, or the reason why it is not."""
    if line.isascii() or (bad := _first_byte_not_utf8(line)) < 0:
        return line
    detail = f"byte {bad} of the line (0x{line[bad]:02x}) is not valid UTF-8"
    return LineRejected(reason="not UTF-8", detail=detail, excerpt=line[:max_excerpt], tail=line[-_TAIL:], size=len(line))


def _first_byte_not_utf8(line: bytes) -> int:
    """Return the index of the first invalid byte, or -1."""
    checked = 0  # in chunks, because one emoji makes a decoded ASCII text four times as large
    while checked < len(line):
        chunk = line[checked : checked + _UTF8_CHUNK]
        try:
            # Without `final`, a character that is split between two chunks is left for the next one.
            checked += codecs.utf_8_decode(chunk, "strict", checked + len(chunk) == len(line))[1]
        except UnicodeDecodeError as error:
            return checked + error.start
    return -1


def nests_too_deeply(line: bytes) -> bool:
    """Whether the arrays and objects of a line are nested more than ``MAX_DEPTH`` levels deep. Brackets in strings do not count."""
    if not _may_nest_too_deeply(line):
        return False
    if b"\\" in line:
        # Backslashes are removed in pairs first, so that no other one is in front of a quote that ends a string.
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    line = line.translate(_SQUARE, _NEITHER_BRACKET_NOR_QUOTE)
    # Strings without brackets are pairs of quotes by now. Most are removed four at a time, which is faster.
    line = line.replace(b'""""""""', b"").replace(b'""', b"")
    brackets = b"".join(line.split(b'"')[::2])  # every second part is inside a string
    depth = 0
    for start in range(0, len(brackets), _BLOCK):
        block = brackets[start : start + _BLOCK]
        opened = block.count(b"[")
        if depth + opened > MAX_DEPTH:  # perhaps; so go through it bracket by bracket
            depths = accumulate(map(_STEPS.__getitem__, block), initial=depth)
            if any(map(MAX_DEPTH.__lt__, depths)):
                return True
        depth += 2 * opened - len(block)
    return False


def _may_nest_too_deeply(line: bytes) -> bool:
    """Whether a line has enough brackets, in strings or not. This is fast for long strings without brackets, such as images."""
    left = MAX_DEPTH
    for bracket in (b"[", b"{"):
        start = line.find(bracket)
        while start >= 0:
            end = start + _CHUNK
            left -= line.count(bracket, start, end)
            if left < 0:
                return True
            start = line.find(bracket, end)
    return False


_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEPS: Final = {ord("["): 1, ord("]"): -1}

_encoder = msgspec.json.Encoder()


def encode_line(message: Any) -> bytes:
    """Encode one message as one line of UTF-8, including the newline (FR-01 to FR-03).

    Newlines in strings are escaped. A lone surrogate, which UTF-8 cannot represent, is written as U+FFFD; ``NaN`` and the
    infinities, which JSON cannot represent, are written as ``null``.

    Raises:
        LocalProtocolError: JSON cannot represent the message: an unknown type, an integer over Python's conversion limit, or a
            structure that contains itself.
    """
    try:
        try:
            line = _encoder.encode_lines([message])  # adds the newline without a second copy of the message
        except UnicodeEncodeError:
            plain = msgspec.to_builtins(message, builtin_types=(msgspec.Raw,))
            line = _encoder.encode_lines([_without_lone_surrogates(plain)])
        if line.find(b"\n") != len(line) - 1:
            # FR-02. A pretty-printed msgspec.Raw may contain newlines; everywhere else they are escaped.
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
