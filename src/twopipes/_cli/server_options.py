"""The options that say which server a command uses: its command after ``--``, a socket, or an entry of a configuration file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from twopipes._cli.command_parser import add_config_options, add_socket_options, add_start_options, add_timeout_option, duration
from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL, is_modern
from twopipes._tools.install.hosts import command_of, read_entries
from twopipes._tools.usage import UsageError, tcp_address
from twopipes.errors import LocalProtocolError, TwopipesError
from twopipes.settings import Timeouts

# Seconds for the response to server/discover. A longer --timeout does not extend it.
_PROBE = Timeouts().probe or 5.0
# How the options that errors point to are typed here, by their keys in twopipes._error_text.
_OPTIONS = {"connect": "--timeout {value}", "request": "--timeout {value}", "cwd": "--cwd FOLDER", "path": "--env PATH=FOLDERS"}


class ServerTarget(NamedTuple):
    """A server to connect to."""

    target: ServerCommand | str  # what `twopipes.connect` takes: a command, `unix:/path` or `tcp://host:port`
    name: str | None = None  # its name in the configuration file, if it comes from one

    @property
    def description(self) -> str:
        """The server on one line."""
        what = self.target if isinstance(self.target, str) else self.target.describe()
        return what if self.name is None else f"{self.name} ({what})"


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`the_server` and :func:`connect_options` read."""
    which = parser.add_argument_group("which server", "Its command after --, or one of:")
    add_socket_options(which)
    add_config_options(which, default="if there are several")
    add_start_options(parser)
    protocol = parser.add_argument_group("protocol")
    text = "legacy: with a handshake; modern: without; auto (default): detect it"
    protocol.add_argument("--era", choices=("auto", "legacy", "modern"), default="auto", help=text)
    protocol.add_argument("--revision", metavar="DATE", choices=ALL, help=f"use only this revision: {', '.join(ALL)}")
    add_timeout_option(protocol, "default 30 to connect, then 60; 0: no limit", type=duration)
    protocol.add_argument("--trace", metavar="FILE", help="record the messages in this file, for twopipes view")


def servers_of(options: argparse.Namespace, command: Sequence[str] | None) -> list[ServerTarget]:
    """Return the server that the options name; or, for a configuration file without a name, all servers in it."""
    ways = {"-- CMD": command is not None, "--unix": options.unix, "--tcp": options.tcp, "--config": options.config}
    given = [way for way, is_given in ways.items() if is_given]
    if not given:
        raise UsageError("no server given; put its command after --, as in: -- python server.py, or use --unix, --tcp or --config")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} each name a server; give one of them")
    if options.server and not options.config:
        raise UsageError("--server names an entry of a configuration file; give it with --config FILE")
    if options.config:
        entries = read_entries(options.config, options.server)
        return [ServerTarget(_with_options(command_of(entry), options), entry.name) for entry in entries]
    if command is not None:
        if not command:
            raise UsageError("no command after --")
        return [ServerTarget(_with_options(command, options))]
    for name, is_given in {"--env": options.env, "--inherit-env": options.inherit_env, "--cwd": options.cwd}.items():
        if is_given:
            raise UsageError(f"{name} is for a server that is started; the one at {given[0]} is running already")
    return [ServerTarget(f"unix:{options.unix}" if options.unix else str(tcp_address(options.tcp)))]


def the_server(options: argparse.Namespace, command: Sequence[str] | None) -> ServerTarget:
    """Return the one server that the options name."""
    if options.config and not options.server:
        names = [entry.name for entry in read_entries(options.config)]
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
