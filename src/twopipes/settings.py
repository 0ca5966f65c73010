"""What can be set, grouped. Every value is a default with a reason; ``None`` switches a limit off."""

from __future__ import annotations

from math import inf
from typing import Literal

from msgspec import Struct

__all__ = ["InputPolicy", "Limits", "RestartPolicy", "ServerSettings", "Timeouts"]

KIB = 1024
MIB = 1024 * KIB
# Bytes of a file in a served folder that is sent as a whole. In base64 it is a third more, and several may be on their way at once.
MAX_FILE_SIZE = 16 * MIB

_WHEN = ("modern", "always", "never")
_RESEND = ("safe", "all", "none")


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
    # Pages of one list that a client walks (PG-06). With a page of a hundred items that is a hundred thousand of them.
    max_pages: int | None = 1_000
    # Items that such a walk brings together, however few pages they come on.
    max_listed: int | None = 1_000_000
    # Bytes of a client's responses that its server leaves unread; each counts as its id and 256 bytes, an error as its text. Beyond
    # that the client stops reading, so a server that asks and never reads fills its own pipe and not our memory.
    max_unsent: int | None = 1 * MIB
    # Bytes of events that wait in front of one slow callback of a client, or for the reader of one subscription; each counts 1 KiB
    # more than its own size, so that is some eight thousand log messages. What comes beyond that is dropped and counted.
    max_backlog: int | None = 8 * MIB
    # Turns of one sampled conversation in which the model used tools (SA-12): a server that goes on for ever spends money.
    max_tool_turns: int | None = 100


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


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """What a client does when its server dies of itself (SD-04, SD-05).

    Raises:
        ValueError: A number is not one that can be waited for or counted, or a word is none of those that there are.
    """

    # Which servers are started again. A modern one lost nothing, because it kept nothing; with a legacy one the session is gone,
    # and only the caller knows whether a fresh one will do (SD-06).
    when: Literal["modern", "always", "never"] = "modern"
    # Seconds before the first restart. Most crashes are single ones, and nobody should notice those.
    first_delay: float = 0.1
    # How much longer each further delay is, until one life was a healthy one.
    factor: float = 2.0
    # Seconds. The longest delay: past it, a user who mended the server would wait for us and not for it.
    max_delay: float = 30.0
    # Which share of a delay is left to chance, from 0 to 1; it is taken off. So many clients of one broken thing do not march in
    # step.
    jitter: float = 0.2
    # Restarts within the window before the client gives up; None never gives up.
    max_restarts: int | None = 5
    # Seconds that a crash is held against the server. A server that cannot start uses up its restarts in a few of them.
    window: float = 120.0
    # Seconds of life after which a crash is a new story: the delays and the count begin again.
    healthy_after: float = 60.0
    # Which lost requests are sent again to the fresh process: those that change nothing or may be done twice, all, or none (SD-05).
    resend: Literal["safe", "all", "none"] = "safe"

    def __post_init__(self) -> None:
        # Written so that "not a number", which is neither more nor less than anything, does not pass.
        for name, least, most in (
            ("first_delay", 0.0, inf),
            ("factor", 1.0, inf),
            ("max_delay", 0.0, inf),
            ("jitter", 0.0, 1.0),
            ("window", 0.0, inf),
            ("healthy_after", 0.0, inf),
        ):
            value = getattr(self, name)
            if not least <= value <= most or value == inf:
                span = f"from {least:g} on" if most == inf else f"from {least:g} to {most:g}"
                raise ValueError(f"RestartPolicy.{name} is a finite number {span}, not {value!r}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"RestartPolicy.max_restarts is a number from 0 on, or None for no limit, not {self.max_restarts!r}")
        if self.when not in _WHEN:
            raise ValueError(f"RestartPolicy.when is one of {', '.join(_WHEN)}, not {self.when!r}")
        if self.resend not in _RESEND:
            raise ValueError(f"RestartPolicy.resend is one of {', '.join(_RESEND)}, not {self.resend!r}")

    def covers(self, era: Literal["legacy", "modern"]) -> bool:
        """Tells whether a server of this era is to be started again."""
        return self.when == "always" or (self.when == "modern" and era == "modern")


class InputPolicy(Struct, frozen=True, kw_only=True):
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
    # Take "3" for a number and "true" for a truth value in the arguments of tools, for models that quote them. A schema that was
    # written by hand is still enforced as it is.
    lenient_arguments: bool = False
