"""The trace format: one JSON object per line. The header comes first, then the entries in the order in which they happened."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Literal, TypeVar

from msgspec import DecodeError, Struct, field, json

# The version of the format. A reader ignores members that it does not know. A change that old readers would misread gets a
# new version.
VERSION = 1

Kind = Literal[">", "<", "!"]
EventName = Literal["spawn", "eof", "signal", "exit", "lost", "note"]


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line: what was recorded, where and when. It contains names of environment variables, never their values."""

    version: int = field(name="twopipes_trace", default=0)
    started: str = ""  # ISO 8601, in UTC
    recorder: str = ""  # tap, client or server
    recorder_version: str = ""
    argv: tuple[str, ...] = ()  # the command of the server, if there is one
    target: str = ""  # otherwise the address: unix:/run/x.sock
    cwd: str = ""
    environment: tuple[str, ...] = ()  # the names of the server's environment variables
    platform: str = ""
    redacted: tuple[str, ...] = ()  # members whose values were redacted


class Line(Struct, frozen=True):
    """One line of the wire or of stderr, without its newline. A carriage return before the newline is kept."""

    at: float  # seconds since the start
    kind: Kind  # > client to server, < server to client, ! stderr
    data: bytes
    is_whole: bool = True  # False: it has no newline, and the next line of this kind continues it
    connection: int = 0  # the number of the connection; a server on a socket or a client that restarts has several

    @property
    def text(self) -> str:
        """The line for people, with escapes for bytes that are not UTF-8."""
        return self.data.decode(errors="backslashreplace")


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something other than a line."""

    at: float
    name: EventName = field(name="event")
    connection: int = 0
    pid: int | None = None  # spawn
    stream: Kind | None = None  # eof: which direction ended
    signal: str | None = None  # signal: the signal that was sent; exit: the signal that ended the child
    code: int | None = None  # exit
    lines: int | None = None  # lost: lines missing from here
    size: int | None = None  # lost: bytes missing from here
    reason: str | None = None  # lost, note: the reason, for people


class Damage(Struct, frozen=True):
    """A line of the file that could not be read: an incomplete last line, or a mistake of an editor."""

    number: int  # the line number in the file, from 1
    reason: str
    data: bytes


Entry = Line | Event | Damage


class _Written(Struct, omit_defaults=True):
    """An entry as it is written in the file."""

    at: float
    kind: Literal[">", "<", "!", "="]
    line: str | None = None
    base64: str | None = None
    open: bool = False
    connection: int = 0


_encoder = json.Encoder()
_Shape = TypeVar("_Shape")


def encode(entry: Header | Line | Event) -> bytes:
    """Return the line of the file for an entry, with its newline."""
    if isinstance(entry, Line):
        try:
            written = _Written(entry.at, entry.kind, line=entry.data.decode())
        except UnicodeDecodeError:
            written = _Written(entry.at, entry.kind, base64=b64encode(entry.data).decode())
        written.open = not entry.is_whole
        written.connection = entry.connection
        return _encoder.encode(written) + b"\n"
    if isinstance(entry, Event):
        return b'{"kind":"=",' + _encoder.encode(entry)[1:] + b"\n"
    return _encoder.encode(entry) + b"\n"


def decode_header(line: bytes) -> Header:
    """Read the first line of a file. Raises ``ValueError`` if it is not a header that this version can read."""
    try:
        header = _decode(line, Header)
    except ValueError as error:
        raise ValueError(f"the file does not begin with the header of a trace: {error}") from error
    if not header.version:
        raise ValueError("the file does not begin with the header of a trace")
    if header.version > VERSION:
        raise ValueError(f"the trace has version {header.version} of the format; this reader supports up to {VERSION}")
    return header


def decode_entry(line: bytes) -> Line | Event:
    """Read a line after the header. Raises ``ValueError`` if it is not an entry."""
    written = _decode(line, _Written)
    if written.kind == "=":
        return _decode(line, Event)
    if (written.line is None) == (written.base64 is None):
        raise ValueError("an entry must have either a line or base64")
    if written.line is not None:
        data = written.line.encode()
    else:
        try:
            data = b64decode(written.base64 or "", validate=True)
        except Base64Error as error:
            raise ValueError(f"invalid base64: {error}") from error
    return Line(written.at, written.kind, data, not written.open, written.connection)


def _decode(line: bytes, shape: type[_Shape]) -> _Shape:
    try:
        return json.decode(line, type=shape)
    except DecodeError as error:
        raise ValueError(str(error)) from error
