"""The server that a command is pointed at: its command behind ``--``, a socket, or an entry of a host's configuration file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL, is_modern
from twopipes._tools.usage import UsageError
from twopipes.errors import LocalProtocolError, TwopipesError
from twopipes.settings import Timeouts

__all__ = [
    "CommandParser",
    "ServerTarget",
    "add_server_options",
    "connect_options",
    "message_of",
    "servers_of",
    "split_command",
    "the_server",
    "variables",
]

# Seconds for the answer to server/discover, where the user wants to wait longer than that for an answer as such.
_PROBE = Timeouts().probe or 5.0
# How the options that errors point to are typed here, by their keys in twopipes._advice.
_OPTIONS = {
    "connect": "--timeout {value}",
    "request": "--timeout {value}",
    "cwd": "--cwd FOLDER",
    "path": "--env PATH=FOLDERS",
}


class ServerTarget(NamedTuple):
    """A server to talk to.

    Attributes:
        target: What ``twopipes.connect`` takes: a command, ``unix:/path`` or ``tcp://host:port``.
        name: What it is called in the configuration file, where it comes from one.
    """

    target: ServerCommand | str
    name: str | None = None

    @property
    def description(self) -> str:
        """It, on one line."""
        what = self.target if isinstance(self.target, str) else self.target.describe()
        return what if self.name is None else f"{self.name} ({what})"


class CommandParser(argparse.ArgumentParser):
    """Reads the options of a command that people type, and raises :class:`UsageError` instead of printing ten lines of usage."""

    def __init__(self, prog: str, *, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raises what argparse found."""
        raise UsageError(f"{message}; see {self.prog} --help")


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words for us, and those behind the first ``--``, which are the server's command; ``None`` where there is no ``--``."""
    words = list(arguments)
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def add_server_options(parser: argparse.ArgumentParser, *, trace: bool = True) -> None:
    """Adds the options that say which server is meant and how it is talked to.

    :func:`the_server` and :func:`connect_options` read them.

    Args:
        parser: Of the command.
        trace: Whether the command can record the conversation.
    """
    which = parser.add_argument_group("which server", "Its command behind --, or one of:")
    which.add_argument("--unix", metavar="PATH", help="the Unix socket it listens on")
    which.add_argument("--tcp", metavar="HOST:PORT", help="the TCP port it listens on")
    which.add_argument("--config", metavar="FILE", help="a host's configuration file, with mcpServers (or VS Code's servers) in it")
    which.add_argument("--server", metavar="NAME", help="which server of that file, if there are several")
    how = parser.add_argument_group("how it is started")
    how.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="an environment variable for it; without a value, ours. As with most hosts, it gets a minimal environment otherwise",
    )
    how.add_argument("--inherit-env", action="store_true", help="give it all of our environment")
    how.add_argument("--cwd", metavar="FOLDER", help="the folder it starts in")
    talk = parser.add_argument_group("how it is talked to")
    talk.add_argument(
        "--era", choices=("auto", "legacy", "modern"), default="auto", help="with or without a handshake; found out by default"
    )
    talk.add_argument("--revision", metavar="DATE", choices=ALL, help=f"speak this revision alone: {', '.join(ALL)}")
    talk.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="give up when nothing is heard of it for so long; 0 waits for ever (default 30 to connect, then 60)",
    )
    if trace:
        talk.add_argument("--trace", metavar="FILE", help="record the conversation there, for twopipes view")


