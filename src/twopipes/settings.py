"""What can be set, grouped. Every value is a default with a reason; ``None`` switches a limit off."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Limits", "QuestionPolicy", "Timeouts"]

KIB = 1024
MIB = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """How much of anything one connection may hold."""

    # Bytes. The longest line we hold; a 4K screenshot in base64 is about 30 MB.
    max_line: int | None = 64 * MIB
    # Bytes. What we keep of a refused line, from its head, for the log and the error message.
    max_excerpt: int = 256
    # Requests of the peer that may be open at once. More is a runaway loop, not a workload; they are refused, not queued.
    max_in_flight: int | None = 10_000
    # Members of one batch (2025-03-26 only).
    max_batch: int | None = 1_000
    # Open subscriptions/listen requests (SU-18). A host needs one or two; each costs a copy of every announcement.
    max_listens: int | None = 1_000
    # Resource URIs that one connection may watch, over all its subscriptions.
    max_watched: int | None = 100_000


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds."""

    # From the launch to the first usable answer, whatever the era.
    connect: float | None = 30.0
    # For the answer to server/discover before the server is taken for a legacy one. A slow Python server needs 3 s to start.
    probe: float | None = 5.0
    # Idle: without an answer and without progress. Any progress starts it again.
    request: float | None = 60.0
    # Hard: however lively the progress (TO-03).
    total: float | None = 600.0
    # For each step of the shutdown: close stdin, SIGTERM, SIGKILL.
    shutdown: float = 2.0


class QuestionPolicy(Struct, frozen=True, kw_only=True):
    """How a server waits for what it asked the client (elicitation, sampling, roots)."""

    # Seconds that a person may take to answer before the handler gets a timeout.
    wait: float | None = 600.0
    # Handlers that may wait in memory for the retry of a stateless request; the oldest gives way (MR-18).
    max_waiting: int = 256
    # Seconds for which a sealed requestState is good (MR-16).
    state_lifetime: float = 3600.0
    # Questions that one call may ask, over all its rounds: a bound on loops, not on dialogues (SA-12).
    max_rounds: int = 64
