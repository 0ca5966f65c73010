"""One line of the wire, read as far as it can be: a recording also holds what no reader of messages would accept."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, DecodeError, MsgspecError, Raw, Struct, field
from msgspec.json import Decoder, Encoder

from twopipes import _jsonrpc as jsonrpc
from twopipes._wire import LineRejected

if TYPE_CHECKING:
    from twopipes._trace.conversation import Call, RecordedConnection

__all__ = ["Direction", "Message", "Shape", "read_message"]

Direction = Literal[">", "<"]
Shape = Literal["request", "notification", "result", "error", "batch", "noise", "blank"]

_ABSENT = Raw()
_BOM = codecs.BOM_UTF8


class Message(Struct, eq=False, kw_only=True):
    """A line between client and server, or one member of a batch.

    What is on the wire stays bytes; :attr:`params`, :attr:`result` and :attr:`error` are decoded each time they are asked for,
    so that a recording of long lines costs no more than its size. Whoever needs one of them twice keeps it.

    Attributes:
        index: Which entry of the recording, from 0; the members of a batch share that of their line.
        at: Seconds since the start of the recording; for a line in pieces, when its last piece came.
        direction: ``>`` from the client to the server, ``<`` from the server to the client.
        connection: On which connection.
        data: The exact bytes of the line, without the newline; of a member of a batch, of that member.
        shape: What it is. A line that breaks a rule of JSON-RPC but shows what it was meant as has that shape, and a ``fault``.
            ``noise`` is what can be no message, ``blank`` an empty line.
        id: As it stands on the wire, whatever its type; ``UNSET`` where there is none.
        method: Of a request or a notification. For an answer see ``call``.
        fault: What the reader of messages has against the line; ``None`` for a good message.
        is_whole: No, if the line never got its newline.
        members: Of a batch.
        batch: The batch this is a member of.
        call: The request it is, answers, reports on, cancels, or (for a notification with a subscription's tag) belongs to.
        meta: What stands in ``params._meta`` of a request or a notification; empty where there is nothing usable.
    """

    index: int
    at: float
    direction: Direction
    connection: RecordedConnection
    data: bytes
    shape: Shape
    id: Any = UNSET
    method: str | None = None
    fault: LineRejected | None = None
    is_whole: bool = True
    members: list[Message] = field(default_factory=list)
    batch: Message | None = None
    call: Call | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    raw_params: Raw = _ABSENT
    raw_result: Raw = _ABSENT
    raw_error: Raw = _ABSENT

    def __repr__(self) -> str:
        return f"<Message {self.index} {self.direction} {self.shape} {self.method or ''} {self.id!r}>"

    @property
    def params(self) -> Any:
        """Of a request or a notification, decoded; ``UNSET`` where there are none."""
        return _decoded(self.raw_params)

    @property
    def result(self) -> Any:
        """Of an answer, decoded; ``UNSET`` where there is none."""
        return _decoded(self.raw_result)

    @property
    def error(self) -> Any:
        """Of an answer, decoded: an object with ``code`` and ``message`` if all is well; ``UNSET`` where there is none."""
        return _decoded(self.raw_error)

    @property
    def value(self) -> Any:
        """The whole line as JSON, decoded; ``UNSET`` if it is none."""
        return _decoded(Raw(self.line))

    @property
    def line(self) -> bytes:
        """The line as a reader takes it: without a byte order mark, and without a carriage return before the newline (FR-15)."""
        return self.data.removeprefix(_BOM).removesuffix(b"\r")

    @property
    def text(self) -> str:
        """The line for people: what is not UTF-8 is shown as escapes. Control characters are still in it."""
        return self.data.decode(errors="backslashreplace")

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.data)

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request, or wants to."""
        return self.shape in {"result", "error"}

    @property
    def is_from_client(self) -> bool:
        """Whether the client said it."""
        return self.direction == ">"


class _Members(Struct):
    """What a message can have, with no expectations."""

    jsonrpc: Raw = _ABSENT
    id: Raw = _ABSENT
    method: Raw = _ABSENT
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


_decode_members = Decoder(_Members).decode
_decode_array = Decoder(list[Raw]).decode
_decode_any = Decoder().decode
_encode = Encoder().encode


def read_message(
    data: bytes, *, index: int, at: float, direction: Direction, connection: RecordedConnection, is_whole: bool
) -> Message:
    """Reads one line. Never raises, whatever the bytes."""
    message = Message(index=index, at=at, direction=direction, connection=connection, data=data, shape="noise", is_whole=is_whole)
    line = message.line
    if not line.strip(b" \t\r"):
        message.shape = "blank"
        return message
    _read_into(message, line)
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
            message.raw_error = Raw(_encode(error))
        case LineRejected():
            message.fault = read
            if line.lstrip().startswith(b"["):
                _read_batch(message, line)
            elif read.reason == "not JSON-RPC":
                _guess(message, line)


def _read_batch(message: Message, line: bytes) -> None:
    """Takes an array apart. Whether the revision lets it stand is for others to say, so it has no fault of its own."""
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
        # An array within an array is nothing in any revision.
        _read_into(member, member.data)
        message.members.append(member)


def _guess(message: Message, line: bytes) -> None:
    """Finds out what a JSON object that is no good message was meant as."""
    try:
        found = _decode_members(line)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return
    message.id = _decoded(found.id)
    method = _decoded(found.method)
    message.raw_params, message.raw_result, message.raw_error = found.params, found.result, found.error
    if isinstance(method, str):
        message.method = method
        message.shape = "notification" if message.id is UNSET else "request"
    elif method is UNSET and (found.error != _ABSENT and _decoded(found.error) is not None):
        message.shape = "error"
    elif method is UNSET and found.result != _ABSENT:
        message.shape = "result"


def _decoded(raw: Raw) -> Any:
    if not memoryview(raw).nbytes:
        return UNSET
    try:
        return _decode_any(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET
