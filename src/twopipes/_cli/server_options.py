"""The options that say which server a command uses: its command or URL, a socket, or an entry of a configuration file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from twopipes._cli.command_parser import (
    add_config_options,
    add_socket_options,
    add_start_options,
    add_timeout_option,
    add_url_options,
    duration,
)
from twopipes._cli.server_address import BEARER_VARIABLE, is_url, read_headers, token_of
from twopipes._host.config import ServerConfig
from twopipes._host.load import load
from twopipes._host.references import resolved
from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL, is_modern
from twopipes._tools.usage import UsageError, tcp_address
from twopipes.errors import ConfigError, LocalProtocolError, TwopipesError
from twopipes.settings import Timeouts

# Seconds for the response to server/discover. A longer --timeout does not extend it.
_PROBE = Timeouts().probe or 5.0
# How the options that errors point to are typed here, by their keys in twopipes._error_text.
_OPTIONS = {
    "connect": "--timeout {value}",
    "request": "--timeout {value}",
    "cwd": "--cwd FOLDER",
    "path": "--env PATH=FOLDERS",
    "auth": f"--bearer TOKEN or {BEARER_VARIABLE}=TOKEN",
}


class ServerTarget(NamedTuple):
    """A server to connect to."""

    target: ServerCommand | str  # what `twopipes.connect` takes: a command, `unix:/path`, `tcp://host:port` or a URL
    name: str | None = None  # its name in the configuration file, if it comes from one
    headers: Mapping[str, str] = {}  # for a URL: with every request
    token: str | None = None  # for a URL: the bearer token

    @property
    def is_url(self) -> bool:
        """Whether it is a server at a URL."""
        return isinstance(self.target, str) and is_url(self.target)

    @property
    def all_headers(self) -> dict[str, str]:
        """The headers with the token, for what is not ``twopipes.connect``."""
        return {**self.headers, **({"Authorization": f"Bearer {self.token}"} if self.token else {})}

    @property
    def connect_options(self) -> dict[str, Any]:
        """The keyword arguments of ``twopipes.connect`` that belong to the server."""
        return {**({"headers": self.headers} if self.headers else {}), **({"auth": self.token} if self.token else {})}

    @property
    def description(self) -> str:
        """The server on one line."""
        what = without_secrets(self.target) if isinstance(self.target, str) else self.target.describe()
        return what if self.name is None else f"{self.name} ({what})"


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`the_server` and :func:`connect_options` read."""
    which = parser.add_argument_group("which server", "Its command after --, its URL, or one of:")
    add_socket_options(which)
    add_config_options(which, default="if there are several")
    add_url_options(parser)
    add_start_options(parser)
    protocol = parser.add_argument_group("protocol")
    text = "legacy: with a handshake; modern: without; auto (default): detect it"
    protocol.add_argument("--era", choices=("auto", "legacy", "modern"), default="auto", help=text)
    protocol.add_argument("--revision", metavar="DATE", choices=ALL, help=f"use only this revision: {', '.join(ALL)}")
    add_timeout_option(protocol, "default 30 to connect, then 60; 0: no limit", type=duration)
    protocol.add_argument("--trace", metavar="FILE", help="record the messages in this file, for twopipes view")


def servers_of(options: argparse.Namespace, command: Sequence[str] | None) -> list[ServerTarget]:
    """Return the server that the options name; or, for a configuration file without a name, all servers in it."""
    url = command[0] if command is not None and len(command) == 1 and is_url(command[0]) else None
    ways = {"-- CMD": command is not None and url is None, "URL": url, "--unix": options.unix, "--tcp": options.tcp}
    given = [way for way, is_given in {**ways, "--config": options.config}.items() if is_given]
    if not given:
        raise UsageError(
            "no server given; put its command after --, as in: -- python server.py, or give a URL, --unix, --tcp or --config"
        )
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} each name a server; give one of them")
    if options.server and not options.config:
        raise UsageError("--server names an entry of a configuration file; give it with --config FILE")
    headers, token = _url_options(options)
    if options.config:
        return [_of_config(name, config, options, headers, token) for name, config in _loaded(options).items()]
    if url is None and (headers or getattr(options, "bearer", None)):
        raise UsageError(f"{'--header' if headers else '--bearer'} is for a server at a URL; leave it out, or give a URL")
    if command is not None and url is None:
        if not command:
            raise UsageError("no command after --")
        return [ServerTarget(_with_options(command, options))]
    for name, is_given in {"--env": options.env, "--inherit-env": options.inherit_env, "--cwd": options.cwd}.items():
        if is_given:
            raise UsageError(f"{name} is for a server that is started; the one at {given[0]} is running already")
    if url is not None:
        return [ServerTarget(url, headers=headers, token=token)]
    return [ServerTarget(f"unix:{options.unix}" if options.unix else str(tcp_address(options.tcp)))]


