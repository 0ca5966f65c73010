"""A connection over HTTP: each message of the client is a POST, and what the server sends about it comes back on that exchange.

An exchange that fails ends its own request; the connection goes on, so a server that was unreachable for a while is simply used
again. Only one thing ends the connection from outside: a legacy server that no longer knows the session.

In a legacy session, a stream that was lost before its response is resumed, and the server sends what belongs to no request on the
stream of a GET; see :mod:`twopipes._client.http_stream`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import UNSET, structs

from twopipes._client.connection import Cause, ClientConnection
from twopipes._client.http_exchange import EVENT_STREAM, JSON, BodyTooLong, Disconnected, HttpExchange, HttpResponse
from twopipes._client.http_stream import ServerStream
from twopipes._client.targets import Observe
from twopipes._client.tool_headers import ToolHeaders
from twopipes._codes import HEADER_MISMATCH, METHOD_NOT_FOUND
from twopipes._http.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from twopipes._http.sse import SseEvent
from twopipes._jsonrpc import Batch, ErrorResponse, Message, salvage_id
from twopipes._protocol.types import ListToolsResult
from twopipes._session.base import Outbound
from twopipes._session.client import ClientSession
from twopipes._session.eras import ClientPhase
from twopipes._session.events import CallReceived, ClientOpened, OpeningEnded, RequestEnded
from twopipes._session.ledger import Call, SentRequest
from twopipes._wire import LineRejected
from twopipes.errors import ConnectionLost, HttpError, LocalProtocolError, OpeningFailed, RemoteProtocolError, TwopipesError

_log = logging.getLogger("twopipes.client")

_POST: Final = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENT_STREAM}"}
_GET: Final = {"Accept": EVENT_STREAM}
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,4096}")
# Statuses with which a legacy server may refuse a probe that it does not understand. With others, the handshake would fail too.
_MAY_BE_LEGACY: Final = frozenset({400, 404, 405, 406, 409, 411, 415, 422, 500, 501})
_ABOUT_AUTHORIZATION: Final = frozenset({401, 403, 407})
# Seconds in which a stream may end after its response, so that its connection can be used again.
_LAST_READ: Final = 1.0
# Seconds to wait for the stream of GET before the session is used. Some servers send no headers before the first event.
_STREAM_WAIT: Final = 0.5
# Bytes that a message which waits to be sent takes besides its line: a task.
_NOTICE_COST: Final = 2048


class HttpClientConnection(ClientConnection):
    """Runs a session over HTTP. ``collaborators`` are the arguments of :class:`ClientConnection`.

    Args:
        session: The protocol.
        exchange: Sends the HTTP requests.
        tool_headers: The headers that tools ask for.
        observers: Called with the direction and the line of each message.
    """

    renews_listens = True

    def __init__(
        self,
        session: ClientSession,
        exchange: HttpExchange,
        *,
        tool_headers: ToolHeaders,
        observers: Sequence[Observe] = (),
        **collaborators: Any,
    ) -> None:
        super().__init__(session, **collaborators)
        self._http = exchange
        self._tool_headers = tool_headers
        self._observers = observers
        self._session_id: str | None = None
        self._exchanges: dict[SentRequest, asyncio.Task[None]] = {}
        self._notices: set[asyncio.Task[None]] = set()  # messages that get no response
        self._last_notice: asyncio.Task[None] | None = None
        self._unsent = 0  # bytes of the notices
        self._stream: asyncio.Task[None] | None = None  # of GET

    # Opening and closing

    async def open(self) -> ClientOpened | OpeningEnded:
        """Open the session. After a cancellation the connection must still be closed."""
        outcome = await super().open()
        if isinstance(outcome, ClientOpened) and outcome.era == "legacy":
            if self._last_notice is not None:
                await asyncio.wait([self._last_notice])  # LC-04: requests follow notifications/initialized
            is_open = asyncio.Event()
            self._stream = self.loop.create_task(self._listen(is_open), name=f"the stream of {self._http.url}")
            with suppress(TimeoutError):
                async with asyncio.timeout(_STREAM_WAIT):
                    await is_open.wait()
        return outcome

    async def close(self) -> None:
        """End all exchanges and the session of the server, after :meth:`end`."""
        if self._notices:
            await asyncio.wait(self._notices, timeout=self.session.timeouts.shutdown)
        tasks = [*self._exchanges.values(), *self._notices, *self._answering.values()]
        if self._stream is not None:
            tasks.append(self._stream)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            await self._delete_session()
        finally:
            await self._http.close()

    async def _delete_session(self) -> None:
        """End the session of a legacy server (HT-43). Whether that works does not matter any more."""
        if self._session_id is not None:
            headers = self._legacy_headers()
            self._session_id = None
            with suppress(TimeoutError, HttpError, Disconnected):
                async with asyncio.timeout(self.session.timeouts.shutdown), self._http.send("DELETE", headers):
                    pass

    # Sending

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if not self._is_over:
            for message in self.session.messages_to_send():
                self._send(message)

    def _send(self, message: Outbound) -> None:
        asked = message.about
        if asked is None:
            self._send_notice(message.line)
        elif asked not in self._exchanges:
            task = self.loop.create_task(self._exchange(asked, message.line), name=f"{asked.method} {asked.id}")
            self._exchanges[asked] = task
            task.add_done_callback(lambda _: self._exchanges.pop(asked, None))
        else:  # it cancels the request
            self._exchanges[asked].cancel()  # HT-21: closes the stream
            if not self._is_modern:
                self._send_notice(message.line)  # HT-23

    def _send_notice(self, line: bytes) -> None:
        """Send a notification, or a response to a legacy server. They keep their order, and later requests wait for them."""
        task = self.loop.create_task(self._post_notice(line, self._last_notice))
        self._last_notice = task
        self._notices.add(task)
        self._unsent += len(line) + _NOTICE_COST
        task.add_done_callback(lambda ended: self._notice_ended(ended, len(line) + _NOTICE_COST))

    def _notice_ended(self, task: asyncio.Task[None], cost: int) -> None:
        self._unsent -= cost
        self._notices.discard(task)
        if self._last_notice is task:
            self._last_notice = None

    async def _post_notice(self, line: bytes, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._note(">", line)
        try:
            async with (
                asyncio.timeout(self.session.timeouts.request),
                self._http.send("POST", self._headers(line), line) as response,
            ):
                if response.status == 404 and self._session_id is not None:
                    await self._lose_session()
                elif not response.is_ok:
                    raise response.error(await response.read_error())
        except (TwopipesError, Disconnected, TimeoutError) as error:
            _log.warning("a message was not delivered: %s", str(error) or type(error).__name__)

    @property
    def _is_modern(self) -> bool:
        spoken = self.session.spoken
        return spoken is not None and spoken.modern

    def _headers(self, about: SentRequest | bytes) -> Mapping[str, str]:
        """Return the headers of a POST: those of a request, or of the line of another message."""
        spoken = self.session.spoken
        assert spoken is not None, "the session sends nothing before it is opened"
        if not spoken.modern:
            is_first = isinstance(about, SentRequest) and about.method == "initialize"
            return _POST if is_first else {**_POST, **self._legacy_headers()}
        if isinstance(about, SentRequest):
            return {**_POST, **self._tool_headers.headers_of(about.method, about.params, spoken.revision)}
        return {**_POST, PROTOCOL_VERSION: spoken.revision}

    def _legacy_headers(self) -> dict[str, str]:
        """Return the headers of a legacy session (HT-38)."""
        spoken = self.session.session_dialect
        headers = {} if spoken is None else {PROTOCOL_VERSION: spoken.revision}
        if self._session_id is not None:
            headers[SESSION_ID] = self._session_id
        return headers

    # One exchange

    async def _exchange(self, asked: SentRequest, line: bytes) -> None:
        """Send one request and take everything that the server sends about it. It always ends the request."""
        failure: TwopipesError | None = None
        try:
            if self._last_notice is not None:
                await asyncio.wait([self._last_notice])
            self._note(">", line)
            async with self._http.send("POST", self._headers(asked), line) as response:
                self.sent += len(line)
                if asked.method == "initialize":
                    self._session_id = _session_id(response)
                await self._take_response(asked, response)
            if self._is_open(asked):
                failure = RemoteProtocolError(f"the response to {asked.method} has another id")
        except Disconnected as error:
            failure = ConnectionLost(asked.method, asked.id, why=str(error))
        except BodyTooLong:
            failure = RemoteProtocolError(
                f"the response to {asked.method} is over the limit of {self.session.limits.max_line:,} bytes"
            )
        except TwopipesError as error:
            failure = error
        except Exception as error:  # a mistake of ours must not leave the caller waiting
            self.loop.call_exception_handler({"message": f"the exchange for {asked.method} failed", "exception": error})
            failure = ConnectionLost(asked.method, asked.id, why=f"{type(error).__name__}: {error}")
        if failure is not None:
            self._fail(asked, failure)

    async def _take_response(self, asked: SentRequest, response: HttpResponse) -> None:
        if response.status == 404 and self._session_id is not None:
            await self._lose_session(asked)
        elif response.is_ok and response.content_type == EVENT_STREAM:
            await self._take_stream(asked, response)
        elif response.is_ok and response.content_type == JSON:
            self._take_body(await response.read(self.session.limits.max_line), asked)
        elif response.status == 202:
            raise RemoteProtocolError(
                f"the server accepted {asked.method} with HTTP 202, which means that there will be no response"
            )
        else:
            body = await response.read_error()
            # HT-45: the body of an error status may be a JSON-RPC error; the session knows what it means. A refused token is not
            # about the request.
            is_message = response.content_type == JSON and not response.is_ok and response.status not in _ABOUT_AUTHORIZATION
            if not (is_message and self._take_error(body, asked, response.status)):
                raise response.error(body)

    def _take_body(self, body: bytes, asked: SentRequest) -> None:
        self._take_message(body, asked)
        if self._is_open(asked) and isinstance(rejected := self.session.decode_body(body), LineRejected):
            raise RemoteProtocolError(f"the response to {asked.method} is {rejected}", excerpt=rejected.excerpt)

    def _take_error(self, body: bytes, asked: SentRequest, status: int) -> bool:
        """Take the JSON-RPC error of a response with an error status. Return False if it is something else."""
        message = self.session.decode_body(body)
        if not isinstance(message, ErrorResponse) or (status == 404 and message.error.code != METHOD_NOT_FOUND):
            return False  # with any other code, 404 is about the path
        if asked.method == "server/discover" and message.error.code == HEADER_MISMATCH and not self._opening.done():
            # HT-45: a modern server. It would refuse the handshake too, with an error that explains less.
            raise OpeningFailed(
                f"the server refused the headers of server/discover: {message.error.message}; does a proxy change headers?"
            )
        self._note("<", body)
        # Servers that could not read the request send an id of their own, or none. The exchange shows which request it was.
        self._receive(structs.replace(message, id=asked.id), len(body))
        return True

    def _fail(self, asked: SentRequest, error: TwopipesError) -> None:
        """End a request whose exchange failed."""
        if isinstance(error, HttpError):
            error.method, error.request_id = asked.method, asked.id
        if self._opening.done():
            self._process(self.session.lose(asked, error, now=self.loop.time()))
            return
        if self.session.phase is ClientPhase.PROBING and self._may_be_legacy(error):
            # HT-46. Any error but a lost connection makes the session fall back; a lost one would mean that a child died.
            self._process(self.session.lose(asked, RemoteProtocolError(str(error)), now=self.loop.time()))
        elif self._is_open(asked):
            self._end_opening(error)

    def _may_be_legacy(self, error: TwopipesError) -> bool:
        """Whether a server that did not answer the probe may still take the handshake."""
        if not isinstance(error, HttpError):
            return not isinstance(error, OpeningFailed | LocalProtocolError)
        return error.status in _MAY_BE_LEGACY and (self.session.profile.eras == "both" or error.reason != "not found")

    def _end_opening(self, error: TwopipesError) -> None:
        """Fail the opening: the handshake cannot succeed either."""
        if isinstance(error, HttpError):
            error.method = None  # the user asked for a connection, not for this request
        if not self._opening.done():
            self._opening.set_result(OpeningEnded(error))

    def _tick(self) -> None:
        super()._tick()
        # A request that timed out during the opening is not cancelled by a message, but its exchange ends too.
        for asked, task in list(self._exchanges.items()):
            if not asked.cancellable and not self._is_open(asked):
                task.cancel()

    def _is_open(self, asked: SentRequest) -> bool:
        return self.session.outgoing.get(asked.id) is asked

    # Streams

    async def _take_stream(self, asked: SentRequest, response: HttpResponse) -> None:
        """Take the events of a response, and resume a stream of a legacy session that was lost before its end (HT-35)."""
        stream = ServerStream(self.session.limits)
        try:
            await self._read_events(stream, response, asked)
        except Disconnected as error:
            stream.why_lost = str(error)
        while self._is_open(asked):
            if self._is_modern or not stream.can_resume:
                why = stream.why_lost or "the stream ended without it"
                raise ConnectionLost(asked.method, asked.id, why=why)
            await asyncio.sleep(stream.pause())
            await self._resume(stream, asked)

    async def _resume(self, stream: ServerStream, asked: SentRequest) -> None:
        headers = {**_GET, **self._legacy_headers(), LAST_EVENT_ID: stream.last_id}
        try:
            async with self._http.send("GET", headers) as response:
                if response.status == 404 and self._session_id is not None:
                    await self._lose_session(asked, was_handled=True)
                elif response.is_ok and response.content_type == EVENT_STREAM:
                    await self._read_events(stream, response, asked)
                else:
                    raise ConnectionLost(asked.method, asked.id, why=f"its stream cannot be resumed: HTTP {response.status}")
        except (HttpError, Disconnected) as error:
            stream.why_lost = str(error)
            stream.failed()

    async def _read_events(self, stream: ServerStream, response: HttpResponse, asked: SentRequest | None) -> None:
        """Take events until the stream ends. Once the request has its response, wait only a moment for the end."""
        chunks = response.chunks()
        stream.begin()
        async for chunk in chunks:
            for event in stream.feed(chunk):
                self._take_event(event, asked)
            await self._wait_for_notices()
            if asked is not None and not self._is_open(asked):
                with suppress(TimeoutError, Disconnected):
                    async with asyncio.timeout(_LAST_READ):
                        async for chunk in chunks:  # noqa: PLW2901 - the same stream, read to its end
                            for event in stream.feed(chunk):
                                self._take_event(event, asked)
                return

    @property
    def _is_full(self) -> bool:
        limit = self.session.limits.max_unsent
        return super()._is_full or (limit is not None and self._unsent > limit)

    async def _wait_for_notices(self) -> None:
        """Read no further while the server leaves too many of our responses, of which it can demand any number."""
        limit = self.session.limits.max_unsent
        while limit is not None and self._unsent > limit and self._notices:
            await asyncio.wait(self._notices, return_when=asyncio.FIRST_COMPLETED)  # each has a timeout

    def _take_event(self, event: SseEvent | LineRejected, asked: SentRequest | None) -> None:
        if isinstance(event, LineRejected):
            self._receive(salvage_id(event), event.size)
        elif event.type == "message" and event.data:
            self._take_message(event.data, asked)

    async def _listen(self, is_open: asyncio.Event) -> None:
        """Keep the stream of GET open: messages of a legacy server that belong to no request."""
        stream = ServerStream(self.session.limits)
        while True:
            headers = {**_GET, **self._legacy_headers()}
            if stream.last_id:
                headers[LAST_EVENT_ID] = stream.last_id
            try:
                async with self._http.send("GET", headers) as response:
                    is_open.set()
                    if response.status == 404 and self._session_id is not None:
                        await self._lose_session()
                        return
                    if not response.is_ok or response.content_type != EVENT_STREAM:
                        if response.error().retryable:
                            stream.failed()
                        else:
                            return  # HT-25: 405 means that the server has no such stream
                    else:
                        await self._read_events(stream, response, None)
            except HttpError as error:
                if not error.retryable:
                    return
                stream.failed()
            except Disconnected:
                stream.failed()
            except TwopipesError as error:  # of auth=
                self.loop.call_exception_handler({"message": f"the stream of {self._http.url} has ended", "exception": error})
                return
            finally:
                is_open.set()
            await asyncio.sleep(stream.pause())

    # Receiving

    def _take_message(self, data: bytes, asked: SentRequest | None) -> None:
        self._note("<", data)
        message = self.session.decode_body(data)
        if asked is not None and isinstance(message, ErrorResponse) and (message.id is None or message.id is UNSET):
            message = structs.replace(message, id=asked.id)
        self._receive(message, len(data), asked)

    def _receive(self, message: Message | Batch | LineRejected, size: int, asked: SentRequest | None = None) -> None:
        self.received_anything = True
        events = self.session.receive_message(message, size=size, now=self.loop.time())
        for event in events:
            if isinstance(event, CallReceived):
                event.call.context = asked
        self._handle(events)
        self._set_timer()
        if self.session.outbox:
            self._flush()

    def _causes_of(self, call: Call) -> Sequence[SentRequest]:
        # Only messages that belong to a request are on its stream.
        return super()._causes_of(call) if call.context is None else [call.context]

    def _settle(self, event: RequestEnded) -> None:
        if isinstance(event.result, ListToolsResult) and self._is_modern:
            event = structs.replace(event, result=self._tool_headers.learn(event.result))
        elif event.asked.raw and event.asked.method == "tools/list" and event.error is None and self._is_modern:
            event = structs.replace(event, result=self._tool_headers.learn_raw(event.result))
        super()._settle(event)

    def _note(self, direction: str, data: bytes) -> None:
        """Report a message as one line."""
        if self._observers:
            line = data if direction == ">" else data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
            for observe in self._observers:
                observe(direction, line)

    # The end of a legacy session

    async def _lose_session(self, asked: SentRequest | None = None, *, was_handled: bool = False) -> None:
        """End the connection, because the server does not know its session any more (HT-42). The supervisor opens another one."""
        self._session_id = None
        self.why_ended = "the server ended the session"
        if asked is not None:
            error = ConnectionLost(asked.method, asked.id, retryable=not was_handled, why=self.why_ended)
            self._handle(self.session.lose(asked, error, now=self.loop.time()))
        if not self.ended.done():
            cause: Cause = await self._post_mortem()
            self.end(cause)


def _session_id(response: HttpResponse) -> str | None:
    """Return the id of the session that the server opened, or ``None`` if it has no sessions."""
    found = response.headers.get(SESSION_ID)
    if found is not None and not _SESSION_ID.fullmatch(found):
        raise RemoteProtocolError("the id of the session has characters that are not allowed, or is too long")
    return found
