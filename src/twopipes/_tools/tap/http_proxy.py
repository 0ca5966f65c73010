"""A reverse proxy on loopback: forwards HTTP between clients and one server as it arrives, and reports it to a recording.

Each connection of a client has a connection to the server of its own, and the end of one ends the other. So a client sees the
keep-alive, the backpressure and the aborted responses of the server, and the server sees those of the client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import h11

from twopipes._tools.http_side import READ_SIZE, HttpSide
from twopipes._tools.tap.http_recording import Exchange, HttpRecording

# Connections of clients that are open at a time.
MAX_CONNECTIONS = 1000
# Seconds to reach the server.
CONNECT_TIMEOUT = 30.0
# Headers that concern one connection only. h11 needs and checks the ones about framing.
_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade"}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

Headers = list[tuple[bytes, bytes]]


class Upstream(NamedTuple):
    """The server that requests are forwarded to."""

    scheme: str
    host: str
    port: int
    netloc: str  # for the Host header
    path: str  # of the MCP endpoint

    @property
    def url(self) -> str:
        """The URL of the endpoint, without a password and without a query, which may contain a token."""
        return f"{self.scheme}://{self.netloc}{self.path}"

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """Read a URL. Raises ``ValueError`` if it is not one of HTTP."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8000/mcp")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        netloc = parts.netloc.rpartition("@")[2].encode("idna").decode()
        return cls(parts.scheme, parts.hostname, port, netloc, parts.path or "/")

    async def connect(self) -> HttpSide:
        """Open a connection. Raises ``OSError``, of which timeouts and errors of TLS are subclasses."""
        context = ssl.create_default_context() if self.scheme == "https" else None
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context, limit=READ_SIZE)
        return HttpSide(h11.CLIENT, reader, writer)


