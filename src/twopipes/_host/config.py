"""How to reach one server of a group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from twopipes._client.http_auth import ClientAuth
from twopipes._client.targets import Target, target_of
from twopipes._host.filters import ToolFilter
from twopipes._host.launch import ConfiguredCommand, ConfiguredUrl
from twopipes._process.command import MASK, ServerCommand
from twopipes._process.environment import EnvironmentPolicy
from twopipes.errors import ConfigError, LocalProtocolError
from twopipes.settings import Sandbox, Timeouts


class ServerConfig(Struct, frozen=True, kw_only=True):
    """How to reach one server of a group: a command or an address, and what applies to it.

    ``repr`` never shows ``auth``, a value of ``env`` or ``headers``, nor the query of a URL.

    Args:
        command: The executable and its arguments. Give this or ``url``.
        url: The address of a running server: ``https://host/mcp``, ``unix:/path`` or ``tcp://host:port``.
        env: Variables for the child. A value may be a reference, which is resolved whenever the server is started.
        cwd: The child's working folder.
        headers: Headers for each request to a URL. A value may be a reference.
        auth: The authorization for a URL, as in ``connect()``: a bearer token, a function that returns one, or an object that
            answers challenges. A token may be a reference.
        environment: What the child gets in addition to ``env``; see :class:`ServerCommand`.
        enabled: Whether a group connects to it.
        timeouts: How long to wait for this server; those of the group by default.
        tools: Which of its tools are offered; all by default.
        sandbox: What the child may do; by default what the group says, or else everything. ``False`` means everything, also in a
            group with a policy.
        source: The file that it comes from. References to files are relative to its folder.
        problem: Why it cannot be used. :func:`load` sets it, so that one broken entry does not hide the others.

    Raises:
        LocalProtocolError: The arguments do not fit together.
    """

    command: Sequence[str] | None = None
    url: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    headers: Mapping[str, str] | None = None
    auth: ClientAuth | None = None
    environment: EnvironmentPolicy = "minimal"
    enabled: bool = True
    timeouts: Timeouts | None = None
    tools: ToolFilter | None = None
    sandbox: Sandbox | Literal[False] | None = None
    source: str | None = None
    problem: str | None = None

    def __post_init__(self) -> None:
        if self.problem is not None:
            return
        if (self.command is None) == (self.url is None):
            raise LocalProtocolError("a ServerConfig needs either command= or url=")
        if self.command is not None:
            force_setattr(self, "command", self._server_command().argv)
            foreign: dict[str, object] = {"headers": self.headers, "auth": self.auth}
        else:
            foreign = {"env": self.env, "cwd": self.cwd, "sandbox": self.sandbox}
        wrong = [f"{name}=" for name, value in foreign.items() if value]
        if wrong:
            raise LocalProtocolError(f"{' and '.join(wrong)} cannot be used with {'url=' if self.url else 'command='}")

    def target(self) -> Target:
        """Return what ``connect()`` opens. Its references are resolved each time it is opened.

        Raises:
            ConfigError: The configuration has a problem.
            LocalProtocolError: The address or a header is invalid.
        """
        if self.problem is not None:
            raise ConfigError(self.problem)
        if self.command is not None:
            return ConfiguredCommand(self._server_command(), self.folder)
        if self.headers or self.auth is not None:
            return ConfiguredUrl(str(self.url), self.headers or {}, self.auth, self.folder)
        return target_of(self.url)

    @property
    def folder(self) -> str | None:
        """The folder that references to files are relative to; ``None`` for the current one."""
        return None if self.source is None else os.path.dirname(os.path.abspath(os.path.expanduser(self.source)))

    def _server_command(self) -> ServerCommand:
        cwd = None if self.cwd is None else os.fspath(self.cwd)
        sandbox = self.sandbox or None
        return ServerCommand(self.command or (), env=self.env, cwd=cwd, environment=self.environment, sandbox=sandbox)

    def _parts(self) -> Iterator[tuple[str, object]]:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if field in {"env", "headers"} and value is not None:
                yield field, dict.fromkeys(value, MASK)
            elif field == "auth" and value is not None:
                yield field, MASK
            elif field == "url" and value is not None:
                yield field, f"{value.partition('?')[0]}?{MASK}" if "?" in value else value
            elif value != _DEFAULTS[field]:
                yield field, list(value) if field == "command" else value

    def __repr__(self) -> str:
        return f"ServerConfig({', '.join(f'{name}={value!r}' for name, value in self._parts())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # used by rich; the inherited one shows the values of env
        return list(self._parts())


_DEFAULTS = dict(zip(ServerConfig.__struct_fields__, ServerConfig.__struct_defaults__, strict=True))
