"""The ASGI application of a server: which requests reach a session, and which one.

In the modern era each POST is one exchange, and one session serves those of all clients. A legacy client opens a session of its own
with ``initialize``. The checks before that are ordered by cost, and a request that fails one of them never reaches a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec.json import Decoder

from twopipes._http.auth import Auth, Endpoint, Guard, Identity, Verifier
from twopipes._http.bus import Bus
from twopipes._http.headers import PROTOCOL_VERSION, SESSION_ID, check_headers
from twopipes._http.options import HttpOptions
from twopipes._http.origin import AccessList, cors_headers, preflight_headers
from twopipes._http.refusal import Refusal
from twopipes._jsonrpc import Batch, Message, Notification, Request
from twopipes._protocol.revisions import ALL, META_VERSION, is_modern
from twopipes._server.http.asgi import JSON, Header, Receive, Scope, Send, refuse, respond
from twopipes._server.http.body import read_body
from twopipes._server.http.param_headers import ToolHeaders
from twopipes._server.http.peers import Peers
from twopipes._server.http.reply import Reply
from twopipes._server.http.runtime import Runtime, RuntimeOwner
from twopipes._server.log import logger
from twopipes._wire import LineRejected
from twopipes.errors import HeaderMismatch

if TYPE_CHECKING:
    from twopipes._server.app import Server

_NOT_FOUND: Final = Refusal(404, "there is nothing at this path; check the URL of the server")
_BUSY: Final = Refusal(503, "too many requests are open; try again later", ((b"retry-after", b"1"),))
_ENDING: Final = Refusal(503, "the server is shutting down; try again later", ((b"retry-after", b"1"),))
_NOT_STARTED: Final = Refusal(500, "the server could not start; its log has the reason")
_SERVED: Final = ("POST", "GET", "DELETE")


class _Meta(Struct, rename={"version": META_VERSION}):
    version: Any = None


class _Mirrored(Struct, rename={"meta": "_meta"}):
    """The members of the params that headers repeat."""

    name: Any = None
    uri: Any = None
    arguments: Raw = Raw(b"null")
    meta: _Meta | None = None


_decode_mirrored = Decoder(_Mirrored).decode
_decode_any = Decoder().decode


class Arrived(Struct):
    """An HTTP request that was admitted."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Mapping[str, str]  # names in lower case; the values of a repeated header are joined
    identity: Identity | None
    cors: tuple[Header, ...]


