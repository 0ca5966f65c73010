"""How a server is served over HTTP. Every default has a reason."""

from __future__ import annotations

from math import inf
from typing import Final, Literal

from msgspec import Struct

from twopipes._http.origin import AccessList
from twopipes.settings import MIB

Responses = Literal["auto", "stream"]

_COUNTS: Final = ("max_body", "max_requests", "max_streams", "max_sessions", "events_per_stream", "event_bytes")
_SECONDS: Final = ("session_idle", "keep_alive", "write_timeout", "read_timeout")


class HttpOptions(Struct, frozen=True, kw_only=True):
    """How a server is served over HTTP.

    Raises:
        ValueError: A number is out of range, or a path, origin or host is malformed.
    """

    # The path of the MCP endpoint, below the path at which the application is mounted.
    path: str = "/mcp"
    # The path that answers 200 while the server accepts requests, for load balancers; None for no such path.
    health: str | None = "/health"
    # Origins of web pages that may connect, such as "https://app.example.com", or "*"; CORS allows the same. Pages of this machine
    # may always connect to a server on a loopback address. Clients that are not browsers send no origin.
    origins: tuple[str, ...] = ()
    # Names under which clients reach the server, such as "mcp.example.com", "mcp.example.com:8443", "*.example.com" or "*". The
    # names of the loopback addresses and the address that the server listens on are always accepted.
    hosts: tuple[str, ...] = ()
    # "auto" responds with JSON if the response is the first message of a call, and with a stream of events otherwise. "stream"
    # always responds with a stream, which shows a proxy early that the server is alive.
    responses: Responses = "auto"
    # Bytes. The largest body of a request. Arguments are rarely larger than a document, and max_requests bodies may arrive at once.
    max_body: int = 4 * MIB
    # Requests that may be open at once, without subscriptions and GET streams. More are refused with 503.
    max_requests: int = 1_000
    # Subscriptions and GET streams that may be open at once. Each costs a connection and a few kilobytes.
    max_streams: int = 10_000
    # Sessions of legacy clients. The one that was idle for the longest time is ended to make room for a new one.
    max_sessions: int = 10_000
    # Seconds without a request or an open stream after which a legacy session is ended.
    session_idle: float = 3600.0
    # Begins the id of each legacy session, followed by a dot, so that a load balancer can send a session to the process that holds
    # it. Letters, digits, "-" and "_".
    session_prefix: str = ""
    # Seconds without an event after which a comment is sent on a stream. Many proxies close a connection that is silent for 30 s.
    keep_alive: float = 15.0
    # Seconds that a client may stop reading its response. Then the response is ended and the request is cancelled.
    write_timeout: float = 30.0
    # Seconds that the body of a request may take to arrive; with server.run(http=...), the headers too.
    read_timeout: float = 30.0
    # Events of one stream that a legacy client can still ask for after a lost connection.
    events_per_stream: int = 1_000
    # Bytes. The same for all streams of one session together.
    event_bytes: int = 4 * MIB
    # Serve on an address that other machines can reach without auth=. Everyone who can reach it can then call every tool.
    public: bool = False

    def __post_init__(self) -> None:
        for name in ("path", "health"):
            _check_path(name, getattr(self, name))
        if self.path == self.health:
            raise ValueError(f"HttpOptions.health must differ from HttpOptions.path, got {self.health!r} for both")
        AccessList(hosts=self.hosts, origins=self.origins)
        if self.responses not in {"auto", "stream"}:
            raise ValueError(f"HttpOptions.responses must be 'auto' or 'stream', got {self.responses!r}")
        if not _is_prefix(self.session_prefix):
            raise ValueError(
                f"HttpOptions.session_prefix must have at most 32 ASCII letters, digits, '-' and '_', got {self.session_prefix!r}"
            )
        for name in _COUNTS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"HttpOptions.{name} must be an integer of at least 1, got {value!r}")
        for name in _SECONDS:
            value = getattr(self, name)
            # Written so that NaN, for which every comparison is false, is rejected.
            if not isinstance(value, int | float) or not 0 < value < inf:
                raise ValueError(f"HttpOptions.{name} must be a finite number of seconds over 0, got {value!r}")


def _is_prefix(value: str) -> bool:
    return len(value) <= 32 and value.isascii() and all(each.isalnum() or each in "-_" for each in value)


def _check_path(name: str, value: str | None) -> None:
    if value is None and name == "health":
        return
    text = str(value)
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or any(each in text for each in " ?#%"):
        raise ValueError(f"HttpOptions.{name} must be a path that starts with '/' and has no spaces or query, got {value!r}")
