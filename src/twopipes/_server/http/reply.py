"""The HTTP response to one request: a JSON body, or a stream of events as soon as anything comes before the response.

A reply is filled by the connection and written by the ASGI call, so a client that does not read delays only its own reply. A reply
that is silent for ``keep_alive`` seconds becomes a stream too, and its comments keep proxies from closing the connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from twopipes._http.auth import Identity
from twopipes._http.options import HttpOptions
from twopipes._http.sse import COMMENT, encode_event
from twopipes._http.status import OK
from twopipes._server.http.asgi import JSON, Header, Receive, Send, respond
from twopipes._server.http.deadlines import Deadlines, HttpDeadlines
from twopipes._session.ledger import Route

# Bytes that wait to be written. Above the first, handlers wait; above the second, the client is too slow and loses its stream.
_HIGH_WATER: Final = 64 * 1024
_MAX_BUFFERED: Final = 1024 * 1024
# Bytes that are given to the ASGI server at once.
_SLICE: Final = 256 * 1024
_STREAM_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx passes events on at once
)


class _Form(Enum):
    UNDECIDED = auto()
    JSON = auto()
    STREAM = auto()


class Reply(Route):
    """One HTTP response. It is the route of the messages that belong to a request.

    Args:
        receive: Of the ASGI call, after the whole body was received.
        send: Of the ASGI call.
        options: The form of the response.
        deadlines: How long it may take.
        on_closed: Called once if the client is gone or does not read, unless the response is complete.
        headers: Further headers.
        is_stream: Open a stream even if the response comes first, as for a subscription. An error status is still sent as JSON.
        opening: Sent first if a stream is opened.
        identity: The caller, if the server asks for one.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        options: HttpOptions,
        deadlines: HttpDeadlines,
        on_closed: Callable[[Reply], None],
        *,
        headers: Sequence[Header] = (),
        is_stream: bool = False,
        opening: bytes = b"",
        identity: Identity | None = None,
    ) -> None:
        self.identify(identity)
        self._receive = receive
        self._send = send
        self._deadlines = deadlines
        self._on_closed = on_closed
        self._opening = opening
        self._headers = headers
        self._expires = identity.expires if is_stream and identity is not None else None
        self._is_stream = is_stream or options.responses == "stream"
        self._form = _Form.UNDECIDED
        self._status = OK
        self._pending: list[bytes] = []  # the JSON body, or events
        self._buffered = 0  # bytes in _pending and in the write that is under way
        self._is_ended = False  # nothing is added any more
        self._is_closed = False  # complete, or the client is gone
        self._waiting: asyncio.Future[bool] | None = None  # the ASGI call, for something to write
        self._draining: asyncio.Future[None] | None = None  # handlers, for the client to read
        self._watching: asyncio.Task[None] | None = None

    # For the connection

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closed

    @property
    def can_be_json(self) -> bool:
        """Whether the response is a JSON body if it is added now."""
        return self._form is _Form.UNDECIDED and not self._is_stream

    @property
    def is_blocked(self) -> bool:
        """Whether handlers should wait until the client has read more."""
        return self._buffered > _HIGH_WATER and not self._is_closed

    def add(self, line: bytes, *, is_last: bool, status: int = OK, event_id: str | None = None) -> None:
        """Add a message. The last one is the response, or whatever ends the stream. Without a client it has no effect."""
        if self._is_closed or self._is_ended:
            return
        if is_last and self._form is _Form.UNDECIDED and (status != OK or not self._is_stream):
            self._form = _Form.JSON
            self._status = status
            self._is_ended = True
            self._push(line)
        else:
            self._is_ended = is_last
            self.add_event(encode_event(line, id=event_id))

    def add_event(self, event: bytes) -> None:
        """Add an encoded event to the stream."""
        if self._is_closed:
            return
        if self._buffered > _MAX_BUFFERED and not self._is_ended:
            self.lose()
            return
        self._form = _Form.STREAM
        self._push(event)

    def end(self) -> None:
        """End the stream after what was added, without a response."""
        if not self._is_ended and not self._is_closed:
            self._is_ended = True
            self._form = _Form.STREAM
            self._end_wait()

    def lose(self) -> None:
        """Give the client up: drop what it has not read, and end the ASGI call."""
        if self._is_closed:
            return
        self._is_closed = True
        self._pending.clear()
        self._end_wait()
        self._let_handlers_go()
        self._on_closed(self)

    async def drain(self) -> None:
        """Wait while the client does not read. Raises nothing."""
        while self.is_blocked:
            if self._draining is None:
                self._draining = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._draining)

    # For the ASGI call

    async def run(self) -> None:
        """Send the response, and return when it is complete or the client is gone."""
        expiry = self._lose_at_expiry()
        try:
            if self._form is _Form.UNDECIDED and not self._is_stream and not await self._wait(self._deadlines.watch):
                self._watch()
                await self._wait(self._deadlines.keep_alive)
            if self._is_closed:
                return
            if self._form is _Form.JSON:
                await self._send_json()
            else:
                self._form = _Form.STREAM
                await self._send_stream()
        except OSError:  # the client is gone; or TimeoutError, a subclass: it does not read
            self.lose()
        except BaseException:
            self.lose()
            raise
        finally:
            if self._watching is not None:
                self._watching.cancel()
            if expiry is not None:
                expiry.cancel()

    def _lose_at_expiry(self) -> asyncio.TimerHandle | None:
        """Close a stream that could outlive the token of its client by any time when the token expires."""
        if self._expires is None:
            return None
        return asyncio.get_running_loop().call_later(max(0.0, self._expires - time.time()), self.lose)

    async def _send_json(self) -> None:
        (body,) = self._pending
        if len(body) <= _HIGH_WATER:
            with self._deadlines.write.limit():
                await respond(self._send, self._status, body, JSON, more=self._headers)
        else:
            length = (b"content-length", b"%d" % len(body))
            await self._write({"type": "http.response.start", "status": self._status, "headers": [JSON, length, *self._headers]})
            await self._write_body(body)
            await self._write({"type": "http.response.body", "body": b""})
        self._complete()

    async def _send_stream(self) -> None:
        self._watch()
        await self._write({"type": "http.response.start", "status": OK, "headers": [*_STREAM_HEADERS, *self._headers]})
        if self._opening or not self._pending:
            # Without an opening a comment, because some servers send the headers with the first part of the body.
            self._pending.insert(0, self._opening or COMMENT)
        while not self._is_closed:
            if self._pending or self._is_ended:
                data = b"".join(self._pending)
                self._pending.clear()
                is_whole = self._is_ended and len(data) <= _HIGH_WATER  # otherwise the last part waits for the client to read
                if is_whole:
                    await self._write({"type": "http.response.body", "body": data, "more_body": False})
                else:
                    await self._write_body(data)
                self._buffered = sum(map(len, self._pending))
                self._let_handlers_go()
                if is_whole:
                    self._complete()
            elif not await self._wait(self._deadlines.keep_alive) and not (self._pending or self._is_ended):
                self._pending.append(COMMENT)

    async def _write_body(self, data: bytes) -> None:
        """Write a part of the body in slices: ASGI servers wait before each until the client has read most of the one before it.

        So ``write_timeout`` is the time for a slice, and a slow client that reads may take longer for all of them.
        """
        for start in range(0, len(data), _SLICE):
            if self._is_closed:
                return
            await self._write({"type": "http.response.body", "body": data[start : start + _SLICE], "more_body": True})

    async def _write(self, message: dict[str, object]) -> None:
        with self._deadlines.write.limit():
            await self._send(message)

    async def _wait(self, deadlines: Deadlines) -> bool:
        """Wait for a message or the end. False if neither comes in time."""
        if self._pending or self._is_ended or self._is_closed:
            return True  # it came in the turn of the event loop in which an earlier wait ended
        self._waiting = asyncio.get_running_loop().create_future()
        deadlines.add(self)
        try:
            return await self._waiting
        finally:
            deadlines.remove(self)
            self._waiting = None

    def expire(self) -> None:
        """End the wait: nothing has come in time."""
        self._end_wait(is_in_time=False)

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._wait_for_disconnect(), name="twopipes disconnect")

    async def _wait_for_disconnect(self) -> None:
        with suppress(Exception):  # whatever the server raises, it cannot serve this client any more
            while (await self._receive())["type"] != "http.disconnect":
                pass
        self.lose()

    # Internals

    def _push(self, data: bytes) -> None:
        self._pending.append(data)
        self._buffered += len(data)
        self._end_wait()

    def _end_wait(self, *, is_in_time: bool = True) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(is_in_time)

    def _complete(self) -> None:
        self._is_closed = True
        self._let_handlers_go()

    def _let_handlers_go(self) -> None:
        if self._draining is not None and not self.is_blocked:
            self._draining.set_result(None)
            self._draining = None
