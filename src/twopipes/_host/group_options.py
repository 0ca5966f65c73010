"""What the servers of a group have in common, and how it becomes the arguments of ``connect()`` for one of them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from twopipes._client.connect import Connecting, Given, connect
from twopipes._client.http_auth import ClientAuth
from twopipes._client.input_handlers import Elicitation, Place, Sampling
from twopipes._client.options import ClientOptions
from twopipes._client.targets import CommandTarget, target_of
from twopipes._host.config import ServerConfig
from twopipes._process.stderr import StderrLine
from twopipes._protocol.types import CreateMessageResult, ElicitResult, LogParams
from twopipes.errors import LocalProtocolError, TwopipesError
from twopipes.settings import Limits, RestartPolicy, Sandbox, Timeouts

Config = ServerConfig | Given
"""How to reach a server of a group: a :class:`ServerConfig`, or anything that ``connect()`` takes."""
OnGroupElicit = Callable[
    [str, Elicitation], ElicitResult | Mapping[str, Any] | Awaitable[ElicitResult | Mapping[str, Any] | None] | None
]
OnGroupSample = Callable[[str, Sampling], CreateMessageResult | str | Awaitable[CreateMessageResult | str]]
GroupRoots = Iterable[Place] | Callable[[str], Iterable[Place] | Awaitable[Iterable[Place]]]

# Tools of one server. More would make the event loop, which all servers share, wait for seconds when they are listed.
MAX_LISTED = 20_000


class GroupOptions(Struct, frozen=True, kw_only=True):
    """The arguments of ``ServerGroup`` that apply to each server. Each callback gets the name of the server first."""

    on_log: Callable[[str, LogParams], Any] | None = None
    on_stderr: Callable[[str, StderrLine], Any] | None = None
    on_restart: Callable[[str, TwopipesError], Any] | None = None
    on_elicit: OnGroupElicit | None = None
    on_elicit_url: OnGroupElicit | None = None
    on_sample: OnGroupSample | None = None
    roots: GroupRoots | None = None
    timeouts: Timeouts | None = None
    limits: Limits | None = None
    restart: RestartPolicy | None = None
    sandbox: Sandbox | None = None
    auth: Mapping[str, ClientAuth] | None = None
    trace: str | os.PathLike[str] | None = None
    options: ClientOptions | None = None

    def timeouts_of(self, config: Config) -> Timeouts:
        """Return the timeouts of one server."""
        own = config.timeouts if isinstance(config, ServerConfig) else None
        return own or self.timeouts or Timeouts()

    def make_trace_folder(self) -> None:
        """Create the folder of the recordings. Raises ``LocalProtocolError`` if that is not possible."""
        if self.trace is not None:
            try:
                os.makedirs(self.trace, mode=0o700, exist_ok=True)  # recordings may have private data
            except OSError as error:
                raise LocalProtocolError(f"the folder of trace= cannot be created: {error}") from error

    def connect(self, server: str, config: Config, prefix: str, on_restart: Callable[[TwopipesError], Any]) -> Connecting:
        """Return what opens a server. Raises ``TwopipesError`` if its configuration cannot be used."""

        def bound(callback: Callable[..., Any] | None) -> Any:
            return None if callback is None else partial(callback, server)

        options = self.options or ClientOptions()
        return connect(
            self._target(config),
            on_log=bound(self.on_log),
            on_stderr=bound(self.on_stderr),
            on_restart=on_restart,
            on_elicit=bound(self.on_elicit),
            on_elicit_url=bound(self.on_elicit_url),
            on_sample=bound(self.on_sample),
            roots=bound(self.roots) if callable(self.roots) else self.roots,
            timeouts=self.timeouts_of(config),
            limits=self.limits or Limits(max_listed=MAX_LISTED),
            restart=self.restart,
            auth=(self.auth or {}).get(server),
            trace=None if self.trace is None else Path(self.trace) / f"{prefix}.jsonl",
            options=structs.replace(options, on_notification=bound(options.on_notification)),
        )

    def _target(self, config: Config) -> Given:
        """Return the target. A command without a policy gets that of the group."""
        target = config.target() if isinstance(config, ServerConfig) else target_of(config)
        has_own = isinstance(config, ServerConfig) and config.sandbox is not None
        if self.sandbox is None or has_own or not isinstance(target, CommandTarget) or target.command.sandbox is not None:
            return target
        return target.with_command(structs.replace(target.command, sandbox=self.sandbox))