def servers_of(options: argparse.Namespace, command: Sequence[str] | None) -> list[ServerTarget]:
    """The servers that are meant: one; or, where a configuration file is given and no name, all that stand in it.

    Args:
        options: What the parser read.
        command: The words behind ``--``, as :func:`split_command` gives them.

    Raises:
        UsageError: No server, or more than one way to say which; or the file cannot be read, or the one asked for is not there.
    """
    ways = {"-- CMD": command is not None, "--unix": options.unix, "--tcp": options.tcp, "--config": options.config}
    given = [way for way, is_given in ways.items() if is_given]
    if not given:
        raise UsageError("which server? Put its command behind --, such as: -- python server.py; or give --unix, --tcp or --config")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} each name a server; give one of them")
    if options.server and not options.config:
        raise UsageError("--server names an entry of a configuration file; give it with --config FILE")
    if options.config:
        from twopipes._tools.install.hosts import command_of, read_entries  # noqa: PLC0415 - for those who have such a file

        entries = read_entries(options.config, options.server)
        return [ServerTarget(_started(command_of(entry), options), entry.name) for entry in entries]
    if command is not None:
        if not command:
            raise UsageError("there is no command behind --")
        return [ServerTarget(_started(_command(command), options))]
    for name, is_given in {"--env": options.env, "--inherit-env": options.inherit_env, "--cwd": options.cwd}.items():
        if is_given:
            raise UsageError(f"{name} is for a server that is started; the one at {given[0]} runs already")
    return [ServerTarget(f"unix:{options.unix}" if options.unix else _tcp(options.tcp))]


def the_server(options: argparse.Namespace, command: Sequence[str] | None) -> ServerTarget:
    """The one server that is meant.

    Raises:
        UsageError: As :func:`servers_of`; or several stand in the file and none was picked.
    """
    if options.config and not options.server:
        from twopipes._tools.install.hosts import read_entries  # noqa: PLC0415 - as above

        names = [entry.name for entry in read_entries(options.config)]
        if len(names) > 1:
            raise UsageError(f"{options.config} has {len(names)} servers; pick one with --server: {', '.join(names)}")
    return servers_of(options, command)[0]


def connect_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``twopipes.connect`` that the options ask for.

    Raises:
        UsageError: The revision is not of the era.
    """
    found: dict[str, Any] = {"era": options.era, "timeouts": _timeouts(options.timeout)}
    if options.revision is not None:
        era = "modern" if is_modern(options.revision) else "legacy"
        if options.era not in {"auto", era}:
            raise UsageError(f"--revision {options.revision} is of the {era} era; leave out --era {options.era}")
        found["revision"] = options.revision
    if getattr(options, "trace", None) is not None:
        found["trace"] = options.trace
    return found


def message_of(error: TwopipesError) -> str:
    """The message of an error, with options named as they are typed at the command line."""
    return error.describe(_OPTIONS)


def _timeouts(seconds: float | None) -> Timeouts:
    # No hard limit: whoever sits at the terminal sees that it goes on, and has Ctrl-C.
    if seconds is None:
        return Timeouts(total=None)
    if seconds == 0:
        return Timeouts(connect=None, request=None, total=None)
    return Timeouts(connect=seconds, probe=min(_PROBE, seconds), request=seconds, total=None)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number


def _command(words: Sequence[str]) -> ServerCommand:
    try:
        return ServerCommand(words)
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error


def _started(command: ServerCommand, options: argparse.Namespace) -> ServerCommand:
    from msgspec.structs import replace  # noqa: PLC0415 - where there is something to replace

    env = {**(command.env or {}), **variables(options.env)}
    try:
        return replace(
            command,
            env=env or None,
            environment="inherit" if options.inherit_env else command.environment,
            cwd=options.cwd or command.cwd,
        )
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error


def variables(given: Sequence[str]) -> dict[str, str]:
    """What ``--env`` gives, by name; a name without a value means ours."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            if name not in os.environ:
                raise UsageError(f"--env {name}: there is no such variable here to pass on; write --env {name}=VALUE")
            value = os.environ[name]
        found[name] = value
    return found


def _tcp(address: str) -> str:
    host, colon, port = address.removeprefix("tcp://").rpartition(":")
    if not colon or not port.isdecimal():
        raise UsageError(f"--tcp needs HOST:PORT, such as 127.0.0.1:9000, not {address!r}")
    host = host.strip("[]") or "127.0.0.1"
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
