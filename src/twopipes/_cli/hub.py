"""``twopipes hub``: serve many servers as one. A host may wait for it, so it imports little."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from twopipes._cli import serving_options
from twopipes._cli.durations import positive_seconds_in
from twopipes._cli.sandbox_options import SANDBOX_HELP, SANDBOX_SWITCHES, SANDBOX_WITH_VALUE, sandbox_in
from twopipes._cli.serving_options import HTTP_HELP, WHERE_HELP, Options, last_of, where_to_serve
from twopipes._gateway.hub.member import Member, MemberSettings
from twopipes._gateway.hub.server import HubServer
from twopipes._gateway.hub.status import StatusResources
from twopipes._host.config import ServerConfig
from twopipes._host.filters import ToolFilter
from twopipes._host.load import load
from twopipes._host.names import check_separator, prefix_of
from twopipes._host.references import literal
from twopipes._tools.exit_codes import OK, exit_code_help
from twopipes._tools.terminal import visible
from twopipes._tools.usage import UsageError, read_words
from twopipes.errors import LocalProtocolError, TwopipesError
from twopipes.settings import Sandbox

if TYPE_CHECKING:
    from twopipes._gateway.hub.reload import Stamp
    from twopipes._process.stderr import StderrLine

_USAGE = "usage: twopipes hub FILE [--http PORT | --unix PATH | --tcp HOST:PORT] [--search] [OPTION ...]"
_HELP = f"""\
usage: twopipes hub FILE [--http [HOST:]PORT | --unix PATH | --tcp HOST:PORT]
                    [--search] [--only SERVER] [--tools PATTERN]
                    [--without PATTERN] [--read-only] [--sandbox]
                    [OPTION ...]

Serves the servers of a configuration file as one server. The names of their
tools and prompts begin with the name of the server: github__create_issue. A
server that fails or hangs affects only its own tools. Changes of the file are
applied while the hub runs; only servers whose entries changed are restarted.

arguments:
  FILE               a file with servers, in the format of any host: .mcp.json,
                     ~/.claude.json, ~/.codex/config.toml, ...

{WHERE_HELP}
what is offered:
  --search           offer three tools instead of all: search_tools,
                     describe_tool and call_tool
  --only SERVER      only this server of the file; may be repeated
  --tools PATTERN    only tools whose own names match, such as 'get_*'; may be
                     repeated
  --without PATTERN  no tools whose own names match; may be repeated
  --read-only        only tools whose servers declare that they change nothing
  --separator TEXT   what comes between the names of a server and a tool: one to
                     four _ or - (default: __)

options:
  --lazy             start the servers at the first request that needs them
  --idle TIME        stop a server that was not used for this long, such as 10m;
                     the next request starts it again
  --start-timeout TIME
                     how long a list waits for a server that starts (default:
                     25s); hosts are notified when a slower one is ready
  --no-watch         do not apply changes of the file
  --host NAME        the host whose format the file has, as in twopipes install;
                     by default its path and its content decide
{HTTP_HELP}  --trace FOLDER     record the messages of each server in a file of this
                     folder, for twopipes view
  -h, --help         show this help

a sandbox for each command whose entry has no "sandbox" of its own; with
"sandbox": false there, it gets none:
{SANDBOX_HELP}
examples:
  twopipes hub servers.json
  twopipes hub ~/.claude.json --only github --only time --read-only
  twopipes hub servers.json --search --http 8000
  twopipes install claude-code -- twopipes hub /home/me/servers.json

