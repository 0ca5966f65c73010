"""The opening of a connection on both sides, as tables (sections LC, VN and DE of the rules).

Five revisions, two eras. A *legacy* session is opened by a handshake and lasts as long as the connection. A *modern* request
carries its own revision and capabilities and needs no session. The server decides for each message, so both eras may be used on
one connection (DE-12). The client decides once, by a probe.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from twopipes._protocol.revisions import META_CAPABILITIES, META_VERSION, MODERN

Eras = Literal["both", "legacy", "modern"]


def eras_of(revisions: Sequence[str]) -> Eras:
    """Return the eras of these revisions."""
    found = set(revisions)
    return "modern" if found.issubset(MODERN) else "legacy" if found.isdisjoint(MODERN) else "both"


# ---------------------------------------------------------------------------------------------------------------- server


class Phase(enum.Enum):
    """The state of the legacy handshake of a connection. Modern requests neither read nor change it."""

    __hash__ = object.__hash__  # the hash of enum.Enum is written in Python; this one is needed for every request

    FRESH = "no initialize yet"
    OPENING = "initialize answered"
    OPEN = "notifications/initialized received"


class Kind(enum.Enum):
    """What a request shows about its era."""

    __hash__ = object.__hash__  # as in Phase

    MODERN = "carries modern _meta"
    INITIALIZE = "initialize"
    PING = "ping"
    PLAIN = "anything else"


class Move(enum.Enum):
    """What the server does with the request."""

    SERVE_MODERN = "serve it by the revision that it names"
    SERVE_LEGACY = "serve it by the revision of the session"
    ANSWER_PING = "answer it, session or not"  # PI-02
    OPEN_SESSION = "negotiate a revision and open the session"
    REFUSE_SECOND = "refuse: the session is already open"  # LC-15
    REFUSE_BARE = "refuse: neither a session nor the _meta of a modern request"  # DE-13, VN-02
    REFUSE_EARLY = "refuse: initialize comes first"  # LC-14
    REFUSE_HANDSHAKE = "refuse: initialize is not supported; name the versions"  # DE-09


SERVER_MOVES: dict[tuple[Eras, Phase, Kind], Move] = {
    ("both", Phase.FRESH, Kind.MODERN): Move.SERVE_MODERN,  # VN-07, DE-10
    ("both", Phase.FRESH, Kind.INITIALIZE): Move.OPEN_SESSION,  # DE-11
    ("both", Phase.FRESH, Kind.PING): Move.ANSWER_PING,
    ("both", Phase.FRESH, Kind.PLAIN): Move.REFUSE_BARE,
    ("both", Phase.OPENING, Kind.MODERN): Move.SERVE_MODERN,
    ("both", Phase.OPENING, Kind.INITIALIZE): Move.REFUSE_SECOND,
    ("both", Phase.OPENING, Kind.PING): Move.ANSWER_PING,
    ("both", Phase.OPENING, Kind.PLAIN): Move.SERVE_LEGACY,  # LC-05 binds the client; hosts that do not wait are served
    ("both", Phase.OPEN, Kind.MODERN): Move.SERVE_MODERN,  # DE-12
    ("both", Phase.OPEN, Kind.INITIALIZE): Move.REFUSE_SECOND,
    ("both", Phase.OPEN, Kind.PING): Move.ANSWER_PING,
    ("both", Phase.OPEN, Kind.PLAIN): Move.SERVE_LEGACY,
    # A legacy server does not know the modern _meta: to it, such a request is a plain one.
    ("legacy", Phase.FRESH, Kind.MODERN): Move.REFUSE_EARLY,
    ("legacy", Phase.FRESH, Kind.INITIALIZE): Move.OPEN_SESSION,
    ("legacy", Phase.FRESH, Kind.PING): Move.ANSWER_PING,
    ("legacy", Phase.FRESH, Kind.PLAIN): Move.REFUSE_EARLY,
    ("legacy", Phase.OPENING, Kind.MODERN): Move.SERVE_LEGACY,
    ("legacy", Phase.OPENING, Kind.INITIALIZE): Move.REFUSE_SECOND,
    ("legacy", Phase.OPENING, Kind.PING): Move.ANSWER_PING,
    ("legacy", Phase.OPENING, Kind.PLAIN): Move.SERVE_LEGACY,
    ("legacy", Phase.OPEN, Kind.MODERN): Move.SERVE_LEGACY,
    ("legacy", Phase.OPEN, Kind.INITIALIZE): Move.REFUSE_SECOND,
    ("legacy", Phase.OPEN, Kind.PING): Move.ANSWER_PING,
    ("legacy", Phase.OPEN, Kind.PLAIN): Move.SERVE_LEGACY,
    # A modern server stays in FRESH.
    ("modern", Phase.FRESH, Kind.MODERN): Move.SERVE_MODERN,
    ("modern", Phase.FRESH, Kind.INITIALIZE): Move.REFUSE_HANDSHAKE,
    ("modern", Phase.FRESH, Kind.PING): Move.REFUSE_BARE,  # PI-04
    ("modern", Phase.FRESH, Kind.PLAIN): Move.REFUSE_BARE,
}


def kind_of(method: str, meta: Mapping[str, Any] | None) -> Kind:
    """Classify a request by its ``_meta`` first: one of the two required keys is enough, and the error names the other (VN-02)."""
    if meta is not None and (META_VERSION in meta or META_CAPABILITIES in meta):
        return Kind.MODERN
    if method == "initialize":
        return Kind.INITIALIZE
    if method == "ping":
        return Kind.PING
    return Kind.PLAIN


# ---------------------------------------------------------------------------------------------------------------- client


class ClientPhase(enum.Enum):
    """The state of the client during the opening."""

    CLOSED = "nothing sent yet"
    PROBING = "server/discover sent"
    RETRYING = "server/discover sent again, with a version from the server's list"
    INITIALIZING = "initialize sent"
    RECONSIDERING = "server/discover sent again, because the handshake was refused with a modern version"
    MODERN = "open, stateless"
    LEGACY = "open, a session"
    RESPAWN = "the server died on the probe; open again with a new process and no probe"
    FAILED = "no common ground"


class Reply(enum.Enum):
    """The kinds of responses to the opening request."""

    DISCOVERED = "a discover result with a version we speak"
    OTHER_VERSION = "an error with a modern version we speak"
    LEGACY_VERSIONS = "a version list with legacy dates only"
    NO_COMMON_VERSION = "a version list without a date we speak"
    INITIALIZED = "an initialize result with a version we speak"
    STRANGE_VERSION = "an initialize result with a version we do not speak"
    NEEDS_CAPABILITY = "error -32021: a modern server that needs a capability we lack"
    REFUSED = "any other error"
    UNUSABLE = "a result that is invalid"
    SILENCE = "nothing within the limit"
    GONE = "end of file"


CLIENT_MOVES: dict[tuple[ClientPhase, Reply], ClientPhase] = {
    (ClientPhase.PROBING, Reply.DISCOVERED): ClientPhase.MODERN,  # DE-02
    (ClientPhase.PROBING, Reply.OTHER_VERSION): ClientPhase.RETRYING,  # DE-03, VN-05
    (ClientPhase.PROBING, Reply.LEGACY_VERSIONS): ClientPhase.INITIALIZING,  # DE-15
    (ClientPhase.PROBING, Reply.NO_COMMON_VERSION): ClientPhase.FAILED,  # a modern server, proved by its list
    (ClientPhase.PROBING, Reply.NEEDS_CAPABILITY): ClientPhase.FAILED,  # CON-17: a modern server, proved by its error
    (ClientPhase.PROBING, Reply.REFUSED): ClientPhase.INITIALIZING,  # DE-04, DE-05: whatever the code
    (ClientPhase.PROBING, Reply.UNUSABLE): ClientPhase.INITIALIZING,  # DE-04
    (ClientPhase.PROBING, Reply.SILENCE): ClientPhase.INITIALIZING,  # DE-04
    (ClientPhase.PROBING, Reply.GONE): ClientPhase.RESPAWN,  # DE-06
    (ClientPhase.RETRYING, Reply.DISCOVERED): ClientPhase.MODERN,
    (ClientPhase.RETRYING, Reply.OTHER_VERSION): ClientPhase.FAILED,  # VN-05: one retry, no loop
    (ClientPhase.RETRYING, Reply.LEGACY_VERSIONS): ClientPhase.INITIALIZING,
    (ClientPhase.RETRYING, Reply.NO_COMMON_VERSION): ClientPhase.FAILED,
    (ClientPhase.RETRYING, Reply.NEEDS_CAPABILITY): ClientPhase.FAILED,
    (ClientPhase.RETRYING, Reply.REFUSED): ClientPhase.FAILED,  # DE-03: the server proved to be modern
    (ClientPhase.RETRYING, Reply.UNUSABLE): ClientPhase.FAILED,
    (ClientPhase.RETRYING, Reply.SILENCE): ClientPhase.FAILED,
    (ClientPhase.RETRYING, Reply.GONE): ClientPhase.FAILED,
    (ClientPhase.INITIALIZING, Reply.INITIALIZED): ClientPhase.LEGACY,
    (ClientPhase.INITIALIZING, Reply.STRANGE_VERSION): ClientPhase.FAILED,  # LC-10
    # DE-07, DE-09: the guess was wrong. A modern server that starts slowly does not respond while the probe waits.
    (ClientPhase.INITIALIZING, Reply.OTHER_VERSION): ClientPhase.RECONSIDERING,
    (ClientPhase.INITIALIZING, Reply.REFUSED): ClientPhase.FAILED,  # LC-13
    (ClientPhase.INITIALIZING, Reply.UNUSABLE): ClientPhase.FAILED,
    (ClientPhase.INITIALIZING, Reply.SILENCE): ClientPhase.FAILED,
    (ClientPhase.INITIALIZING, Reply.GONE): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.DISCOVERED): ClientPhase.MODERN,
    # There is nothing left to try.
    (ClientPhase.RECONSIDERING, Reply.OTHER_VERSION): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.LEGACY_VERSIONS): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.NO_COMMON_VERSION): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.NEEDS_CAPABILITY): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.REFUSED): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.UNUSABLE): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.SILENCE): ClientPhase.FAILED,
    (ClientPhase.RECONSIDERING, Reply.GONE): ClientPhase.FAILED,
}


def versions_offered(offered: Sequence[str], *, spoken: Sequence[str]) -> tuple[Reply, str | None]:
    """Classify a server's list of revisions and return the newest modern one that both support, if any (DE-15)."""
    common = set(offered).intersection(spoken)
    if modern := common.intersection(MODERN):
        return Reply.OTHER_VERSION, max(modern)
    return (Reply.LEGACY_VERSIONS if common else Reply.NO_COMMON_VERSION), None
