"""The addresses of sockets: ``unix:/path`` and ``tcp://host:port``."""

from __future__ import annotations

import os
from typing import NamedTuple

from twopipes.errors import LocalProtocolError

SCHEMES = ("unix:", "tcp://")
"""How an address begins."""


class UnixAddress(NamedTuple):
    """The path of a Unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TcpAddress(NamedTuple):
    """A host, without brackets around an IPv6 address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp://[{self.host}]:{self.port}" if ":" in self.host else f"tcp://{self.host}:{self.port}"


def parse_address(text: str) -> UnixAddress | TcpAddress:
    """Parse an address that begins with one of :data:`SCHEMES`. Raises ``LocalProtocolError`` if path or port are missing."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")  # also unix:///path
        if not path:
            raise LocalProtocolError(f"{text!r} has no path; write unix:/path/to/socket")
        return UnixAddress(os.path.expanduser(path))
    try:
        return parse_host_port(text)
    except ValueError:
        raise LocalProtocolError(f"{text!r} has no port; write tcp://127.0.0.1:9000") from None


def parse_host_port(text: str, *, default_host: str = "") -> TcpAddress:
    """Parse ``HOST:PORT``, with or without ``tcp://`` before it. Raises ``ValueError`` for anything else."""
    host, colon, port = text.removeprefix("tcp://").rstrip("/").rpartition(":")
    host = host.strip("[]") or default_host
    if not host or not colon or not port.isdecimal():
        raise ValueError(f"not HOST:PORT: {text!r}")
    return TcpAddress(host, int(port))