{exit_code_help("hub")}"""

_WITH_VALUE = (
    *serving_options.WITH_VALUE,
    *SANDBOX_WITH_VALUE,
    *("--only", "--tools", "--without", "--separator", "--idle", "--start-timeout", "--host", "--trace"),
)
_SWITCHES = (*serving_options.SWITCHES, *SANDBOX_SWITCHES, "--search", "--read-only", "--lazy", "--no-watch")
# How the options that errors point to are typed here, by their keys in twopipes._error_text.
_OPTIONS = {"public": "--public", "path": "PATH in its env"}
# The files of the hubs that have started this process: a hub must not start itself.
_HUBS: Final = "TWOPIPES_HUBS"
# Servers that one line names.
_MAX_NAMES: Final = 20


class Source(NamedTuple):
    """Where the servers come from."""

    file: str
    host: str | None  # whose format the file has
    only: tuple[str, ...]  # the names of the servers to serve; empty for all
    sandbox: Sandbox | None  # of commands whose entries say nothing about it

    def read(self) -> dict[str, ServerConfig]:
        """Return the servers that are wanted. Raises ``ConfigError`` if the file cannot be used."""
        found = load(self.file, host=self.host)
        wanted = {name: config for name, config in found.items() if config.enabled and (not self.only or name in self.only)}
        return {name: self._completed(config) for name, config in wanted.items()}

    def _completed(self, config: ServerConfig) -> ServerConfig:
        """Add the sandbox, and let a server know by which hubs it was started."""
        if config.command is None or config.problem is not None:
            return config
        chain = os.pathsep.join([*_hubs_above(), os.path.realpath(self.file)])
        env = {**(config.env or {}), _HUBS: literal(chain)}
        sandbox = self.sandbox if config.sandbox is None else config.sandbox  # False in the file overrides the option
        return structs.replace(config, env=env, sandbox=sandbox)


class Hub(NamedTuple):
    """What the command line asks for."""

    source: Source
    servers: dict[str, ServerConfig]
    seen: Stamp | None  # the version of the file; None if it is not watched
    where: dict[str, Any]  # the arguments of Server.run() for the side of the hosts
    members: MemberSettings
    options: dict[str, Any]  # further arguments of HubServer
    is_searched: bool


def hub(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        wanted = read_hub(arguments)
        make_hub(wanted).run(**wanted.where)
    except TwopipesError as error:
        raise UsageError(error.describe(_OPTIONS)) from error
    return OK


def read_hub(arguments: Sequence[str]) -> Hub:
    """Read and check the command line, and the file.

    Raises:
        UsageError: An option is wrong, or there is no server to serve.
        ConfigError: The file cannot be read, or has no servers.
    """
    options, plain, command = read_words(arguments, _USAGE, _HELP, with_value=_WITH_VALUE, switches=_SWITCHES)
    if command is not None:
        raise UsageError(f"a hub takes its servers from a file, not after --. {_USAGE}")
    if len(plain) != 1:
        raise UsageError(f"unknown argument {plain[1]}; give one file. {_USAGE}" if plain else f"no file given. {_USAGE}")
    where = where_to_serve(options)
    more = _hub_options(options) | {"is_shared": bool(where)}
    file = os.path.expanduser(plain[0])
    _refuse_itself(file)
    seen = _stamp(file) if "--no-watch" not in options else None
    sandbox = sandbox_in(options)
    source = Source(file, last_of(options, "--host"), (), None if sandbox is None else Sandbox(**sandbox))
    servers = source.read()
    only = tuple(options.get("--only", ()))
    _check_names(file, servers, only)
    servers = {name: config for name, config in servers.items() if not only or name in only}
    return Hub(source._replace(only=only), servers, seen, where, _member_settings(options), more, "--search" in options)


def make_hub(wanted: Hub) -> HubServer:
    """Return the server, which does not run yet."""
    server = HubServer(wanted.servers, members=wanted.members, name="twopipes-hub", option_names=_OPTIONS, **wanted.options)
    StatusResources(server)
    if wanted.is_searched:
        from twopipes._gateway.hub.search_tools import SearchTools  # only for --search

        SearchTools(server)
    if wanted.seen is not None:
        from twopipes._gateway.hub.reload import Reloader  # only if the file is watched

        server.jobs.append(Reloader(server, wanted.source.file, wanted.source.read, seen=wanted.seen).run)
    server.on_state.append(_StartReport(server))
    return server


def _hubs_above() -> list[str]:
    return [each for each in os.environ.get(_HUBS, "").split(os.pathsep) if each]


def _refuse_itself(file: str) -> None:
    if os.path.realpath(file) in _hubs_above():
        raise UsageError(f"{file} contains this hub itself; remove that entry, or put the servers of the hub into another file")


def _check_names(file: str, servers: Mapping[str, ServerConfig], only: Sequence[str]) -> None:
    for name in only:
        if name not in servers:
            known = ", ".join(servers) or "none"
            raise UsageError(f"--only {name}: {file} has no such server, or it is disabled there; servers: {known}")
    if not servers:
        raise UsageError(f"every server in {file} is disabled; enable one")


def _hub_options(options: Options) -> dict[str, Any]:
    """Return the arguments of ``HubServer`` that options set."""
    found: dict[str, Any] = {"is_lazy": "--lazy" in options}
    separator = last_of(options, "--separator")
    if separator is not None:
        try:
            check_separator(separator)
        except LocalProtocolError as error:
            raise UsageError(f"--separator: {error}") from None
        found["separator"] = separator
    timeout = _seconds(options, "--start-timeout")
    return found if timeout is None else {**found, "start_timeout": timeout}


def _member_settings(options: Options) -> MemberSettings:
    tools = ToolFilter(
        include=tuple(options.get("--tools", ())),
        exclude=tuple(options.get("--without", ())),
        read_only=True if "--read-only" in options else None,
    )
    folder = last_of(options, "--trace")
    return MemberSettings(
        tools=None if tools == ToolFilter() else tools,
        idle=_seconds(options, "--idle"),
        on_stderr=_show_line,
        trace=None if folder is None else partial(_trace_file, _folder(folder)),
        option_names=_OPTIONS,
    )


def _seconds(options: Options, name: str) -> float | None:
    text = last_of(options, name)
    try:
        return None if text is None else positive_seconds_in(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def _folder(path: str) -> str:
    """Return a folder for recordings, which is created if it does not exist."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--trace: the folder {path} cannot be created: {error.strerror or error}") from None
    return os.path.abspath(path)


def _trace_file(folder: str, server: str) -> str:
    return os.path.join(folder, f"{prefix_of(server)}.jsonl")


def _stamp(file: str) -> Stamp | None:
    from twopipes._gateway.hub.reload import stamp_of  # only if the file is watched

    return stamp_of(file)


# What people see on stderr


def _show_line(server: str, line: StderrLine) -> None:
    """Copy a line of a server's stderr, with the name of the server."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"[{visible(server)}] {visible(line.text)}\n")
        sys.stderr.flush()


class _StartReport:
    """Reports once, when no server is being opened any more, how many are ready. The hub reports each one that fails."""

    def __init__(self, server: HubServer) -> None:
        self._server = server
        self._is_done = False

    def __call__(self, _: Member) -> None:
        members = list(self._server.members.values())
        if self._is_done or any(member.state in {"waiting", "opening", "closed"} for member in members):
            return
        self._is_done = True
        ready = [member for member in members if member.state == "ready"]
        failed = [member.name for member in members if member.state == "failed"]
        tools = sum(len(member.tools) for member in ready)
        text = f"{len(ready)} of {len(members)} servers are ready, with {tools} {'tool' if tools == 1 else 'tools'}"
        if failed:
            text += f"; not available: {', '.join(map(repr, failed[:_MAX_NAMES]))}"
        self._server.reports.add("info", text)
