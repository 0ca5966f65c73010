"""A server at a URL, as the target of a client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from typing import Any, Self
from urllib.parse import urlsplit

from twopipes._client.http_auth import ClientAuth, Credentials
from twopipes._client.targets import Endpoint, HttpLink, OnStderr, Target
from twopipes._client.tool_headers import ToolHeaders
from twopipes.errors import LocalProtocolError

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?|")
# Headers that the protocol defines, so a user cannot.
_OURS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
    }
)


class HttpTarget(Target):
    """A server at a URL. Each opening has its own connections.

    Args:
        url: The address of the endpoint, which begins with ``http://`` or ``https://``.
        headers: Headers to send with each request.
        auth: The authorization; see :mod:`twopipes._client.http_auth`.

    Raises:
        LocalProtocolError: The URL or a header is invalid.
    """

    renews_sessions = True
    may_be_silent = False

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, auth: ClientAuth | None = None) -> None:
        self.url = _checked_url(url)
        self.headers = _checked_headers(headers or {})
        self.auth = auth
        if auth is not None and any(name.lower() == "authorization" for name in self.headers):
            raise LocalProtocolError("both auth= and a header Authorization were given; remove one of them")
        self.description = self.identity = url.partition("?")[0].partition("#")[0]
        self._credentials: Credentials | None = None
        self._tool_headers = ToolHeaders()

    def replaced(self, headers: Mapping[str, str] | None, auth: ClientAuth | None) -> Self:
        """Return a copy with these headers and this authorization, where they are given."""
        HttpTarget(self.url, self.headers if headers is None else headers, self.auth if auth is None else auth)  # checks them
        made = copy(self)
        made.headers = self.headers if headers is None else dict(headers)
        made.auth = self.auth if auth is None else auth
        return made

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Create what sends the requests. Nothing is sent yet."""
        from twopipes._client.http_exchange import HttpExchange

        if self._credentials is None:
            self._credentials = Credentials(self.auth, self.url)
        link = HttpLink(HttpExchange(self.url, self.headers, self._credentials), self._tool_headers)
        return Endpoint(None, http=link)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is not a number
    except ValueError as error:
        raise LocalProtocolError(f"{url!r} is not a valid URL: {error}") from None
    if not parts.hostname or any(each.isspace() or not each.isprintable() for each in url):
        raise LocalProtocolError(f"{url!r} is not a valid URL; write https://host/mcp")
    if parts.username is not None or parts.password is not None:
        raise LocalProtocolError(f"the URL for {parts.hostname} contains a password; pass auth= or headers= instead")
    return url.partition("#")[0]


def _checked_headers(headers: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise LocalProtocolError(f"headers= has {name!r}, which is not the name of a header")
        if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
            raise LocalProtocolError(f"headers= must not contain {name}, which the protocol sets")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            # The value may be a secret, so the message does not contain it.
            raise LocalProtocolError(f"the value of the header {name} in headers= must be one line of printable text")
    return dict(headers)