class HttpTap:
    """Listens for clients and forwards to one server. Start it, and close it at the end."""

    def __init__(self, upstream: Upstream, recording: HttpRecording) -> None:
        self._upstream = upstream
        self._recording = recording
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._hosts = set(_LOOPBACK)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises ``OSError`` if the address cannot be used."""
        self._hosts.add(host)
        self._server = await asyncio.start_server(self._accept, host, port, limit=READ_SIZE)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = HttpSide(h11.SERVER, reader, writer)
        task = asyncio.get_running_loop().create_task(self._serve(client, peer=writer.get_extra_info("peername")))
        self._links.add(task)
        task.add_done_callback(self._links.discard)

    async def _serve(self, client: HttpSide, peer: object) -> None:
        link = _Link(client, self._upstream, self._recording, self._hosts, peer)
        try:
            if len(self._links) > MAX_CONNECTIONS:
                await link.refuse(503, f"twopipes tap: more than {MAX_CONNECTIONS} connections are open")
            else:
                await link.run()
        except (OSError, h11.ProtocolError):
            pass  # reported by the link, or a client that went away
        finally:
            link.close()
            await client.wait_closed()


class _Link:
    """One connection of a client, and the connection to the server behind it."""

    def __init__(self, client: HttpSide, upstream: Upstream, recording: HttpRecording, hosts: set[str], peer: object) -> None:
        self._client = client
        self._upstream = upstream
        self._recording = recording
        self._hosts = hosts
        self._peer = peer
        self._server: HttpSide | None = None

    async def run(self) -> None:
        """Forward requests and responses until one side closes its connection."""
        while (events := await self._next_request()) and isinstance(request := events[0], h11.Request):
            if not await self._may_forward(request):
                return
            exchange = self._recording.begin(request, self._peer)
            try:
                is_reusable = await self._forward(events, exchange)
            finally:
                exchange.close()
            if not is_reusable:
                return

    async def refuse(self, status: int, text: str) -> None:
        """Respond with an error of the tap itself."""
        body = text.encode() + b"\n"
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), ("Connection", "close")]
        await self._client.send([h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()])

    def close(self) -> None:
        """Close both connections."""
        self._client.close()
        if self._server is not None:
            self._server.close()

    async def _next_request(self) -> list[Any]:
        """Return the first events of the next request; none if the server closes the idle connection."""
        receiving = asyncio.ensure_future(self._client.receive())
        closing = None if self._server is None else asyncio.ensure_future(self._server.wait_for_anything())
        try:
            await asyncio.wait({receiving, *filter(None, (closing,))}, return_when=asyncio.FIRST_COMPLETED)
            # A server that closes the connection now would not answer, with or without a tap.
            return receiving.result() if closing is None or not closing.done() else []
        except h11.RemoteProtocolError as error:
            self._recording.note(f"a client sent a request that is not HTTP: {error}")
            await self.refuse(error.error_status_hint, f"twopipes tap: {error}")
            return []
        finally:
            await _cancel(receiving, closing)

    async def _may_forward(self, request: h11.Request) -> bool:
        # The tap replaces Host, so the server cannot find out that a page of another name reached it (DNS rebinding).
        given = next((value.decode("latin-1") for name, value in request.headers if name == b"host"), "")
        with suppress(ValueError):
            if urlsplit(f"//{given}").hostname in self._hosts:
                return True
        self._recording.note(f"refused a request for the host {given!r}")
        await self.refuse(403, f"twopipes tap: refused the host {given!r}; use 127.0.0.1 or localhost")
        return False

    async def _forward(self, events: list[Any], exchange: Exchange) -> bool:
        """Forward one request and its response. Return whether both connections can carry another."""
        if self._server is None:
            try:
                self._server = await self._upstream.connect()
            except OSError as error:  # also TimeoutError
                await self._report_unreachable(error, exchange)
                return False
        server = self._server
        sending = asyncio.ensure_future(self._forward_request(server, events, exchange))
        try:
            await self._forward_response(server, exchange)
        except h11.RemoteProtocolError as error:
            await self._report_broken_response(error, exchange)
            return False
        finally:
            await _cancel(sending)
        return _start_next_cycle(server, self._client)

    async def _report_unreachable(self, error: OSError, exchange: Exchange) -> None:
        reason = str(error) or f"no connection within {CONNECT_TIMEOUT:g} s"
        exchange.note(f"the server cannot be reached: {reason}")
        await self.refuse(502, f"twopipes tap: {self._upstream.netloc} cannot be reached: {reason}")

    async def _report_broken_response(self, error: h11.RemoteProtocolError, exchange: Exchange) -> None:
        if exchange.is_abandoned:
            return  # the server noticed it, or the tap closed the connection to it
        what = "the response broke off" if exchange.has_response else "the server sent no HTTP response"
        exchange.note(f"{what}: {error}")
        if not exchange.has_response:
            await self.refuse(502, f"twopipes tap: {what}: {error}")

    async def _forward_request(self, server: HttpSide, events: list[Any], exchange: Exchange) -> None:
        """Forward the request; then wait until the client closes its connection, and close that to the server."""
        try:
            await self._forward_body(server, events, exchange)
            await self._client.wait_for_eof()
            exchange.client_closed()
            if not server.write_eof():
                server.close()
        except (OSError, h11.ProtocolError):  # the client aborted the connection, or its request is not HTTP
            exchange.client_closed()
            server.close()

    async def _forward_body(self, server: HttpSide, events: list[Any], exchange: Exchange) -> None:
        """Forward a whole request."""
        request = events[0]
        headers = _forwarded(request.headers.raw_items(), host=self._upstream.netloc.encode())
        events[0] = h11.Request(method=request.method, target=request.target, headers=headers)
        while True:
            # Record before writing, so that a request always precedes its response in the trace.
            for event in events:
                if isinstance(event, h11.Data):
                    exchange.request_data(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    exchange.request_end()
            try:
                await server.send(events)
            except OSError:
                return  # the server does not read any further; its response explains why
            if isinstance(events[-1], h11.EndOfMessage):
                return
            events = await self._client.receive()

    async def _forward_response(self, server: HttpSide, exchange: Exchange) -> None:
        while True:
            events = await server.receive()
            for index, event in enumerate(events):
                if isinstance(event, h11.Response):
                    exchange.response(event)
                    headers = _forwarded(event.headers.raw_items())
                    events[index] = h11.Response(status_code=event.status_code, reason=event.reason, headers=headers)
                elif isinstance(event, h11.Data):
                    exchange.response_data(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    exchange.response_end()
                elif isinstance(event, h11.ConnectionClosed):
                    raise h11.RemoteProtocolError("it closed the connection without a response")
            await self._client.send(events)
            if isinstance(events[-1], h11.EndOfMessage):
                return


def _forwarded(headers: Iterable[tuple[bytes, bytes]], host: bytes | None = None) -> Headers:
    """Return headers without those of one connection, except for ``Connection: close``."""
    named: set[bytes] = set()
    kept: Headers = []
    for name, value in headers:
        if name.lower() == b"connection":
            named |= {token.strip().lower() for token in value.split(b",")}
    for name, value in headers:
        if name.lower() == b"host" and host is not None:
            kept.append((name, host))
        elif name.lower() not in _HOP_BY_HOP | (named - {b"close"}):
            kept.append((name, value))
    return [*kept, (b"Connection", b"close")] if b"close" in named else kept


def _start_next_cycle(*sides: HttpSide) -> bool:
    try:
        for side in sides:
            side.http.start_next_cycle()
    except h11.LocalProtocolError:
        return False  # one of them must close
    return True


async def _cancel(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks and wait for their end; their errors are those of a connection that is being closed."""
    for task in filter(None, tasks):
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
