"""Who sends a request: bearer tokens (RFC 6750), and the metadata that leads a client to them (RFC 9728)."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from twopipes._http.origin import is_loopback, parse_authority
from twopipes._http.refusal import Refusal

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
# Characters. Longer tokens do not fit into the headers that servers and proxies accept.
_MAX_TOKEN: Final = 16_384
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE | re.ASCII)
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+", re.ASCII)
# A part of a token that is worth hiding in a log, not a word that happens to be in it.
_MIN_SECRET: Final = 8

_log = logging.getLogger("twopipes.http")


class Identity(Struct, frozen=True):
    """The caller of a request, as the verifier of its token reports it.

    Attributes:
        subject: The user or the program on whose behalf the request is sent. Legacy sessions and the state of questions belong
            to it.
        scopes: What the token allows.
        client_id: The application that sends the request, if the token names it.
        claims: Everything else that the verifier wants handlers to see. It is left out of the ``repr``.
        expires: When the token expires, in Unix time, if that is known. Subscriptions are closed then, and the client opens them
            again with a new token; a call that runs is finished.

    Raises:
        ValueError: The subject is empty: callers without a name would share their sessions.
    """

    subject: str
    scopes: frozenset[str] = frozenset()
    client_id: str | None = None
    claims: Mapping[str, Any] = msgspec.field(default_factory=dict)
    expires: float | None = None

    def __post_init__(self) -> None:
        if not self.subject:
            raise ValueError("Identity.subject must not be empty; return None for a token without an owner")

    def __repr__(self) -> str:
        return f"Identity(subject={self.subject!r}, scopes={sorted(self.scopes)!r}, client_id={self.client_id!r})"


Verifier = Callable[[str], Awaitable[Identity | None]]
"""Takes a bearer token and returns its owner, or ``None`` if the token is not valid."""


class Auth(Struct, frozen=True):
    """How a server recognizes its callers.

    Attributes:
        verify: Takes a token and returns the :class:`Identity` of its owner, or ``None`` if the token is not valid *for this
            server*. If a scope includes others, return all of them.
        resource: The address of the MCP endpoint as clients write it, such as ``https://mcp.example.com/mcp``. By default it is
            composed from each request, which is right unless a proxy changes the scheme, the host or the path.
        authorization_servers: The issuers of tokens, for clients that sign in. By default the ``issuer`` of the verifier, if it
            has one.
        scopes: The scopes that every request needs.
        timeout: Seconds that ``verify`` may take.

    Raises:
        ValueError: An address or a scope is malformed.
    """

    verify: Verifier
    resource: str | None = None
    authorization_servers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if not callable(self.verify):
            raise ValueError(f"Auth.verify must be an async function that takes a token, got {self.verify!r}")
        for name in ("authorization_servers", "scopes"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"Auth.{name} must be a tuple of strings, got {getattr(self, name)!r}")
        for address in (*self.authorization_servers, *((self.resource,) if self.resource is not None else ())):
            check_address(address, what="Auth.resource" if address == self.resource else "Auth.authorization_servers")
        for scope in self.scopes:
            if not _SCOPE.fullmatch(scope):
                raise ValueError(f"Auth.scopes must contain words without spaces and quotes, got {scope!r}")
        # Written so that NaN, for which every comparison is false, is rejected.
        if not 0 < self.timeout < inf:
            raise ValueError(f"Auth.timeout must be a finite number of seconds over 0, got {self.timeout!r}")


def check_address(address: str, *, what: str) -> None:
    """Raise ``ValueError`` unless this is an ``https`` address without a fragment; ``http`` is accepted for loopback."""
    try:
        parts = urlsplit(address)
        host = parse_authority(parts.netloc).host
    except ValueError:
        raise ValueError(f"{what} must be an address such as 'https://mcp.example.com/mcp', got {address!r}") from None
    if "#" in address or not address.isascii() or not address.isprintable() or any(each in address for each in ' "\\'):
        raise ValueError(f"{what} must be an address without a fragment, spaces and quotes, got {address!r}")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ValueError(f"{what} must start with https:// (or http:// for a loopback address), got {address!r}")


class Endpoint(Struct, frozen=True):
    """Where a request arrived, from which the address of the metadata is composed.

    Attributes:
        scheme: ``http`` or ``https``.
        host: The ``Host`` header, which was checked before.
        mount: The path at which the application is mounted; usually empty.
        path: The path of the MCP endpoint below it.
    """

    scheme: str
    host: str | None
    mount: str
    path: str


class Guard:
    """Admits requests with a valid token, and refuses others with a challenge. ``auth`` is an :class:`Auth` or only a verifier."""

    def __init__(self, auth: Auth | Verifier) -> None:
        self.auth: Final = auth if isinstance(auth, Auth) else Auth(auth)
        issuer = getattr(self.auth.verify, "issuer", None)
        self._servers = self.auth.authorization_servers or ((issuer,) if isinstance(issuer, str) else ())
        self._required = frozenset(self.auth.scopes)

    async def admit(self, headers: Mapping[str, str], endpoint: Endpoint) -> Identity | Refusal:
        """Return the caller of a request, or why it is refused.

        Args:
            headers: The request's headers by their names in lower case. Repeated headers are joined, and then refused here.
            endpoint: Where the request arrived.
        """
        header = headers.get("authorization")
        token = None if header is None else bearer_token(header)
        if token is None:  # HT-05
            return self._missing(header, endpoint)
        identity = await self._verify(token)
        if isinstance(identity, Refusal):
            return identity
        if identity is None:
            message = "the access token is invalid or has expired; get a new one"
            return Refusal(401, message, self._challenge(endpoint, error="invalid_token", description=message))
        if not self._required <= identity.scopes:
            message = "the access token does not have every scope that this server needs"
            return Refusal(403, message, self._challenge(endpoint, error="insufficient_scope", description=message))
        return identity

    def serves_metadata(self, path: str, endpoint_path: str) -> bool:
        """Return whether the metadata is at this path, below the mount of the application."""
        if not path.startswith(WELL_KNOWN):
            return False
        resource_path = urlsplit(self.auth.resource).path if self.auth.resource is not None else ""
        return path.removeprefix(WELL_KNOWN) in {"", "/", endpoint_path, resource_path}

    def metadata(self, endpoint: Endpoint) -> bytes:
        """Return the metadata of the protected resource as JSON. It is public: a client without a token needs it."""
        document: dict[str, Any] = {"resource": self._resource(endpoint), "bearer_methods_supported": ["header"]}
        if self._servers:
            document["authorization_servers"] = self._servers
        if self.auth.scopes:
            document["scopes_supported"] = self.auth.scopes
        return msgspec.json.encode(document)

    async def _verify(self, token: str) -> Identity | Refusal | None:
        """Call the verifier. What goes wrong in it is logged, and not sent to the client."""
        try:
            async with asyncio.timeout(self.auth.timeout):
                identity = await self.auth.verify(token)
            if identity is not None and not isinstance(identity, Identity):
                raise TypeError(f"auth= must return an Identity or None, got {type(identity).__name__}")  # noqa: TRY301 - reported like an error in it
        except TimeoutError:
            _log.error("the verifier of tokens took more than %g s; the request was refused with 503", self.auth.timeout)
            return Refusal(503, "the access token could not be verified in time; try again later", ((b"retry-after", b"5"),))
        except Exception as error:
            _log.error("the verifier of tokens failed; the request was refused with 500\n%s", _without_token(error, token))
            return Refusal(500, "the access token could not be verified")
        return identity

    def _missing(self, header: str | None, endpoint: Endpoint) -> Refusal:
        if header is None:
            # RFC 6750, 3.1: no error code if the request has no authentication information.
            return Refusal(401, "an access token is required; send it as Authorization: Bearer", self._challenge(endpoint))
        message = "the Authorization header is not one bearer token; send Authorization: Bearer followed by the token"
        return Refusal(401, message, self._challenge(endpoint, error="invalid_token", description=message))

    def _challenge(self, endpoint: Endpoint, *, error: str = "", description: str = "") -> tuple[tuple[bytes, bytes], ...]:
        parameters = {
            "error": error,
            "error_description": description,
            "scope": " ".join(self.auth.scopes),
            "resource_metadata": self._metadata_address(endpoint),
        }
        # Each value is ours or was checked: none contains a quote or a line break.
        return ((b"www-authenticate", f"Bearer {_joined(parameters)}".rstrip().encode("ascii")),)

    def _resource(self, endpoint: Endpoint) -> str:
        return self.auth.resource or f"{_base(endpoint)}{quote(endpoint.mount)}{endpoint.path}"

    def _metadata_address(self, endpoint: Endpoint) -> str:
        """Return where the client finds the metadata: in front of the resource's path, or below the mount of the application."""
        mount = quote(endpoint.mount)  # it may come from the path of the request, decoded
        if self.auth.resource is None:
            return f"{_base(endpoint)}{mount}{WELL_KNOWN}{endpoint.path}"
        parts = urlsplit(self.auth.resource)
        base = f"{parts.scheme}://{parts.netloc}"
        return f"{base}{mount}{WELL_KNOWN}{endpoint.path}" if mount else f"{base}{WELL_KNOWN}{parts.path.removesuffix('/')}"


def bearer_token(header: str) -> str | None:
    """Return the token of an ``Authorization`` header, or ``None`` if it is not one bearer token."""
    if len(header) > _MAX_TOKEN:
        return None
    match = _BEARER.fullmatch(header)
    return match[1] if match else None


def _base(endpoint: Endpoint) -> str:
    """Return scheme and host of a request, which are written into headers: anything else in them is left out."""
    try:
        host, port = parse_authority(endpoint.host or "")
    except ValueError:
        host, port = "localhost", None
    name = f"[{host}]" if ":" in host else host
    scheme = "https" if endpoint.scheme == "https" else "http"
    return f"{scheme}://{name}" + (f":{port}" if port is not None else "")


def _joined(parameters: Mapping[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value)


def _without_token(error: Exception, token: str) -> str:
    """Format an exception with the token, and each part of it, replaced."""
    text = "".join(traceback.format_exception(error))
    for secret in (token, *(part for part in token.split(".") if len(part) >= _MIN_SECRET)):
        text = text.replace(secret, "[token]")
    return text
