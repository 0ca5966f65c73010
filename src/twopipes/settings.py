"""Settings in groups. Every default has a reason; ``None`` switches a limit off."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

__all__ = ["InputPolicy", "Limits", "RestartPolicy", "Sandbox", "ServerSettings", "Timeouts"]

KIB = 1024
MIB = 1024 * KIB
# Bytes. The largest file of a served folder that is sent. Base64 adds a third, and several files may be in flight at once.
MAX_FILE_SIZE = 16 * MIB


class Limits(Struct, frozen=True, kw_only=True):
    """How much one connection may hold."""

    # Bytes. The longest line to accept; a 4K screenshot in base64 is about 30 MB.
    max_line: int | None = 64 * MIB
    # Bytes. How much of the start of a rejected line is kept for the log and the error message.
    max_excerpt: int = 256
    # Requests of the peer that may be open at once. More is probably a runaway loop; they are rejected, not queued.
    max_in_flight: int | None = 10_000
    # Members of one batch (2025-03-26 only).
    max_batch: int | None = 1_000
    # Open subscriptions/listen requests (SU-18). A host needs one or two; each costs a copy of every notification.
    max_listens: int | None = 1_000
    # Resource URIs that one connection may watch, over all its subscriptions.
    max_watched: int | None = 100_000
    # Pages of one list that a client fetches (PG-06). With 100 items per page, that is 100,000 items.
    max_pages: int | None = 1_000
    # Items that a client collects from the pages of one list.
    max_listed: int | None = 1_000_000
    # Bytes of a client's responses that the server has not read yet; each counts as its id plus 256 bytes, an error as its text.
    # When the limit is reached the client stops reading, so a server that sends requests but never reads cannot fill our memory.
    max_unsent: int | None = 1 * MIB
    # Bytes of events that wait for one slow callback of a client, or for the reader of one subscription. Each counts as its size
    # plus 1 KiB, so the default holds about 8,000 log messages. Further events are dropped and counted.
    max_backlog: int | None = 8 * MIB
    # Turns of one sampled conversation in which the model uses tools (SA-12). Each turn costs the user money.
    max_tool_turns: int | None = 100


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds."""

    # From the launch to the first usable response, in either era.
    connect: float | None = 30.0
    # For the response to server/discover before the server is treated as a legacy one. A slow Python server needs 3 s to start.
    probe: float | None = 5.0
    # Idle limit: time without a response or progress. Each progress notification restarts it.
    request: float | None = 60.0
    # Hard limit, with or without progress (TO-03).
    total: float | None = 600.0
    # For each step of the shutdown: close stdin, SIGTERM, SIGKILL.
    shutdown: float = 2.0


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """What a client does when its server exits unexpectedly (SD-04, SD-05).

    Raises:
        ValueError: A number is out of range, or a word is not one of the choices.
    """

    # Which servers are restarted. A modern server keeps no state, so nothing is lost. With a legacy server the session is gone, and
    # only the caller knows whether a new session is acceptable (SD-06).
    when: Literal["modern", "always", "never"] = "modern"
    # Seconds before the first restart. Most crashes happen once, and users should not notice them.
    first_delay: float = 0.1
    # Each further delay is multiplied by this, until the server has been healthy once.
    factor: float = 2.0
    # Seconds. The longest delay, so that a user who has fixed the server does not wait too long.
    max_delay: float = 30.0
    # The random share of a delay, from 0 to 1, which is subtracted. It keeps many clients from restarting at the same moment.
    jitter: float = 0.2
    # Restarts within the window before the client gives up; None never gives up.
    max_restarts: int | None = 5
    # Seconds for which a crash counts. A server that cannot start uses up its restarts within a few seconds.
    window: float = 120.0
    # Seconds after which a running server counts as healthy: the delay and the count of restarts are reset.
    healthy_after: float = 60.0
    # Which lost requests are sent again to the new process: those that are read-only or idempotent, all, or none (SD-05).
    resend: Literal["safe", "all", "none"] = "safe"

    def __post_init__(self) -> None:
        # Written so that NaN, for which every comparison is false, is rejected.
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
                span = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
                raise ValueError(f"RestartPolicy.{name} must be a finite number {span}, got {value!r}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"RestartPolicy.max_restarts must be at least 0, or None for no limit, got {self.max_restarts!r}")
        for name, choices in (("when", ("modern", "always", "never")), ("resend", ("safe", "all", "none"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"RestartPolicy.{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")

    def covers(self, era: Literal["legacy", "modern"]) -> bool:
        """Return whether a server of this era is restarted."""
        return self.when == "always" or (self.when == "modern" and era == "modern")


class PathLike(Protocol):
    """An object that names a path, such as ``pathlib.Path``."""

    def __fspath__(self) -> str: ...


class Sandbox(Struct, frozen=True, kw_only=True):
    """What a server that runs as a child process may reach.

    Everything else is hidden or refused, for the server and for every process that it starts. What each program needs stays
    readable: the system's programs and libraries, and the server's own program with its interpreter.

    Raises:
        ValueError: A value has the wrong type, or is not one of the choices.
    """

    # Files and folders that it may read and execute. A leading ~ is expanded; a relative path starts at its working folder.
    read: Sequence[str | PathLike] = ()
    # Files and folders that it may also change.
    write: Sequence[str | PathLike] = ()
    # Whether it may use the network. Without it, not even a server on the same machine can be reached.
    network: bool = False
    # Whether its working folder is readable. The home folder, and a folder that contains it, never becomes readable in this way.
    folder: bool = True
    # What enforces the policy. auto takes bubblewrap if it works here, or else Landlock. If neither does, nothing is started.
    engine: Literal["auto", "bubblewrap", "landlock"] = "auto"

    def __post_init__(self) -> None:
        for name in ("read", "write"):
            force_setattr(self, name, _checked_paths(name, getattr(self, name)))
        for name in ("network", "folder"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"Sandbox.{name} must be true or false, got {getattr(self, name)!r}")
        engines = ("auto", "bubblewrap", "landlock")
        if self.engine not in engines:
            raise ValueError(f"Sandbox.engine must be one of {', '.join(engines)}, got {self.engine!r}")


def _checked_paths(name: str, given: object) -> tuple[str, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise ValueError(f"Sandbox.{name} must be a list of paths, got {given!r}")
    paths = tuple(each.__fspath__() if hasattr(each, "__fspath__") else each for each in given)
    for each in paths:
        if not isinstance(each, str) or not each or "\0" in each:
            raise ValueError(f"Sandbox.{name} must contain non-empty paths, got {each!r}")
    return paths


class InputPolicy(Struct, frozen=True, kw_only=True):
    """How a server waits for the client to answer its questions (elicitation, sampling, roots)."""

    # Seconds to wait for an answer, often from a person, before the handler gets a timeout.
    wait: float | None = 600.0
    # Handlers that may wait in memory for the retry of a stateless request; beyond that the oldest is dropped (MR-18).
    max_waiting: int = 256
    # Seconds for which a sealed requestState is valid (MR-16).
    state_lifetime: float = 3600.0
    # How many questions one call may ask, over all its rounds. No limit by default, because the handler decides when it is done.
    # Set it if a model, not a person, decides whether to continue (SA-12).
    max_rounds: int | None = None


class ServerSettings(Struct, frozen=True, kw_only=True):
    """How a server runs and shuts down."""

    # Handlers that run at once. Handlers that wait for the client do not count.
    max_running: int = 256
    # Threads for blocking functions. A tool that sleeps occupies one thread and does not delay other calls.
    max_threads: int = 64
    # Seconds that calls in flight may take to finish after the end of the input.
    drain: float = 5.0
    # The same after SIGINT or SIGTERM; a host that sends a signal does not wait long.
    drain_on_signal: float = 1.0
    # Exit when the parent process exits, even if another process still holds the pipe open.
    watch_parent: bool = True
    # Seconds after which a coroutine that blocks the event loop is reported on stderr; None to disable the check.
    blocked_after: float | None = 1.0
    # Accept "3" for a number and "true" for a boolean in the arguments of tools, because some models quote them. A schema written
    # by hand is still enforced as it is.
    lenient_arguments: bool = False
