"""HTTP requests of a client: the only user of aiohttp (docs/decisions/0033).

Nothing is done behind our back: no cookies, no proxies of the environment, no repeated requests. A redirect is followed only if it
keeps the method and stays at the same origin, so neither a message nor a token reaches another server.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import msgspec

from twopipes._client.http_auth import Credentials
from twopipes.errors import HttpError, HttpReason, LocalProtocolError
from twopipes.settings import Limits

try:
    import aiohttp
except ImportError as error:
    raise LocalProtocolError('connecting to a URL needs an HTTP client library: pip install "twopipes[http]"') from error

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
# Seconds for a new connection. The timeouts of the request usually come first.
_CONNECT: Final = 30.0
# Seconds for which an unused connection is kept. Servers close theirs after five seconds or more, and a request that is sent at
# that moment would be lost.
_KEEP_ALIVE: Final = 4.0
# Seconds. When a network is silently gone, the system notices it after about two minutes, also on a stream without traffic.
_TCP_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
# Bytes of an error response that are read: a JSON-RPC error, or enough of a page to recognise it.
_MAX_ERROR_BODY: Final = 64 * 1024
# Characters of the server's own words in an error message.
_MAX_DETAIL: Final = 300
# How often one request is sent: redirects and answered challenges repeat it.
_MAX_ATTEMPTS: Final = 4
_KEEPS_METHOD: Final = frozenset({307, 308})
# The server, or a proxy before it, did not handle the request, and may do so later.
_TEMPORARY: Final = frozenset({429, 502, 503, 504})
_UNFINISHED: Final = (aiohttp.ClientError, OSError, TimeoutError)


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


class Disconnected(Exception):
    """The connection was lost after the request was sent, or while the response arrived."""


class BodyTooLong(Exception):
    """The response is longer than the limit."""


class HttpResponse:
    """A response whose headers have arrived."""

    def __init__(self, inner: aiohttp.ClientResponse, url: str, *, has_auth: bool) -> None:
        self.status = inner.status
        self.content_type = inner.content_type if "Content-Type" in inner.headers else ""
        self.headers: Mapping[str, str] = inner.headers  # names in any case
        self._inner = inner
        self._url = url
        self._has_auth = has_auth

    @property
    def is_ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises ``Disconnected`` if it ends too early."""
        try:
            async for chunk in self._inner.content.iter_any():
                yield chunk
        except _UNFINISHED as error:
            raise Disconnected(_text(error)) from error

    async def read(self, limit: int | None) -> bytes:
        """Return the whole body. Raises ``BodyTooLong`` if it is longer than ``limit`` bytes."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if limit is not None and size > limit:
                raise BodyTooLong
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def read_error(self) -> bytes:
        """Return the start of the body of an error response."""
        body = bytearray()
        with suppress(Disconnected):
            async for chunk in self.chunks():
                body += chunk
                if len(body) >= _MAX_ERROR_BODY:
                    break
        return bytes(body[:_MAX_ERROR_BODY])

    def error(self, body: bytes = b"") -> HttpError:
        """Return the error for a response that is not one of MCP."""
        reason: HttpReason = "status"
        detail = _message_in(body) if self.content_type == JSON else ""
        detail = detail or (self._inner.reason or "").strip()
        if self.content_type == "text/html" and (self.is_ok or self.status in {404, 405}):
            reason, detail = "HTML", ""
        elif self.is_ok:
            reason, detail = "content type", f"HTTP {self.status}, {self.content_type or 'without a content type'}"
        elif self.status in {401, 407}:
            reason = "unauthorized"
        elif self.status == 403:
            reason = "forbidden"
        elif self.status in {404, 405, 410}:
            reason = "not found"
        return HttpError(
            self._url,
            reason,
            status=self.status,
            detail=detail,
            body=body[: Limits().max_excerpt],
            challenges=_challenges(self._inner),
            has_auth=self._has_auth,
            retryable=self.status in _TEMPORARY,
        )


class HttpExchange:
    """Sends HTTP requests to one URL.

    Args:
        url: The endpoint.
        headers: Headers of the user, sent with each request.
        credentials: The tokens.
    """

    def __init__(self, url: str, headers: Mapping[str, str], credentials: Credentials) -> None:
        self.url = shown(url)
        self._url = url
        self._headers = dict(headers)
        self._credentials = credentials
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
            skip_auto_headers=("User-Agent",),
            trust_env=False,
        )

    @asynccontextmanager
    async def send(self, verb: str, headers: Mapping[str, str], body: bytes | None = None) -> AsyncIterator[HttpResponse]:
        """Send a request, and give its response. Leaving the block before the end of the body closes the connection.

        Raises:
            HttpError: There is no connection, the authorization was refused, or the response is not HTTP.
            Disconnected: The connection was lost after the request was sent.
        """
        is_last = False
        for _ in range(_MAX_ATTEMPTS):
            token = await self._credentials.token()
            inner = await self._request(verb, headers, body, token)
            async with inner:
                if inner.status in _KEEPS_METHOD and "Location" in inner.headers:
                    self._follow(inner.headers["Location"], inner.status)
                    continue
                response = HttpResponse(inner, self.url, has_auth=token is not None or "authorization" in self._lower_names())
                if 300 <= inner.status < 400:
                    raise HttpError(self.url, "redirect", status=inner.status, detail=shown(inner.headers.get("Location", "")))
                if inner.status in {401, 403} and not is_last:
                    is_last = True
                    if await self._credentials.answer(inner.status, _challenges(inner), token):
                        continue
                yield response
                return
        raise HttpError(self.url, "redirect", detail="too many redirects")

    async def _request(self, verb: str, headers: Mapping[str, str], body: bytes | None, token: str | None) -> Any:
        sent = {"Accept-Encoding": "identity", **self._headers, **headers}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        try:
            return await self._session.request(verb, self._url, data=body, headers=sent, allow_redirects=False)
        except aiohttp.ClientResponseError as error:
            raise HttpError(self.url, "not HTTP", detail=error.message) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientSSLError) as error:
            raise self._unreachable(error) from error
        except _UNFINISHED as error:
            raise Disconnected(_text(error)) from error

    def _follow(self, location: str, status: int) -> None:
        """Use the URL of a redirect from now on, if it has the same origin."""
        try:
            target = urljoin(self._url, location)
            is_here = _origin(target) == _origin(self._url)
        except ValueError:  # it is not an address
            target, is_here = "", False
        if not is_here:
            raise HttpError(self.url, "redirect", status=status, detail=shown(target))
        self._url, self.url = target, shown(target)

    def _unreachable(self, error: Exception) -> HttpError:
        """Return the error for a connection that could not be opened. Nothing was sent, so the request may be sent again."""
        reason: HttpReason = "network"
        match error:
            case aiohttp.ClientConnectorDNSError():
                reason = "dns"
            case aiohttp.ConnectionTimeoutError():
                return HttpError(self.url, "timeout", retryable=True)
            case aiohttp.ClientSSLError() | aiohttp.ClientConnectorCertificateError():
                return HttpError(self.url, "tls", detail=_text(error.__cause__ or error))
            case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
                # Without the text of the system, which repeats it, and which depends on the event loop.
                return HttpError(self.url, "refused", retryable=True)
            case _:
                pass
        os_error = getattr(error, "os_error", None)
        return HttpError(self.url, reason, detail=_text(os_error or error), retryable=True)

    def _lower_names(self) -> set[str]:
        return {name.lower() for name in self._headers}

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def shown(url: str) -> str:
    """Return a URL for messages, without its query, which may contain secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _message_in(body: bytes) -> str:
    """Return the message of a JSON-RPC error, as short text; empty if the body is something else."""
    with suppress(ValueError, RecursionError):
        found = msgspec.json.decode(body, type=_ErrorBody).error.message
        return "".join(each if each.isprintable() else " " for each in found[:_MAX_DETAIL])
    return ""


def _challenges(response: aiohttp.ClientResponse) -> tuple[str, ...]:
    return tuple(response.headers.getall("WWW-Authenticate", ()))


def _text(error: BaseException) -> str:
    """Return an error as short text: that of the operating system if there is one."""
    text = getattr(error, "strerror", None) or str(error)
    return text.partition("\n")[0] or type(error).__name__


def _socket(info: Any) -> socket.socket:
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_KEEP_ALIVE:
        # Without these the system's own intervals apply: Windows had none before version 1709, and Wine has none.
        with suppress(AttributeError, OSError):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
