"""The address that a server listens on over HTTP, and its socket."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from twopipes._error_text import PYTHON_OPTIONS, public_address
from twopipes._http.options import HttpOptions
from twopipes._http.origin import is_loopback, parse_authority
from twopipes.errors import ListenFailed, LocalProtocolError

# Connections that wait to be accepted.
_BACKLOG: Final = 2048
_LOOPBACK: Final = "127.0.0.1"
_ALL_ADDRESSES: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with what the author wrote


class HttpAddress(NamedTuple):
    """A host and a port. Port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _PublicAddress(LocalProtocolError):
    """Other machines can reach the address, and that was not requested."""

    def describe(self, options: Mapping[str, str] = PYTHON_OPTIONS) -> str:
        """See :meth:`TwopipesError.describe`."""
        return public_address(options, self.args[0], _LOOPBACK)

    __str__ = describe


def parse_http_address(given: str | int) -> HttpAddress:
    """Parse a port of the loopback address, or ``HOST:PORT``.

    Raises:
        LocalProtocolError: It is something else.
    """
    text = str(given)
    if text.isascii() and text.isdecimal():
        text = f"{_LOOPBACK}:{text}"
    with suppress(ValueError):
        host, port = parse_authority(text)
        if port is not None:
            return HttpAddress(host, port)
    raise LocalProtocolError(f"http= must be a port or HOST:PORT, such as 8000 or '127.0.0.1:8000', got {given!r}")


def open_socket(address: HttpAddress, options: HttpOptions, *, has_auth: bool) -> socket.socket:
    """Listen on an address. The socket does not block.

    Raises:
        LocalProtocolError: Other machines can reach the address, and neither ``auth=`` nor ``public=True`` is given.
        ListenFailed: The address is in use or not available, or the name is unknown.
    """
    family, resolved = _resolve(address)
    if not is_loopback(resolved[0]) and not has_auth and not options.public:
        raise _PublicAddress(str(address))
    # With its protocol, or asyncio leaves Nagle's algorithm on: a response, which is two writes, would take 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        _configure(sock, options, has_both_families=address.host == "::")
        sock.bind(resolved)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenFailed(f"cannot listen on {address}: {error.strerror or error}") from error
    sock.setblocking(False)
    return sock


def url_of(sock: socket.socket, address: HttpAddress, options: HttpOptions) -> str:
    """Return the URL of the endpoint for a person on this machine."""
    host = _LOOPBACK if address.host in _ALL_ADDRESSES else address.host
    return f"http://{HttpAddress(host, sock.getsockname()[1])}{options.path}"


def _resolve(address: HttpAddress) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenFailed(f"cannot listen on {address}: {error.strerror or error}") from error
    family, _, _, _, resolved = found[0]
    return family, resolved


def _configure(sock: socket.socket, options: HttpOptions, *, has_both_families: bool) -> None:
    if sys.platform == "win32":
        # On Windows SO_REUSEADDR would let two servers share a port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        # A restarted server must not wait until the system has forgotten the connections of the last one.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not has_both_families)
    if sys.platform == "linux":
        # The kernel drops a connection whose client does not read, which ASGI has no way to do. Accepted sockets inherit it.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(options.write_timeout * 1000))
