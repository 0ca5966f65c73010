"""Reads a server's stdout line by line: matches responses with requests, and keeps every line that is not a message."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw, Struct

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import Batch, ErrorObject, ErrorResponse, Request, Response
from twopipes._tools.doctor.observations import Reply, StrayLine
from twopipes._tools.doctor.stray_lines import kind_of, with_assembled
from twopipes._wire import LineDecoder, LineRejected
from twopipes.errors import RequestId

_BOM: Final = b"\xef\xbb\xbf"
# Stray lines that are kept, and the characters of each.
_MAX_STRAYS: Final = 200
_MAX_LENGTH: Final = 500
# After this many stray lines the rest is only counted.
_FLOOD: Final = 10_000
# Bytes of an unfinished line that are kept.
_MAX_HELD: Final = 200
_METHOD_NOT_FOUND: Final = -32601


class ReceivedResponse(Struct, frozen=True, kw_only=True):
    """What came back for a request."""

    at: float  # when it came
    took: float  # seconds after its request
    result: Raw | None = None  # the result, if it is one
    error: ErrorObject | None = None  # the error, if it is one
    fault: str | None = None  # what is wrong with a response that is not valid
    wrong_id: RequestId | None = None  # the id that it has instead of the id of the request


def reply_to(method: str, response: ReceivedResponse | None) -> Reply:
    """Return what came back for a request as an observation."""
    if response is None:
        return Reply(method=method, message="no response")
    if response.error is not None:
        return Reply(method=method, took=response.took, code=response.error.code, message=response.error.message)
    return Reply(method=method, took=response.took, usable=response.result is not None, message=response.fault or "")


class StdoutReader:
    """Takes the bytes of a server's stdout. It does no I/O and has no clock.

    Only one request is open at a time, so a malformed response can be matched with its request.
    """

    def __init__(self) -> None:
        self.first_byte: float | None = None  # when the first byte came, by the caller's clock
        self.strays: list[StrayLine] = []  # the first lines that are not messages
        self.stray_count = 0  # the number of lines that are not messages
        self.messages = 0  # the number of messages
        self.byte_order_mark = False  # whether the stream began with one
        self.echoes = False  # whether the server sent a request back to us
        self.response: ReceivedResponse | None = None  # the response to the open request
        self.to_send: list[bytes] = []  # responses to requests of the server, which must not wait for us (JR-16)
        self.is_ending = False  # whether the server has been asked to exit; set by the caller
        self._lines = LineDecoder()
        self._waiting: RequestId | None = None
        self._method = ""
        self._sent_at = 0.0
        self._begin = b""
        self._tail = b""
        self._last = b""
        self._crlf = 0

    def expect(self, request_id: RequestId, method: str, at: float = 0.0) -> None:
        """Expect the response to a request that was sent; it will be in :attr:`response`."""
        self._waiting = request_id
        self._method = method
        self._sent_at = at
        self.response = None

    @property
    def carriage_returns(self) -> bool:
        """Whether messages end with CR LF. On Windows, what is printed as noise always does."""
        return self._crlf > self.stray_count

    @property
    def held(self) -> str | None:
        """The beginning of an unfinished line, if there is one."""
        return self._tail.decode("utf-8", "replace") if self._lines.held else None

    def feed(self, data: bytes, at: float) -> None:
        """Take the next bytes, and when they came."""
        if self.first_byte is None:
            self.first_byte = at
        if self.stray_count > _FLOOD:
            # A server that writes this much noise will not send a message among it.
            self.stray_count += data.count(b"\n")
            return
        if len(self._begin) < len(_BOM):
            self._begin += data[: len(_BOM)]
            self.byte_order_mark = self._begin.startswith(_BOM)
        self._crlf += (self._last + data).count(b"\r\n")
        self._last = data[-1:]
        self._tail = data.rpartition(b"\n")[2][:_MAX_HELD] if b"\n" in data else (self._tail + data)[:_MAX_HELD]
        for line in self._lines.feed(data):
            self._handle_line(line, at)

    def finish(self, at: float) -> None:
        """Take the end of the stream, which may end the last line."""
        for line in self._lines.finish():
            self._handle_line(line, at)

    def _handle_line(self, line: bytes | LineRejected, at: float) -> None:
        found = jsonrpc.salvage_id(line) if isinstance(line, LineRejected) else jsonrpc.decode(line)
        match found:
            case LineRejected():
                self._reject(found, at)
            case Response():
                self._handle_response(found.id, at, result=found.result)
            case ErrorResponse():
                # JR-17: an error without an id is for a request that the server could not read, so for ours.
                request_id = found.id if isinstance(found.id, str | int) else self._waiting
                self._handle_response(request_id, at, error=found.error)
            case Request() if found.id == self._waiting and found.method == self._method and self.response is None:
                self.echoes = True
                self._settle(at, fault="it is the request itself, sent back")
            case Request():
                self._respond(found)
            case Batch():  # pragma: no cover - refused by decode
                pass
            case _:
                self.messages += 1

    def _handle_response(
        self, request_id: RequestId | None, at: float, *, result: Raw | None = None, error: ErrorObject | None = None
    ) -> None:
        self.messages += 1
        # JR-06: value and JSON type must match; in Python True == 1.
        if request_id == self._waiting and type(request_id) is type(self._waiting):
            self._settle(at, result=result, error=error)
        else:
            self._settle(at, wrong_id=request_id, fault=f"its id is {request_id!r}, expected {self._waiting!r}")

    def _settle(self, at: float, **facts: Any) -> None:
        """Keep the response to the open request, if there is none yet."""
        if self._waiting is not None and self.response is None:
            self.response = ReceivedResponse(at=at, took=at - self._sent_at, **facts)

    def _reject(self, rejected: LineRejected, at: float) -> None:
        self.stray_count += 1
        if len(self.strays) < _MAX_STRAYS:
            self.strays.append(
                StrayLine(
                    at=at,
                    kind=kind_of(rejected),
                    text=rejected.excerpt.decode("utf-8", "backslashreplace")[:_MAX_LENGTH],
                    detail=f"{rejected.reason}: {rejected.detail}",
                    before_messages=self.messages == 0,
                    while_ending=self.is_ending,
                )
            )
        if rejected.is_response:
            self._settle(at, fault=rejected.detail)
        elif self.stray_count <= _MAX_STRAYS and self.response is None and self._is_other_framing():
            # It did respond, so there is no need to wait.
            self._settle(at, fault="it is not one line of JSON")

    def _is_other_framing(self) -> bool:
        last = self.strays[-1]
        if last.kind == "content-length":
            return True
        return last.text.rstrip() in {"}", "]"} and with_assembled(self.strays)[-1].kind == "pretty-printed"

    def _respond(self, request: Request) -> None:
        self.messages += 1
        error = ErrorObject(_METHOD_NOT_FOUND, f"Method not found: {request.method}")
        answer = Response(request.id, {}) if request.method == "ping" else ErrorResponse(request.id, error)
        self.to_send.append(jsonrpc.encode(answer))
