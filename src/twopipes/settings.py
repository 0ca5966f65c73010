"""What can be set, grouped. Every value is a default with a reason; ``None`` switches a limit off."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Limits", "QuestionPolicy", "ServerSettings", "Timeouts"]

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
    # How often one call may ask, over all its rounds. Off: a dialogue ends when its author says so. Set it where a model, not a
    # person, decides whether to go on (SA-12).
    max_rounds: int | None = None


class ServerSettings(Struct, frozen=True, kw_only=True):
    """How a server works and how it ends."""

    # Handlers that work at once. Those that wait for the client do not count.
    max_running: int = 256
    # Threads for functions that block. A tool that sleeps costs one of them and delays nobody else.
    max_threads: int = 64
    # Seconds for what is in flight when the input ends.
    drain: float = 5.0
    # The same after SIGINT or SIGTERM: a host that sends one does not wait long.
    drain_on_signal: float = 1.0
    # End when the process that launched us dies, even if somebody else still holds the pipe.
    watch_parent: bool = True
    # Seconds after which a coroutine that blocks the event loop is named on stderr; None to look away.
    blocked_after: float | None = 1.0
