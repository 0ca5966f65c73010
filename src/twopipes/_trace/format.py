"""The trace format: one JSON object a line. First the header, then what happened, in the order in which it happened."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any, Literal, TypeVar

from msgspec import DecodeError, Struct, ValidationError, convert, field, json

__all__ = ["VERSION", "Damage", "Entry", "Event", "EventName", "Header", "Kind", "Line", "decode_entry", "decode_header", "encode"]

# Of the format. A reader accepts what it knows and passes over members that it does not; a change that old readers would
# misread gets the next number.
VERSION = 1

Kind = Literal[">", "<", "!"]
EventName = Literal["spawn", "eof", "signal", "exit", "lost", "note"]


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line: what was recorded, where and when. Of the environment it holds names, and never values."""

    version: int = field(name="twopipes_trace", default=0)
    started: str = ""  # ISO 8601, in UTC
    recorder: str = ""  # tap, client or server
    recorder_version: str = ""
    argv: tuple[str, ...] = ()  # the command of the server, where there is one
    target: str = ""  # otherwise what was talked to: unix:/run/x.sock
    cwd: str = ""
    environment: tuple[str, ...] = ()  # the names of the variables that the server was started with
    platform: str = ""
    redacted: tuple[str, ...] = ()  # members whose values were blanked


class Line(Struct, frozen=True):
    """One line of the wire or of stderr, without the newline at its end; a carriage return before that is kept."""

    at: float  # seconds since the start
    kind: Kind  # > client to server, < server to client, ! stderr
    data: bytes
    is_whole: bool = True  # no: it had no newline; the next piece of this kind goes on with it
    connection: int = 0  # which one, where a server on a socket or a client that restarted has several

    @property
    def text(self) -> str:
        """The line for people: what is not UTF-8 is shown as escapes."""
        return self.data.decode(errors="backslashreplace")


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened beside the lines."""

    at: float
    name: EventName = field(name="event")
    connection: int = 0
    pid: int | None = None  # spawn
    stream: Kind | None = None  # eof: which direction came to its end
    signal: str | None = None  # signal: which one was passed on; exit: which one ended the child
    code: int | None = None  # exit
    lines: int | None = None  # lost: how much the recording lacks from here
    size: int | None = None  # lost: in bytes
    reason: str | None = None  # lost, note: in words


class Damage(Struct, frozen=True):
    """A line of the file that could not be read: a torn end, or somebody's editor."""

    number: int  # of the line in the file, from 1
    reason: str
    data: bytes


Entry = Line | Event | Damage


class _Written(Struct, omit_defaults=True):
    """How an entry stands in the file."""

    at: float
    kind: Literal[">", "<", "!", "="]
    line: str | None = None
    base64: str | None = None
    open: bool = False
    connection: int = 0


_encoder = json.Encoder()
_decoder = json.Decoder()


def encode(entry: Header | Line | Event) -> bytes:
    """The line of the file for an entry, with its newline."""
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
    """Reads the first line of a file.

    Raises:
        ValueError: It is no header of a trace, or of one that only a newer reader understands.
    """
    try:
        header = _convert(_object(line), Header)
    except ValueError as error:
        raise ValueError(f"the file does not begin with the header of a trace: {error}") from error
    if not header.version:
        raise ValueError("the file does not begin with the header of a trace")
    if header.version > VERSION:
        raise ValueError(f"the trace has version {header.version} of the format, and this reader knows {VERSION}")
    return header


def decode_entry(line: bytes) -> Line | Event:
    """Reads a further line of a file.

    Raises:
        ValueError: It is no entry.
    """
    members = _object(line)
    if members.get("kind") == "=":
        return _convert(members, Event)
    written = _convert(members, _Written)
    if written.kind == "=" or (written.line is None) == (written.base64 is None):
        raise ValueError("an entry has either a line or base64")
    if written.line is not None:
        data = written.line.encode()
    else:
        try:
            data = b64decode(written.base64 or "", validate=True)
        except Base64Error as error:
            raise ValueError(f"its base64 is none: {error}") from error
    return Line(written.at, written.kind, data, not written.open, written.connection)


_Shape = TypeVar("_Shape")


def _object(line: bytes) -> dict[str, Any]:
    try:
        members = _decoder.decode(line)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    if not isinstance(members, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - of the file, not of an argument
    return members


def _convert(members: dict[str, Any], shape: type[_Shape]) -> _Shape:
    try:
        return convert(members, shape)
    except ValidationError as error:
        raise ValueError(str(error)) from error
