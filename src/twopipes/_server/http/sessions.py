"""The sessions of legacy clients: found by ``Mcp-Session-Id``, bounded in number and age, each with its own streams.

A session lives in the process that opened it. The workers of one server pass requests to the one that has the session. A balancer
in front of several servers must route by the header, for example by a hash of it. A session ends by DELETE, after ``session_idle``
seconds without use, to make room for a new one, and with the server. Then its id is unknown, and the client opens another session
(HT-41).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from twopipes._channels.fork import in_forked_children
from twopipes._codes import INVALID_REQUEST, PARSE_ERROR
from twopipes._http.auth import Identity
from twopipes._http.event_store import EventBudget, EventStore
from twopipes._http.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from twopipes._http.options import HttpOptions
from twopipes._http.refusal import Refusal
from twopipes._http.status import OK
from twopipes._jsonrpc import Batch, Message, Request
from twopipes._protocol.revisions import LEGACY, is_modern
from twopipes._server.http.asgi import Header, refuse, respond
from twopipes._server.http.connection import HttpServerConnection
from twopipes._server.http.deadlines import HttpDeadlines
from twopipes._server.http.peers import Peers
from twopipes._server.http.reply import Reply
from twopipes._server.http.stream import LegacyStream
from twopipes._session.base import Outbound
from twopipes._wire import LineRejected

if TYPE_CHECKING:
    from twopipes._server.app import Server
    from twopipes._server.http.app import Arrived

# Random bytes of a session id (HT-36).
_ID_BYTES: Final = 32
# The first revision whose clients expect an event without data at the start of a stream (HT-32).
_PRIMED_SINCE: Final = "2025-11-25"
# Finished streams of one session whose end a client may have missed.
_MAX_FINISHED: Final = 16
# How many times the bytes of one session all sessions together may keep.
_SHARED_BYTES: Final = 64

_NO_ID: Final = Refusal(400, "the header Mcp-Session-Id is missing; send initialize first, which returns one")  # HT-40
_UNKNOWN: Final = Refusal(404, "this session does not exist, or no longer; send initialize to open another one")  # HT-41
_FULL: Final = Refusal(503, "too many sessions are in use; try again later", ((b"retry-after", b"5"),))
_BUSY: Final = Refusal(503, "too many requests or streams are open; try again later", ((b"retry-after", b"1"),))
_CONNECTED: Final = Refusal(409, "this session has a stream already; close it before opening another one")
_GONE: Final = Refusal(400, "events after this Last-Event-ID are not available any more; send the request again")
_NOT_ACCEPTED: Final = Refusal(406, "GET opens a stream of events; send Accept: text/event-stream")
_ONLY_POST: Final = Refusal(405, "revisions from 2026-07-28 have no sessions and use only POST", ((b"allow", b"POST"),))


class LegacyConnection(HttpServerConnection):
    """The handlers of one legacy session. What belongs to no request goes to the stream of GET."""

    standalone: LegacyStream

    def _send_to(self, stream: Any, message: Outbound, *, is_last: bool) -> None:
        # These revisions have a status only for what is not a message.
        is_bad = message.is_refusal and message.error_code in {PARSE_ERROR, INVALID_REQUEST}
        stream.add(message.line, is_last=is_last, status=400 if is_bad else OK)

    def _send_unrelated(self, message: Outbound) -> None:
        self.standalone.add(message.line, is_last=False)


class LegacySession:
    """One session: its connection and its streams.

    Attributes:
        id: Its id.
        owner: The identity that opened it; only that one may use it.
        connection: Its handlers.
        standalone: The stream of GET.
        open_replies: How many HTTP responses are open.
        last_used: When the last request arrived or the last response ended.
    """

    def __init__(self, prefix: str, connection: LegacyConnection, options: HttpOptions, budget: EventBudget, owner: str) -> None:
        self.id = prefix + secrets.token_urlsafe(_ID_BYTES)
        self.owner = owner
        self.connection = connection
        self.open_replies = 0
        self.last_used = 0.0
        self._events = EventStore(max_events=options.events_per_stream, max_bytes=options.event_bytes, budget=budget)
        self._streams: dict[int, LegacyStream] = {}
        self._finished: deque[LegacyStream] = deque()
        self.standalone = connection.standalone = self._add_stream(is_primed=False)

    @property
    def is_busy(self) -> bool:
        """Whether a client is connected or a handler runs."""
        return bool(self.open_replies or self.connection.session.incoming)

    @property
    def revision(self) -> str | None:
        """The revision that was agreed on; ``None`` if the handshake was refused."""
        spoken = self.connection.session.session_dialect
        return None if spoken is None else spoken.revision

    def new_stream(self, identity: Identity | None) -> LegacyStream:
        """Return a stream for one POST."""
        return self._add_stream(is_primed=self.is_primed, identity=identity)

    @property
    def is_primed(self) -> bool:
        """Whether streams start with an id to resume from."""
        return (self.revision or "") >= _PRIMED_SINCE

    def stream_of(self, event_id: str) -> LegacyStream | None:
        """Return the stream that an event id belongs to, if it is still kept."""
        number = self._events.stream_of(event_id)
        return None if number is None else self._streams.get(number)

    def close(self) -> None:
        """End every stream, and forget the events."""
        for stream in list(self._streams.values()):
            stream.end()
        self._streams.clear()
        self._events.close()

    def _add_stream(self, *, is_primed: bool, identity: Identity | None = None) -> LegacyStream:
        stream = LegacyStream(self._events, is_primed=is_primed, identity=identity, on_finished=self._keep_finished)
        self._streams[stream.number] = stream
        return stream

    def _keep_finished(self, stream: LegacyStream) -> None:
        """Keep the last streams that have finished, for clients that missed the end."""
        if stream.has_events:
            self._finished.append(stream)
            if len(self._finished) <= _MAX_FINISHED:
                return
            stream = self._finished.popleft()
        self._streams.pop(stream.number, None)
        self._events.drop(stream.number)


class LegacySessions:
    """Every session of one application.

    Args:
        server: Serves them all.
        options: Limits.
        deadlines: Of the replies.
        runner: The options of each connection.
        peers: The other workers.
    """

    def __init__(
        self,
        server: Server[Any],
        options: HttpOptions,
        deadlines: HttpDeadlines,
        runner: Mapping[str, Any],
        *,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers
        self._prefix = f"{options.session_prefix}." if options.session_prefix else ""
        self._server = server
        self._options = options
        self._deadlines = deadlines
        self._runner = runner
        self._loop = asyncio.get_running_loop()
        self._budget = EventBudget(options.event_bytes * _SHARED_BYTES)
        self._sessions: OrderedDict[str, LegacySession] = OrderedDict()  # the one that was used last comes last
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._open_requests = 0
        self._open_streams = 0
        self._remove_hook = in_forked_children(self._abandon)

    def __len__(self) -> int:
        return len(self._sessions)

    def connections(self) -> Iterator[LegacyConnection]:
        """Yield the connection of each session."""
        return iter([session.connection for session in self._sessions.values()])

    # HTTP requests

    async def open(self, arrived: Arrived, message: Request, size: int) -> None:
        """Open a session with an ``initialize``."""
        if not self._make_room():
            await refuse(arrived.send, _FULL, request=message, more=arrived.cors)
            return
        connection = LegacyConnection(self._server._new_session(), **self._runner)
        prefix = self._prefix if self._peers is None else f"{self._prefix}{self._peers.index}."
        session = LegacySession(prefix, connection, self._options, self._budget, _owner(arrived))
        headers = [*arrived.cors]
        stream = session.new_stream(arrived.identity)
        reply = self._reply(arrived, stream, headers)
        session.connection.receive(message, size, stream)
        if session.revision is not None:
            headers.append((b"mcp-session-id", session.id.encode("ascii")))
            self._sessions[session.id] = session
            self._server._connections.add(connection)
            self._use(session)
        await self._run(session, reply)
        if session.revision is None:
            self._end(session)  # the handshake was refused, by the session or by the author's middleware

    async def post(self, arrived: Arrived, session_id: str, body: bytes) -> None:
        """Handle the body of a POST of a session."""
        session = await self._find(arrived, session_id, body)
        if session is None:
            return
        message = session.connection.session.decode(body)
        if isinstance(message, LineRejected):
            if message.is_response:  # the handler that asked does not wait for another one
                session.connection.receive(message, len(body), None)
            await refuse(arrived.send, Refusal(400, str(message), code=message.code), request=message, more=arrived.cors)
        elif not _gets_response(message):
            session.connection.receive(message, len(body), None)
            await respond(arrived.send, 202, more=arrived.cors)  # HT-10
        elif self._open_requests >= self._options.max_requests:
            await refuse(arrived.send, _BUSY, request=message, more=arrived.cors)
        else:
            stream = session.new_stream(arrived.identity)
            reply = self._reply(arrived, stream, arrived.cors)
            session.connection.receive(message, len(body), stream)
            self._open_requests += 1
            try:
                await self._run(session, reply)
            finally:
                self._open_requests -= 1

    async def serve_other(self, arrived: Arrived) -> None:
        """Handle GET and DELETE."""
        session_id = arrived.headers.get(SESSION_ID)
        version = arrived.headers.get(PROTOCOL_VERSION)
        if version is not None and is_modern(version):
            await refuse(arrived.send, _ONLY_POST, more=arrived.cors)
        elif session_id is None:
            await refuse(arrived.send, _NO_ID, more=arrived.cors)
        elif (session := await self._find(arrived, session_id)) is not None:
            if arrived.scope["method"] == "DELETE":
                self._end(session)
                await respond(arrived.send, 204, more=arrived.cors)
            else:
                await self._get(arrived, session)

    async def _get(self, arrived: Arrived, session: LegacySession) -> None:
        last_event_id = arrived.headers.get(LAST_EVENT_ID)
        stream = session.standalone if last_event_id is None else session.stream_of(last_event_id)
        refusal: Refusal | None = None
        if not _accepts_events(arrived.headers.get("accept", "")):
            refusal = _NOT_ACCEPTED
        elif stream is None:
            refusal = _GONE
        elif last_event_id is None and stream.is_attached:
            refusal = _CONNECTED
        elif self._open_streams >= self._options.max_streams:
            refusal = _BUSY
        else:
            opening = stream.opening if last_event_id is None and session.is_primed else b""
            reply = Reply(
                arrived.receive,
                arrived.send,
                self._options,
                self._deadlines,
                stream.detach,
                headers=arrived.cors,
                is_stream=True,
                opening=opening,
                identity=arrived.identity,
            )
            if stream.resume(reply, last_event_id):
                await self._run_stream(session, reply)
                return
            refusal = _GONE
        await refuse(arrived.send, refusal, more=arrived.cors)

    async def _find(self, arrived: Arrived, session_id: str, body: bytes = b"") -> LegacySession | None:
        """Return a session for its owner; otherwise let another worker serve the request, or refuse it."""
        session = self._sessions.get(session_id)
        if session is None and self._peers is not None and not self._peers.sent(arrived.scope):
            worker = self._peers.worker_in(session_id.removeprefix(self._prefix))
            if worker is not None and await self._peers.forward(worker, arrived, body):
                return None
        version = arrived.headers.get(PROTOCOL_VERSION)
        if session is None or session.owner != _owner(arrived):
            refusal = _UNKNOWN
        elif version is not None and version not in LEGACY:
            refusal = Refusal(400, f"MCP-Protocol-Version {version[:40]!r} is not supported; this session uses {session.revision}")
        else:
            self._use(session)
            return session
        await refuse(arrived.send, refusal, more=arrived.cors)
        return None

    def _reply(self, arrived: Arrived, stream: LegacyStream, headers: list[Header] | tuple[Header, ...]) -> Reply:
        reply = Reply(
            arrived.receive,
            arrived.send,
            self._options,
            self._deadlines,
            stream.detach,
            headers=headers,
            opening=stream.opening,
            identity=arrived.identity,
        )
        stream.attach(reply)
        return reply

    async def _run(self, session: LegacySession, reply: Reply) -> None:
        session.open_replies += 1
        try:
            await reply.run()
        finally:
            session.open_replies -= 1
            self._use(session)

    async def _run_stream(self, session: LegacySession, reply: Reply) -> None:
        self._open_streams += 1
        try:
            await self._run(session, reply)
        finally:
            self._open_streams -= 1

    # The life of sessions

    def _use(self, session: LegacySession) -> None:
        session.last_used = self._loop.time()
        if session.id in self._sessions:
            self._sessions.move_to_end(session.id)
            if self._timer is None:
                self._timer = self._loop.call_later(self._options.session_idle, self._end_idle)

    def _make_room(self) -> bool:
        """Whether another session can be opened, after ending the one that was idle for the longest time if necessary."""
        if len(self._sessions) < self._options.max_sessions:
            return True
        idle = next((session for session in self._sessions.values() if not session.is_busy), None)
        if idle is not None:
            self._end(idle)
        return idle is not None

    def _end_idle(self) -> None:
        """End the sessions that were not used for ``session_idle`` seconds, and look again when the next one may be due."""
        self._timer = None
        now = self._loop.time()
        for session in list(self._sessions.values()):
            if session.last_used + self._options.session_idle > now:
                break  # the others were used later
            if session.is_busy:
                self._use(session)
            else:
                self._end(session)
        if self._sessions and self._timer is None:
            oldest = next(iter(self._sessions.values()))
            self._timer = self._loop.call_at(oldest.last_used + self._options.session_idle, self._end_idle)

    def _end(self, session: LegacySession) -> None:
        self._sessions.pop(session.id, None)
        self._server._connections.discard(session.connection)
        task = self._loop.create_task(self._stop(session), name="twopipes session end")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _stop(self, session: LegacySession) -> None:
        try:
            await session.connection.stop()
        finally:
            session.close()

    async def close(self) -> None:
        """End every session."""
        self._remove_hook()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in list(self._sessions.values()):
            self._end(session)
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _abandon(self) -> None:
        """Silence the copies of the connections in a forked process."""
        for connection in self.connections():
            connection.abandon()


def _owner(arrived: Arrived) -> str:
    return "" if arrived.identity is None else arrived.identity.subject


def _gets_response(message: Message | Batch) -> bool:
    if isinstance(message, Batch):
        return not message.members or any(isinstance(member, Request | LineRejected) for member in message.members)
    return isinstance(message, Request)


def _accepts_events(accept: str) -> bool:
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    return any(kind in {"text/event-stream", "text/*", "*/*"} for kind in kinds)