def _loaded(options: argparse.Namespace) -> dict[str, ServerConfig]:
    """Return the servers of a configuration file, or the one that ``--server`` names."""
    try:
        return load(options.config, names=[options.server] if options.server else None)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _of_config(
    name: str, config: ServerConfig, options: argparse.Namespace, headers: Mapping[str, str], token: str | None
) -> ServerTarget:
    """Return a server of a configuration file, with its secrets."""
    if config.problem is not None:
        raise UsageError(config.problem)
    try:
        own_headers, env = (resolved(values or {}, config.folder) for values in (config.headers, config.env))
    except ConfigError as error:
        raise UsageError(f"{options.config}: server {name!r}: {error}") from error
    if config.url is not None:
        return ServerTarget(config.url, name, {**own_headers, **headers}, token)
    cwd = None if config.cwd is None else os.fspath(config.cwd)
    command = ServerCommand(config.command or (), env=env, cwd=cwd, sandbox=config.sandbox or None)
    return ServerTarget(_with_options(command, options), name)


def _url_options(options: argparse.Namespace) -> tuple[dict[str, str], str | None]:
    """Return the headers of ``--header``, and the token of ``--bearer`` or of the environment."""
    return read_headers(getattr(options, "header", ())), token_of(getattr(options, "bearer", None), "--bearer")


def the_server(options: argparse.Namespace, command: Sequence[str] | None) -> ServerTarget:
    """Return the one server that the options name."""
    if options.config and not options.server:
        names = list(_loaded(options))
        if len(names) > 1:
            raise UsageError(f"{options.config} has {len(names)} servers; choose one with --server: {', '.join(names)}")
    return servers_of(options, command)[0]


def connect_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of ``twopipes.connect`` that the options ask for."""
    found: dict[str, Any] = {"era": options.era, "timeouts": _timeouts(options.timeout)}
    if options.revision is not None:
        era = "modern" if is_modern(options.revision) else "legacy"
        if options.era not in {"auto", era}:
            raise UsageError(f"--revision {options.revision} belongs to the {era} era; leave out --era {options.era}")
        found["revision"] = options.revision
    if options.trace is not None:
        found["trace"] = options.trace
    return found


def without_secrets(url: str) -> str:
    """Return an address for people: a URL without a password and without a query, which may contain a token."""
    if not is_url(url):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def message_of(error: TwopipesError) -> str:
    """Return the message of an error, with options named as they are typed at the command line."""
    return error.describe(_OPTIONS)


def _timeouts(seconds: float | None) -> Timeouts:
    # No limit for a call that makes progress: the user sees it and can press Ctrl-C.
    if seconds is None:
        return Timeouts(total=None)
    if seconds == 0:
        return Timeouts(connect=None, request=None, total=None)
    return Timeouts(connect=seconds, probe=min(_PROBE, seconds), request=seconds, total=None)


def _with_options(command: ServerCommand | Sequence[str], options: argparse.Namespace) -> ServerCommand:
    try:
        found = command if isinstance(command, ServerCommand) else ServerCommand(command)
        return replace(
            found,
            env={**(found.env or {}), **variables(options.env)} or None,
            environment="inherit" if options.inherit_env else found.environment,
            cwd=options.cwd or found.cwd,
        )
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error


def variables(given: Sequence[str]) -> dict[str, str]:
    """Return the variables of ``--env`` by name; one without a value gets ours."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            if name not in os.environ:
                raise UsageError(f"--env {name}: {name} is not set here, so it cannot be passed on; write --env {name}=VALUE")
            value = os.environ[name]
        found[name] = value
    return found
