"""Facts observed about a server at a URL. :mod:`.diagnose_http` interprets them. Field names are part of ``--format json``."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from twopipes._tools.doctor.observations import Attempt, Purpose

FailureKind = Literal[
    "lookup",
    "refused",
    "unreachable",
    "certificate expired",
    "certificate not trusted",
    "certificate of another host",
    "TLS failed",
    "not TLS",
    "needs TLS",
    "timeout",
    "closed",
    "not HTTP",
]
"""Why there is no HTTP response."""


class HttpFailure(Struct, frozen=True):
    """Why there is no HTTP response: its kind, and the text of the system."""

    kind: FailureKind
    detail: str


class HttpReply(Struct, frozen=True, kw_only=True):
    """What came back for one HTTP request. A field is empty if there was no response, or no such header."""

    purpose: str  # the method of the message, or what the request is for
    method: str  # of HTTP
    url: str
    failure: HttpFailure | None = None
    connected: float | None = None  # seconds for the connection, with TLS
    took: float | None = None  # seconds from then to the status
    status: int | None = None
    reason: str = ""  # the text after the status
    content_type: str = ""
    location: str = ""
    challenge: str = ""  # WWW-Authenticate
    server: str = ""  # the software, as it names itself
    has_session: bool = False  # whether it has Mcp-Session-Id
    excerpt: str = ""  # of a body that is not a message: the title of a page, or the beginning
    first_event: float | None = None  # seconds from the status to the first event of a stream
    event_type: str = ""  # of the first event

    @property
    def kind(self) -> str:
        """The content type without parameters."""
        return self.content_type.partition(";")[0].strip().lower()

    @property
    def status_line(self) -> str:
        """The status for people."""
        return f"HTTP {self.status} {self.reason}".rstrip()


class HttpObservations(Struct, frozen=True, kw_only=True):
    """Everything that was observed."""

    url: str
    addresses: tuple[str, ...] = ()  # of the host
    replies: tuple[HttpReply, ...] = ()  # in the order of the requests
    attempts: tuple[Attempt, ...] = ()  # the openings: with server/discover, and with initialize
    metadata: dict[str, Any] | None = field(default=None)  # of the protected resource (RFC 9728), if the server requires a token
    elsewhere: tuple[str, ...] = ()  # other URLs of the host that respond like an MCP endpoint
    has_token: bool = False  # whether the requests had an Authorization header
    slow: float = 5.0  # seconds after which a first response is slow
    out_of_time: tuple[str, ...] = ()  # what was skipped because the time was over

    def of(self, purpose: Purpose) -> Attempt | None:
        """Return the last opening with that purpose."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.purpose == purpose), None)

    def reply(self, purpose: str) -> HttpReply | None:
        """Return the first response for that purpose."""
        return next((reply for reply in self.replies if reply.purpose == purpose), None)
