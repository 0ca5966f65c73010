"""A minimal HTTP/1.1 client. It sends every header as it is given, also wrong ones, and shows every part of the response.

Each exchange has its own connection, so that what one does to a connection cannot disturb another.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from twopipes._http.sse import SseEvent, SseParser
from twopipes._tools.check.messages import decoded, parts_of
from twopipes.errors import ChannelBroken, LocalProtocolError

MAX_BODY = 64 * 1024 * 1024
_MAX_HEAD = 256 * 1024
_CHUNK = 64 * 1024
# The headers that are quoted. Others may be secret, such as Authorization or what the user gave.
_QUOTED = {b"accept", b"allow", b"content-type", b"host", b"last-event-id", b"origin", b"www-authenticate", b"x-accel-buffering"}
_FINAL = 200  # lower statuses announce another response
_WITHOUT_BODY = {202, 204, 304}
STREAM = "text/event-stream"
JSON = "application/json"


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class HttpAddress(Struct, frozen=True, kw_only=True):
    """The parts of a URL that a connection needs."""

    url: str  # for messages: without a password and a query, which may contain a token
    host: str
    port: int
    target: str  # the path with its query
    is_tls: bool

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the URL names the loopback address."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


def parse_url(url: str) -> HttpAddress:
    """Return the address of an HTTP URL, or raise LocalProtocolError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise LocalProtocolError(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise LocalProtocolError(f"{url!r} is not an HTTP URL; write http://HOST:PORT/PATH")
    is_tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return HttpAddress(url=shown, host=parts.hostname, port=port or (443 if is_tls else 80), target=target, is_tls=is_tls)


def on_one_line(data: bytes) -> bytes:
    """Return JSON on one line: a line break in it can only be between two tokens."""
    return data.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def quoted(head: Sequence[bytes], payloads: Sequence[bytes]) -> Sequence[bytes]:
    """Return a request or a response as a few lines: the first line, the headers that matter on one line, and the messages."""
    names = [line.partition(b":")[0].lower() for line in head[1:]]
    headers = [line for name, line in zip(names, head[1:], strict=True) if name in _QUOTED or name.startswith(b"mcp-")]
    first = re.sub(rb"\?\S*", b"?...", head[0])  # a query may contain a token
    return (first, *([b"  ".join(headers)] if headers else []), *payloads)


class HttpExchange:
    """One request and the response to it, as far as it has arrived.

    Attributes:
        status: The status; 0 before the head of the response has arrived.
        headers: The headers of the response as they came, in order.
        body: The body without its transfer encoding; empty for a stream.
        events: The events of a stream.
        is_complete: Whether the response has ended as it should, and not by a lost connection.
    """

    def __init__(self, address: HttpAddress, method: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        given = {"Host": address.authority, "Connection": "close", **headers}
        if body or method == "POST":
            given.setdefault("Content-Length", str(len(body)))
        lines = [f"{method} {address.target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        self.address = address
        self.method = method
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body = bytearray()
        self.events: list[SseEvent] = []
        self.is_complete = False
        self.retry: int | None = None  # milliseconds, from the stream
        self.is_sent = asyncio.Event()  # whether the request was sent, or could not be
        self._status_line = b""
        self._head = [line.encode("latin-1", "replace") for line in lines]
        self._sent_body = body
        self._parser = SseParser(MAX_BODY)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    # What was exchanged

    def header(self, name: str) -> str:
        """Return a header of the response, whatever its case; empty if it has none."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), "")

    @property
    def content_type(self) -> str:
        """The content type without its parameters, in lower case."""
        return self.header("Content-Type").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream of events."""
        return self.content_type == STREAM

    @property
    def payloads(self) -> list[bytes]:
        """The JSON of each message, on one line: of the body, or of the events with data."""
        found = [event.data for event in self.events] if self.is_stream else [bytes(self.body)]
        return [on_one_line(each) for each in found if each.strip()]

    @property
    def last_event_id(self) -> str:
        """The id after which the stream can be resumed; empty if it has none."""
        return self._parser.last_id

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the response."""
        return [part for payload in self.payloads for part in parts_of(decoded(payload))]

    @property
    def response(self) -> dict[str, Any] | None:
        """The first response among the messages."""
        return next((each for each in self.messages if "method" not in each), None)

    @property
    def code(self) -> Any:
        """The code of the error response; ``None`` without one."""
        error = (self.response or {}).get("error")
        return error.get("code") if isinstance(error, dict) else None

    @property
    def is_result(self) -> bool:
        """Whether the response has a result."""
        return isinstance((self.response or {}).get("result"), dict)

    @property
    def summary(self) -> str:
        """A short description for a ``why``."""
        if not self.status:
            return "no response"
        if self.code is not None:
            return f"{self.status} with the error {self.code}"
        what = "a result" if self.is_result else "an empty body" if not self.payloads else "another body"
        return f"{self.status} with {what}"

    @property
    def sent(self) -> Sequence[bytes]:
        """The lines of the request, to quote them."""
        return quoted(self._head, [self._sent_body[:2000]] if self._sent_body else [])

    @property
    def received(self) -> Sequence[bytes]:
        """The lines of the response, to quote them."""
        if not self.status:
            return ()
        headers = [f"{name}: {value}".encode("latin-1", "replace") for name, value in self.headers]
        return quoted([self._status_line, *headers], self.payloads[-3:])

    # Doing it

    async def send(self, *, within: float) -> None:
        """Connect and send the request, or raise ChannelBroken."""
        address = self.address
        try:
            async with asyncio.timeout(within):
                self._reader, self._writer = await asyncio.open_connection(
                    address.host, address.port, ssl=_tls() if address.is_tls else None, limit=_MAX_HEAD
                )
                self._writer.write(b"\r\n".join(self._head) + b"\r\n\r\n" + self._sent_body)
                await self._writer.drain()
        except (OSError, TimeoutError) as error:
            self.close()
            why = f"no connection within {within:g} s" if isinstance(error, TimeoutError) else str(error)
            raise ChannelBroken(f"{address.url} cannot be reached: {why}") from error
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self.is_sent.set()

    async def read_head(self) -> int:
        """Return the status, when the head of the response has arrived; 0 if the connection was closed before."""
        reader = self._reader
        if reader is None:
            return 0
        lines: list[bytes] = []
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            while self.status < _FINAL:
                self._status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
                self.status = int(self._status_line.split()[1])
            pairs = [line.decode("latin-1").partition(":") for line in lines]
            self.headers = [(name, value.strip()) for name, _, value in pairs]
        return self.status

    async def read_more(self) -> list[SseEvent] | None:
        """Read the next part of the body. Return the events that it completes; ``None`` at the end."""
        try:
            data = await self._next_part()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return None
        if not data or len(self.body) > MAX_BODY:
            self.is_complete = not data
            return None
        if not self.is_stream:
            self.body += data
            return []
        found = [event for event in self._parser.feed(data) if isinstance(event, SseEvent)]
        self.retry = self._parser.retry
        self.events += found
        return found

    async def read_all(self) -> HttpExchange:
        """Read the rest of the response: the body, or a stream up to its end. The caller limits the time."""
        if not self.status:
            await self.read_head()
        while self.status and await self.read_more() is not None:
            pass
        return self

    async def _next_part(self) -> bytes:
        reader = self._reader
        if reader is None or (self.status in _WITHOUT_BODY and not self._has_body):
            return b""
        if self.header("Transfer-Encoding").lower() == "chunked":
            size = int((await reader.readline()).partition(b";")[0].strip(), 16)
            if size > MAX_BODY:
                raise ValueError("the chunk is too long")
            data = await reader.readexactly(size)
            await reader.readexactly(2)
            return data
        if (length := self.header("Content-Length")).isdigit():
            left = int(length) - len(self.body)
            return await reader.readexactly(min(left, _CHUNK)) if left > 0 else b""
        return await reader.read(_CHUNK)

    @property
    def _has_body(self) -> bool:
        return bool(self.header("Transfer-Encoding")) or self.header("Content-Length") not in {"", "0"}

    def close(self) -> None:
        """Close the connection, as a client does that loses interest."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