class HttpApp:
    """An ASGI 3 application that serves one server.

    It starts with the first ``lifespan`` or ``http`` event, so it also works below a framework that passes no lifespan on.
    """

    def __init__(
        self,
        server: Server[Any],
        options: HttpOptions | None = None,
        *,
        auth: Auth | Verifier | None = None,
        bus: Bus | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers
        self.options = options or HttpOptions()
        self.server = server
        self._access = AccessList(hosts=self.options.hosts, origins=self.options.origins)
        self._guard = None if auth is None else Guard(auth)
        self._owner = RuntimeOwner(server, self.options, bus, peers)
        self._tool_headers = ToolHeaders(server)
        revisions = server._revisions
        self._is_legacy = any(not is_modern(revision) for revision in revisions)
        self._open_requests = 0
        # Bodies that are arriving. They are counted apart: an answer to a question must get through while every request waits.
        self._open_bodies = 0

    def __repr__(self) -> str:
        return f"<HttpApp of {self.server!r} at {self.options.path}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await self._owner.follow(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000, "reason": "MCP does not use WebSockets; send POST"})
            case other:
                raise RuntimeError(f"twopipes serves the ASGI scopes http and lifespan, not {other!r}")

    async def start(self) -> None:
        """Enter the lifespan of the server; see :meth:`stop`. Without it, the first event does.

        Raises:
            Exception: What the lifespan of the author raises.
        """
        await self._owner.start()

    async def stop(self) -> None:
        """Drain with the time of the server's settings, unless that is done, and leave the lifespan."""
        await self._owner.stop()

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, let running calls finish for at most ``seconds``, and end the subscriptions."""
        await self._owner.drain(seconds)

    # Checks

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers_of(scope)
        mount = scope.get("root_path", "")
        path = scope["path"].removeprefix(mount) or "/"
        if path == self.options.health:
            await self._report_health(send)  # whatever the Host: load balancers ask by address
            return
        server = scope.get("server")
        is_checked = self._peers is not None and self._peers.sent(scope)
        refusal = None if is_checked else self._access.check(headers, local=server[0] if server else None)
        cors = cors_headers(headers) if refusal is None else ()
        metadata = None
        if refusal is None and path != self.options.path:
            if self._guard is not None and self._guard.serves_metadata(path, self.options.path):
                metadata = self._guard.metadata(self._endpoint(scope, headers, mount))
            else:
                refusal = _NOT_FOUND
        if refusal is None and scope["method"] == "OPTIONS":
            await respond(send, 204, more=preflight_headers(headers))
            return
        if metadata is not None:
            await respond(send, 200, metadata, JSON, more=cors)
            return
        if refusal is None and (scope["method"] not in _SERVED or (scope["method"] != "POST" and not self._is_legacy)):
            refusal = self._wrong_method()
        identity: Identity | None = None
        if refusal is None and self._guard is not None:
            admitted = await self._guard.admit(headers, self._endpoint(scope, headers, mount))
            if isinstance(admitted, Refusal):
                refusal = admitted
            else:
                identity = admitted
        if refusal is not None:
            await refuse(send, refusal, more=cors)
            return
        await self._admitted(Arrived(scope, receive, send, headers, identity, cors))

    def _endpoint(self, scope: Scope, headers: Mapping[str, str], mount: str) -> Endpoint:
        return Endpoint(scope.get("scheme", "http"), headers.get("host"), mount, self.options.path)

    def _wrong_method(self) -> Refusal:
        allowed = ", ".join(_SERVED if self._is_legacy else ("POST",))
        return Refusal(405, f"this endpoint accepts {allowed}", ((b"allow", allowed.encode("ascii")),))

    async def _report_health(self, send: Send) -> None:
        is_healthy = self._owner.is_healthy
        await respond(send, 200 if is_healthy else 503, b'{"status":"%s"}' % (b"ok" if is_healthy else b"unavailable"), JSON)

    async def _admitted(self, arrived: Arrived) -> None:
        try:
            runtime = self._owner.runtime or await self._owner.start()
        except Exception:
            logger.exception("the server could not start")
            await refuse(arrived.send, _NOT_STARTED, more=arrived.cors)
            return
        if runtime.is_ending:
            await refuse(arrived.send, _ENDING, more=arrived.cors)
        elif arrived.scope["method"] != "POST":
            await runtime.sessions.serve_other(arrived)
        else:
            await self._post(arrived, runtime)

    # POST

    async def _post(self, arrived: Arrived, runtime: Runtime) -> None:
        if self._open_bodies >= self.options.max_requests:
            await refuse(arrived.send, _BUSY, more=arrived.cors)
            return
        self._open_bodies += 1
        try:
            body = await read_body(arrived.receive, arrived.headers, self.options.max_body, runtime.deadlines.read)
        finally:
            self._open_bodies -= 1
        if body is None:
            return  # the client is gone
        if runtime.is_ending:
            body = _ENDING  # the body came too late: no message is sent any more
        if isinstance(body, Refusal):
            await refuse(arrived.send, body, more=arrived.cors)
            return
        session_id = arrived.headers.get(SESSION_ID)
        if session_id is not None and self._is_legacy and not _names_modern(arrived.headers):
            await runtime.sessions.post(arrived, session_id, body)
            return
        message = runtime.modern.session.decode(body)
        is_legacy = self._is_legacy and not _names_modern(arrived.headers)
        if is_legacy and isinstance(message, Request) and message.method == "initialize":
            await runtime.sessions.open(arrived, message, len(body))
            return
        refusal = self._check_modern(arrived, message, runtime)
        if refusal is not None:
            await refuse(arrived.send, refusal, request=message, more=arrived.cors)
        elif isinstance(message, Request | LineRejected | Batch):
            await self._exchange(arrived, runtime, message, len(body))
        else:
            runtime.modern.receive(message, len(body), None)
            await respond(arrived.send, 202, more=arrived.cors)  # HT-10

    async def _exchange(self, arrived: Arrived, runtime: Runtime, message: Message | Batch | LineRejected, size: int) -> None:
        """Answer one request of the modern era."""
        is_listen = isinstance(message, Request) and message.method == "subscriptions/listen"
        reply = Reply(
            arrived.receive,
            arrived.send,
            self.options,
            runtime.deadlines,
            runtime.modern.lose,
            headers=arrived.cors,
            is_stream=is_listen,
            identity=arrived.identity,
        )
        self._open_requests += not is_listen
        try:
            runtime.modern.receive(message, size, reply)
            await reply.run()
        finally:
            self._open_requests -= not is_listen

    def _check_modern(self, arrived: Arrived, message: Message | Batch | LineRejected, runtime: Runtime) -> Refusal | None:
        """Return why a message that belongs to no legacy session is refused, if it is."""
        if not isinstance(message, Request):
            if isinstance(message, Notification | LineRejected | Batch):
                return None
            return Refusal(400, "a response must carry the Mcp-Session-Id of the session whose request it answers")
        version, mismatch = self._compare_headers(arrived.headers, message)
        if mismatch is not None:
            return Refusal(400, mismatch.message, code=mismatch.code)
        if version is None and self._is_legacy and not _names_modern(arrived.headers):
            return Refusal(
                400, f"{message.method} needs the header Mcp-Session-Id; send initialize first, which returns one"
            )  # HT-40
        if message.method == "subscriptions/listen":
            return runtime.refuse_listen()
        return _BUSY if self._open_requests >= self.options.max_requests else None

    def _compare_headers(self, headers: Mapping[str, str], request: Request) -> tuple[str | None, HeaderMismatch | None]:
        """Return the revision in the body, and what is wrong with the headers that repeat the body."""
        try:
            mirrored = _Mirrored() if request.params is UNSET else _decode_mirrored(request.params)
            version = None if mirrored.meta is None else mirrored.meta.version
            if not isinstance(version, str):
                return None, None
            params: dict[str, Any] = {"name": mirrored.name, "uri": mirrored.uri}
            wanted = self._tool_headers.of(mirrored.name) if request.method == "tools/call" else ()
            if wanted:
                params["arguments"] = _decode_any(mirrored.arguments)
            check_headers(headers, request.method, params, version, wanted)
        except HeaderMismatch as error:
            return "", error
        except (DecodeError, RecursionError):
            return None, None  # the session says what is wrong with the params
        return version, None


def _names_modern(headers: Mapping[str, str]) -> bool:
    """Whether the header names a revision without sessions; one that is unknown here is newer than all of them."""
    version = headers.get(PROTOCOL_VERSION)
    return version is not None and (is_modern(version) if version in ALL else version > max(ALL))


def _headers_of(scope: Scope) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        # Whitespace around a value is not part of it (RFC 9110, 5.5), but not every ASGI server removes it.
        key, text = name.decode("latin-1"), value.decode("latin-1").strip(" \t")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
