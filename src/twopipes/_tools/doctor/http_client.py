"""Single HTTP requests, each on a connection of its own, with what went wrong as data instead of exceptions."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import unescape
from typing import Any, Final
from urllib.parse import urlsplit

import h11

from twopipes._http.sse import SseEvent, SseParser
from twopipes._tools.doctor.http_observations import FailureKind, HttpFailure, HttpReply
from twopipes._tools.http_side import READ_SIZE, HttpSide

# Bytes of a body of JSON and of another one, and characters of it that are shown.
_MAX_JSON: Final = 64 * 1024 * 1024
_MAX_BODY: Final = 64 * 1024
_MAX_EXCERPT: Final = 120
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
# The codes of OpenSSL, X509_V_ERR_...
_CERTIFICATES: Final[dict[int, FailureKind]] = {
    9: "certificate expired",  # not yet valid
    10: "certificate expired",
    18: "certificate not trusted",
    19: "certificate not trusted",
    20: "certificate not trusted",
    21: "certificate not trusted",
    62: "certificate of another host",
    64: "certificate of another host",
}
# What OpenSSL reports if the peer does not speak TLS; the name depends on its version.
_NOT_TLS: Final = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_EOF_WHILE_READING"}

_ERRNO: Final = re.compile(r"\[Errno ([0-9]+)\]")

OnMessage = Callable[[int, bytes], bool]
"""Takes the status, and a body of JSON or the data of an event. Returns whether the rest of the response is not needed."""


class HttpClient:
    """Sends requests to one origin."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)
        self.replies: list[HttpReply] = []  # in order
        self.session = ""  # Mcp-Session-Id of the last response; not an observation, because it lets others into the session

    @property
    def has_token(self) -> bool:
        """Whether every request is sent with a token."""
        return any(name.lower() == "authorization" for name in self._headers)

    async def send(
        self,
        purpose: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        seconds: float,
        body: bytes = b"",
        on_message: OnMessage = lambda _status, _data: False,
    ) -> HttpReply:
        """Send a request and return what came back. The response ends after ``seconds``, complete or not."""
        exchange = _Exchange(method, url, {**self._headers, **headers}, body, on_message)
        failure: HttpFailure | None = None
        try:
            async with asyncio.timeout(seconds):
                await exchange.run()
        except TimeoutError:
            if exchange.facts.get("status") is None:
                failure = HttpFailure("timeout", f"no response within {seconds:g} s")
        except h11.RemoteProtocolError as error:
            if exchange.facts.get("status") is None:
                failure = HttpFailure("not HTTP" if exchange.has_data else "closed", str(error))
        except OSError as error:
            failure = failure_of(error)
        finally:
            exchange.close()
        self.session = exchange.session
        reply = HttpReply(purpose=purpose, method=method, url=url, failure=failure, **exchange.facts)
        self.replies.append(reply)
        return reply


async def speaks_tls(host: str, port: int, *, seconds: float) -> bool:
    """Whether a server accepts TLS. Its certificate does not matter."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.close()
        return True
    return False


def failure_of(error: OSError) -> HttpFailure:
    """Return the kind of an error of the network or of TLS."""
    # asyncio puts its own texts into the errors of connect(), and one error into another if a host has several addresses.
    numbers = {error.errno} if error.errno is not None else {int(each) for each in _ERRNO.findall(str(error))}
    detail = os.strerror(min(numbers)) if len(numbers) == 1 and min(numbers) > 0 else error.strerror or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return HttpFailure(_CERTIFICATES.get(error.verify_code, "TLS failed"), error.verify_message)
    if isinstance(error, ssl.SSLError):
        return HttpFailure("not TLS" if error.reason in _NOT_TLS else "TLS failed", error.reason or detail)
    if isinstance(error, socket.gaierror):
        return HttpFailure("lookup", error.strerror or str(error))
    if numbers == {errno.ECONNREFUSED}:
        return HttpFailure("refused", detail)
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return HttpFailure("closed", detail)
    return HttpFailure("unreachable", detail)


class _Exchange:
    """One request, and the facts about its response so far."""

    def __init__(self, method: str, url: str, headers: Mapping[str, str], body: bytes, on_message: OnMessage) -> None:
        self.facts: dict[str, Any] = {}
        self.has_data = False
        self.session = ""
        self._method = method
        self._parts = urlsplit(url)
        self._request_headers = headers
        self._body = body
        self._on_message = on_message
        self._side: HttpSide | None = None
        self._events: SseParser | None = None
        self._received = bytearray()
        self._status_at = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        parts = self._parts
        began = loop.time()
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (443 if tls else 80)
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls, limit=READ_SIZE)
        side = self._side = HttpSide(h11.CLIENT, reader, writer)
        connected = loop.time()
        self.facts["connected"] = connected - began
        await side.send(self._request())
        is_over = False
        while not is_over:
            for event in await side.receive():
                self.has_data = True
                if isinstance(event, h11.Response):
                    self._status_at = loop.time()
                    self._take_head(event, self._status_at - connected)
                elif isinstance(event, h11.Data):
                    is_over = is_over or self._take_data(bytes(event.data), loop.time())
                elif isinstance(event, h11.EndOfMessage):
                    self._take_end()
                    is_over = True
                elif isinstance(event, h11.ConnectionClosed):
                    raise h11.RemoteProtocolError("the server closed the connection without a response")

    def close(self) -> None:
        if self._side is not None:
            self._side.close()

    def _request(self) -> list[Any]:
        target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        netloc = self._parts.netloc.rpartition("@")[2]
        headers = {"Host": netloc, **self._request_headers, "Connection": "close"}
        if self._method == "POST":
            headers["Content-Length"] = str(len(self._body))
        request = h11.Request(method=self._method, target=target, headers=list(headers.items()))
        return [request, *([h11.Data(data=self._body)] if self._body else []), h11.EndOfMessage()]

    def _take_head(self, response: h11.Response, took: float) -> None:
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in response.headers}
        self.facts |= {
            "took": took,
            "status": response.status_code,
            "reason": response.reason.decode("latin-1"),
            "content_type": headers.get("content-type", ""),
            "location": headers.get("location", ""),
            "challenge": headers.get("www-authenticate", ""),
            "server": headers.get("server", ""),
            "has_session": "mcp-session-id" in headers,
        }
        self.session = headers.get("mcp-session-id", "")
        if headers.get("content-type", "").lower().startswith("text/event-stream"):
            self._events = SseParser()

    def _take_data(self, data: bytes, now: float) -> bool:
        if self._events is None:
            most = _MAX_JSON if self._is_json else _MAX_BODY
            self._received += data[: most - len(self._received)]
            return False
        for event in self._events.feed(data):
            if isinstance(event, SseEvent):
                if "first_event" not in self.facts:
                    self.facts |= {"first_event": now - self._status_at, "event_type": event.type}
                if event.data and self._on_message(self.facts["status"], event.data):
                    return True
        return False

    def _take_end(self) -> None:
        if self._events is not None:
            return
        if self._is_json and self._on_message(self.facts["status"], bytes(self._received)):
            return
        text = self._received.decode("utf-8", "replace")
        title = _TITLE.search(text)
        excerpt = " ".join((unescape(title[1]) if title else text).split())
        self.facts["excerpt"] = excerpt[:_MAX_EXCERPT]

    @property
    def _is_json(self) -> bool:
        kind: str = self.facts.get("content_type", "")
        return kind.lower().startswith("application/json")
