"""One line of the wire, read leniently: a recording also contains lines that a session would reject."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, MsgspecError, Raw, Struct, field
from msgspec.json import Decoder, encode

from twopipes import _jsonrpc as jsonrpc
from twopipes._wire import LineRejected

if TYPE_CHECKING:
    from twopipes._trace.conversation import Call, RecordedConnection

Direction = Literal[">", "<"]
Side = Literal["client", "server"]
Shape = Literal["request", "notification", "result", "error", "batch", "noise", "blank"]

OTHER_WAY: dict[Direction, Direction] = {">": "<", "<": ">"}

_ABSENT = Raw()


class Message(Struct, eq=False, kw_only=True):
    """A line between client and server, or one member of a batch.

    :attr:`params`, :attr:`result` and :attr:`error` are decoded on each access, so that a recording of long lines does not need
    more memory than its size. Keep the value if you need it twice.
    """

    index: int  # of the entry in the recording, from 0; the members of a batch share the index of their line
    at: float  # seconds since the start of the recording; for a line in pieces, the time of its last piece
    direction: Direction
    connection: RecordedConnection
    data: bytes  # the exact line without its newline, or the exact member of a batch
    # A line that breaks a rule of JSON-RPC but is recognizable has its shape, and a fault. Noise is not a message.
    shape: Shape
    id: Any = UNSET  # whatever its type
    method: str | None = None  # of a request or a notification; for a response see ``call``
    fault: LineRejected | None = None  # why the line is not a valid message
    is_whole: bool = True  # it ended with a newline
    members: list[Message] = field(default_factory=list)  # of a batch
    batch: Message | None = None  # the batch that contains this message
    call: Call | None = None  # of a request, a response, a progress notification, a cancellation, or a subscription
    meta: dict[str, Any] = field(default_factory=dict)  # ``params._meta``; empty if it is missing or not an object
    raw_params: Raw = _ABSENT
    raw_result: Raw = _ABSENT
    raw_error: Raw = _ABSENT

    def __repr__(self) -> str:
        return f"<Message {self.index} {self.direction} {self.shape} {self.method or ''} {self.id!r}>"

    @property
    def params(self) -> Any:
        """The decoded params of a request or a notification; ``UNSET`` if there are none."""
        return decoded(self.raw_params)

    @property
    def result(self) -> Any:
        """The decoded result of a response; ``UNSET`` if there is none."""
        return decoded(self.raw_result)

    @property
    def error(self) -> Any:
        """The decoded error of a response, normally an object with ``code`` and ``message``; ``UNSET`` if there is none."""
        return decoded(self.raw_error)

    @property
    def value(self) -> Any:
        """The whole line, decoded; ``UNSET`` if it is not JSON."""
        return decoded(Raw(self.line))

    @property
    def line(self) -> bytes:
        """The line without a byte order mark, and without a carriage return before the newline (FR-15)."""
        return self.data.removeprefix(codecs.BOM_UTF8).removesuffix(b"\r")

    @property
    def text(self) -> str:
        """The line for people, with escapes for bytes that are not UTF-8. Control characters are kept."""
        return self.data.decode(errors="backslashreplace")

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.data)

    @property
    def is_answer(self) -> bool:
        """Whether it is a response, valid or not."""
        return self.shape in {"result", "error"}

    @property
    def sender(self) -> Side:
        """The side that sent it."""
        return "client" if self.direction == ">" else "server"

    @property
    def topic(self) -> str:
        """The method, or for a response that of its call."""
        return (self.call.method if self.is_answer and self.call is not None else self.method) or ""


_decode_array = Decoder(list[Raw]).decode
_decode_any = Decoder().decode


def read_message(
    data: bytes, *, index: int, at: float, direction: Direction, connection: RecordedConnection, is_whole: bool
) -> Message:
    """Read one line. Never raises, whatever the bytes."""
    message = Message(index=index, at=at, direction=direction, connection=connection, data=data, shape="noise", is_whole=is_whole)
    line = message.line
    if line.strip(b" \t\r"):
        _read_into(message, line)
    else:
        message.shape = "blank"
    return message


def _read_into(message: Message, line: bytes) -> None:
    read = jsonrpc.decode(line)
    match read:
        case jsonrpc.Request(id=request_id, method=method, params=params):
            message.shape, message.id, message.method = "request", request_id, method
            message.raw_params = _ABSENT if params is UNSET else params
        case jsonrpc.Notification(method=method, params=params):
            message.shape, message.method = "notification", method
            message.raw_params = _ABSENT if params is UNSET else params
        case jsonrpc.Response(id=request_id, result=result):
            message.shape, message.id, message.raw_result = "result", request_id, result
        case jsonrpc.ErrorResponse(id=request_id, error=error):
            message.shape, message.id = "error", request_id
            message.raw_error = Raw(encode(error))
        case LineRejected():
            message.fault = read
            if line.lstrip().startswith(b"["):
                _read_batch(message, line)
            elif read.reason == "not JSON-RPC":
                _read_invalid(message, line)


def _read_batch(message: Message, line: bytes) -> None:
    """Read the members of an array. It has no fault here: whether the revision allows batches is checked elsewhere."""
    try:
        members = _decode_array(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return
    message.shape = "batch"
    message.fault = None
    for raw in members:
        member = Message(
            index=message.index,
            at=message.at,
            direction=message.direction,
            connection=message.connection,
            data=bytes(raw),
            shape="noise",
            is_whole=message.is_whole,
            batch=message,
        )
        # No revision allows an array inside an array.
        _read_into(member, member.data)
        message.members.append(member)


def _read_invalid(message: Message, line: bytes) -> None:
    """Determine the intended shape of a JSON object that is not a valid message."""
    found = raw_members(line)
    if found is None:
        return
    message.id = decoded(found.id)
    method = decoded(found.method)
    message.raw_params, message.raw_result, message.raw_error = found.params, found.result, found.error
    if isinstance(method, str):
        message.method = method
        message.shape = "notification" if message.id is UNSET else "request"
    elif method is UNSET and decoded(found.error) not in (UNSET, None):
        message.shape = "error"
    elif method is UNSET and found.result != _ABSENT:
        message.shape = "result"


def raw_members(line: bytes) -> jsonrpc.RawMembers | None:
    """Return the undecoded members of a JSON object, or ``None`` if the line is not one."""
    try:
        return jsonrpc.decode_members(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decoded(raw: Raw) -> Any:
    """Decode a value; ``UNSET`` if it is absent or not JSON."""
    if not memoryview(raw).nbytes:
        return UNSET
    try:
        return _decode_any(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return UNSET
