"""The ``auth=`` of a client: which token each HTTP request carries, and how a challenge of the server is answered."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from twopipes.errors import LocalProtocolError, TwopipesError

_TOKEN = re.compile(r"[\x21-\x7e]+(?: [\x21-\x7e]+)*")
_RESOURCE_METADATA = re.compile(r'resource_metadata\s*=\s*"([^"]*)"', re.IGNORECASE)


class Challenge(Struct, frozen=True):
    """A server refused a request because of its authorization.

    Attributes:
        url: The URL of the MCP server.
        status: 401: the token is missing or invalid. 403: it does not have the rights that the request needs.
        headers: The ``WWW-Authenticate`` headers.
        token: The token that was refused, or ``None``.
    """

    url: str
    status: int
    headers: tuple[str, ...]
    token: str | None

    @property
    def resource_metadata(self) -> str | None:
        """The address of the resource metadata (RFC 9728), where a sign-in begins; ``None`` if the server did not send one."""
        found = _RESOURCE_METADATA.search(", ".join(self.headers))
        return None if found is None else found[1]


@runtime_checkable
class Authenticator(Protocol):
    """An object for ``auth=`` that answers the challenges of a server, for example by a sign-in.

    If it can also be called, that returns the token for the first request.
    """

    def challenge(self, challenge: Challenge, /) -> Awaitable[str | None] | str | None:
        """Return a new token, with which the request is sent once more, or ``None`` to let the request fail."""


ClientAuth = str | Callable[[], Awaitable[str | None] | str | None] | Authenticator
"""The type of ``auth=``: a bearer token, a function that returns one, or an :class:`Authenticator`."""


class Credentials:
    """The tokens of one client. Only one challenge is answered at a time; requests that failed meanwhile use its token."""

    def __init__(self, auth: ClientAuth | None, url: str) -> None:
        if auth is not None and not isinstance(auth, str) and not callable(auth) and not isinstance(auth, Authenticator):
            raise LocalProtocolError(
                "auth= must be a token, a function that returns one, or an object with a method challenge, "
                f"got {type(auth).__name__}"
            )
        self._auth = auth
        self._url = url
        self._token: str | None = None  # the answer to the last challenge
        self._lock = asyncio.Lock()

    async def token(self) -> str | None:
        """Return the token for the next request, or ``None`` to send it without one."""
        if self._token is not None or self._auth is None:
            return self._token
        if isinstance(self._auth, str):
            return _checked(self._auth)
        if isinstance(self._auth, Authenticator) and not callable(self._auth):
            return None
        return await _called(self._auth)

    async def answer(self, status: int, headers: tuple[str, ...], refused: str | None) -> bool:
        """Try to get another token, after a server refused one. Return whether the request should be sent again."""
        auth = self._auth
        if not isinstance(auth, Authenticator):
            return False
        async with self._lock:
            if self._token is not None and self._token != refused:
                return True  # another request got a new token meanwhile
            self._token = await _called(auth.challenge, Challenge(self._url, status, headers, refused))
        return self._token is not None and self._token != refused


async def _called(function: Any, *arguments: Any) -> str | None:
    try:
        token = function(*arguments)
        if inspect.isawaitable(token):
            token = await token
    except TwopipesError:
        raise
    except Exception as error:
        raise LocalProtocolError(f"auth= raised {type(error).__name__}: {error}") from error
    return None if token is None else _checked(token)


def _checked(token: Any) -> str:
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        # The token itself is a secret, so the message does not contain it.
        raise LocalProtocolError("auth= must give a token of visible ASCII characters; check for line breaks and empty values")
    return token
