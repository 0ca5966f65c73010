"""A server that ``keep`` looks after: answered from its manifest while it starts, started late, stopped when it is idle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from twopipes._process.command import ServerCommand


class KeepSettings(Struct, frozen=True, kw_only=True):
    """How a server is kept.

    Attributes:
        is_lazy: Whether it is started by the first request that needs it, and not by the first message of the host.
        idle: Seconds without a request after which it is stopped; ``None`` for never.
        has_manifest: Whether it is answered from the manifest of its previous run until it has started.
        log: The file to which its stderr is appended; by default it is copied to ours.
        watch: The files and folders that restart it when they change.
    """

    is_lazy: bool = False
    idle: float | None = None
    has_manifest: bool = True
    log: str | None = None
    watch: tuple[str, ...] = ()


def kept_command(argv: Sequence[str], settings: KeepSettings) -> ServerCommand:
    """Return the command of a kept server. It gets our whole environment, as if the host had started it."""
    return ServerCommand(argv, environment="inherit", stderr="inherit" if settings.log is None else Path(settings.log))
