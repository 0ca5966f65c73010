"""What a server says on stdout, line by line: answers are put with their requests, and nothing is passed over in silence."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import Batch, ErrorObject, ErrorResponse, Request, Response
from twopipes._tools.doctor.observations import StrayLine
from twopipes._tools.doctor.stray_lines import kind_of, with_assembled
from twopipes._wire import LineDecoder, LineRejected
from twopipes.errors import RequestId

__all__ = ["Heard", "Hearing"]

_BOM: Final = b"\xef\xbb\xbf"
# Lines that are kept, and the characters of each.
_MOST_STRAYS: Final = 200
_LONGEST: Final = 500
# Lines that are read one by one before the rest of them is only counted.
_FLOOD: Final = 10_000
# Bytes of an unfinished line that are kept.
_MOST_HELD: Final = 200
_METHOD_NOT_FOUND: Final = -32601


class Heard(Struct, frozen=True, kw_only=True):
    """What came for a request.

    Attributes:
        at: When.
        result: Of a good answer.
        error: Of one that says no.
        fault: What is wrong with an answer that is none.
        wrong_id: The id that it carried instead, as it stood on the wire.
    """

    at: float
    result: Raw | None = None
    error: ErrorObject | None = None
    fault: str | None = None
    wrong_id: RequestId | None = None


class Hearing:
    """Takes the bytes of a server's stdout. It has no patience and no clock of its own.

    One request is open at a time. That is what makes it possible to tell what a malformed answer was meant for.

    Attributes:
        first_byte: When the first byte came, by the caller's clock.
        strays: The first lines that are no messages.
        stray_count: How many there were.
        messages: How many messages there were.
        carriage_returns: A line ended with one.
        byte_order_mark: The stream began with one.
        echoes: It sent a request of ours back to us.
        heard: What came for the request that is open.
        to_send: Answers to what the server asks: it must not wait for us (JR-16).
        is_ending: The server was asked to end; set by the caller.
    """

    def __init__(self) -> None:
        self.first_byte: float | None = None
        self.strays: list[StrayLine] = []
        self.stray_count = 0
        self.messages = 0
        self.carriage_returns = False
        self.byte_order_mark = False
        self.echoes = False
        self.heard: Heard | None = None
        self.to_send: list[bytes] = []
        self.is_ending = False
        self._lines = LineDecoder()
        self._waiting: RequestId | None = None
        self._method = ""
        self._begin = b""
        self._tail = b""
        self._last = b""

    def expect(self, request_id: RequestId, method: str) -> None:
        """A request was sent; its answer will be in ``heard``."""
        self._waiting = request_id
        self._method = method
        self.heard = None

    @property
    def held(self) -> str | None:
        """The beginning of a line that has not ended, if there is one."""
        return self._tail.decode("utf-8", "replace") if self._lines.held else None

    def feed(self, data: bytes, at: float) -> None:
        """Takes the next bytes, and when they came."""
        if self.first_byte is None:
            self.first_byte = at
        if self.stray_count > _FLOOD:
            # What writes so much that is no message will not hide one in it. Only the lines are counted.
            self.stray_count += data.count(b"\n")
            return
        if len(self._begin) < len(_BOM):
            self._begin += data[: len(_BOM)]
            self.byte_order_mark = self._begin.startswith(_BOM)
        if b"\r\n" in self._last + data:
            self.carriage_returns = True
        self._last = data[-1:]
        self._tail = data.rpartition(b"\n")[2][:_MOST_HELD] if b"\n" in data else (self._tail + data)[:_MOST_HELD]
        for line in self._lines.feed(data):
            self._take(line, at)

    def finish(self, at: float) -> None:
        """Takes the end of the stream, which may end the last line."""
        for line in self._lines.finish():
            self._take(line, at)

    def _take(self, line: bytes | LineRejected, at: float) -> None:
        found = jsonrpc.salvage_id(line) if isinstance(line, LineRejected) else jsonrpc.decode(line)
        match found:
            case LineRejected():
                self._reject(found, at)
            case Response():
                self._answer(found.id, at, result=found.result)
            case ErrorResponse():
                # JR-17: an error without an id answers what could not be read, and that was ours.
                answered = found.id if isinstance(found.id, str | int) else self._waiting
                self._answer(answered, at, error=found.error)
            case Request() if found.id == self._waiting and found.method == self._method and self.heard is None:
                self.echoes = True
                self.heard = Heard(at=at, fault="it is the request itself, sent back")
            case Request():
                self._oblige(found)
            case Batch():  # pragma: no cover - refused by decode
                pass
            case _:
                self.messages += 1

    def _answer(
        self, request_id: RequestId | None, at: float, *, result: Raw | None = None, error: ErrorObject | None = None
    ) -> None:
        self.messages += 1
        if self._waiting is None or self.heard is not None:
            return
        # JR-06: value and JSON type; True is no 1.
        if request_id == self._waiting and type(request_id) is type(self._waiting):
            self.heard = Heard(at=at, result=result, error=error)
        else:
            self.heard = Heard(at=at, wrong_id=request_id, fault=f"its id is {request_id!r}, expected {self._waiting!r}")

    def _reject(self, rejected: LineRejected, at: float) -> None:
        self.stray_count += 1
        if len(self.strays) < _MOST_STRAYS:
            self.strays.append(
                StrayLine(
                    at=at,
                    kind=kind_of(rejected),
                    text=rejected.excerpt.decode("utf-8", "backslashreplace")[:_LONGEST],
                    detail=f"{rejected.reason}: {rejected.detail}",
                    before_messages=self.messages == 0,
                    while_ending=self.is_ending,
                )
            )
        if self._waiting is None or self.heard is not None:
            return
        if rejected.is_response:
            self.heard = Heard(at=at, fault=rejected.detail)
        elif self.stray_count <= _MOST_STRAYS and self._is_other_framing():
            # It did answer, so there is nothing to wait for.
            self.heard = Heard(at=at, fault="it is not one line of JSON")

    def _is_other_framing(self) -> bool:
        last = self.strays[-1]
        if last.kind == "content-length":
            return True
        return last.text.rstrip() in {"}", "]"} and with_assembled(self.strays)[-1].kind == "pretty-printed"

    def _oblige(self, request: Request) -> None:
        self.messages += 1
        if request.method == "ping":
            self.to_send.append(jsonrpc.encode(Response(request.id, {})))
        else:
            error = ErrorObject(_METHOD_NOT_FOUND, f"Method not found: {request.method}")
            self.to_send.append(jsonrpc.encode(ErrorResponse(request.id, error)))
