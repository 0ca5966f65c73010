"""The requests that the daemon receives, decoded and checked, and what two hosts must have in common to share a server."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

# Variables that describe the terminal or the session of a host. They differ between two hosts that are otherwise the same, and no
# server depends on their values. All others must be equal: a server has the credentials of the environment that it was started in.
_SESSION_VARIABLES: Final = """
_ COLORTERM COLUMNS GPG_TTY LINES OLDPWD PWD SHLVL SSH_CLIENT SSH_CONNECTION SSH_TTY STY TERM TERM_PROGRAM TERM_PROGRAM_VERSION
TERM_SESSION_ID TMUX TMUX_PANE WINDOW WINDOWID XDG_SESSION_ID ALACRITTY_LOG ALACRITTY_SOCKET ALACRITTY_WINDOW_ID ITERM_SESSION_ID
KITTY_PID KITTY_WINDOW_ID VTE_VERSION WEZTERM_PANE WEZTERM_UNIX_SOCKET VSCODE_GIT_IPC_HANDLE VSCODE_IPC_HOOK VSCODE_IPC_HOOK_CLI
VSCODE_PID CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT INVOCATION_ID JOURNAL_STREAM NODE_CHANNEL_FD
"""
SESSION_VARIABLES: Final = frozenset(_SESSION_VARIABLES.split())
# Seconds that a server stays without a host.
DEFAULT_IDLE: Final = 300.0


class SandboxOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server may reach, as in :class:`twopipes.settings.Sandbox`."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = False


class ShareOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of ``twopipes keep --share``.

    Attributes:
        share_all: Whether hosts share a legacy server, too.
        is_lazy: As in ``KeepSettings``.
        idle: Likewise; also the seconds that the server stays after its last host has left.
        has_manifest: Likewise.
        watch: Likewise.
        log: Likewise.
        trace: The file with the messages between the hosts and the server.
        sandbox: As in ``KeepSettings``.
    """

    share_all: bool = False
    is_lazy: bool = False
    idle: float | None = None
    has_manifest: bool = True
    watch: tuple[str, ...] = ()
    log: str | None = None
    trace: str | None = None
    sandbox: SandboxOptions | None = None


class ServeRequest(Struct, frozen=True, kw_only=True, tag_field="request", tag="serve"):
    """Serve a command to the host at the other end of this connection."""

    argv: Annotated[list[str], Meta(min_length=1)]
    cwd: str
    environment: dict[str, str]
    options: ShareOptions
    pid: int
    host: int

    @property
    def command(self) -> str:
        """The command on one line."""
        return shlex.join(self.argv)

    def __repr__(self) -> str:  # the environment has secrets
        return f"ServeRequest({self.command!r}, cwd={self.cwd!r})"


class StatusRequest(Struct, frozen=True, kw_only=True, tag_field="request", tag="status"):
    """Describe the daemon and its servers."""


class LogsRequest(Struct, frozen=True, kw_only=True, tag_field="request", tag="logs"):
    """Return the last lines of stderr of the servers that match ``server``, or of all."""

    server: str | None = None


class StopRequest(Struct, frozen=True, kw_only=True, tag_field="request", tag="stop"):
    """End the processes of the servers that match ``server``; without it, end the daemon with all servers and sessions."""

    server: str | None = None


Request = ServeRequest | StatusRequest | LogsRequest | StopRequest


def decode_request(line: bytes) -> Request:
    """Return the request in a line. Raises ``ValueError`` with a sentence."""
    try:
        # Not msgspec: an argument or a variable that is not valid UTF-8 arrives as lone surrogates, which it refuses.
        return convert(json.loads(line), Request)  # type: ignore[no-any-return]
    except (ValidationError, RecursionError, ValueError) as error:
        raise ValueError(f"invalid request: {error}") from error


def sharing_key(request: ServeRequest) -> str:
    """Return a digest of everything that two hosts must have in common: command, folder, environment and options."""
    environment = sorted(item for item in request.environment.items() if item[0] not in SESSION_VARIABLES)
    parts: list[Any] = [request.argv, request.cwd, environment, to_builtins(request.options)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
