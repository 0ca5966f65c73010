"""``twopipes install``: show or write the entry for a server in the configuration of a host."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from twopipes._cli.command_parser import CommandParser, add_list_option
from twopipes._cli.install_keep import ConfigFile, add_keep_options, change_all, check_keep_options, keep_words
from twopipes._cli.server_address import is_url
from twopipes._host.files.formats import put, read, snippet
from twopipes._host.files.host_table import HOSTS, Host, HostEntry, Machine, Scope, entry_of
from twopipes._host.files.values import AnotherEntry, Refused, found_at, same, with_entry
from twopipes._process.command import ServerCommand
from twopipes._tools.exit_codes import FAILED, OK
from twopipes._tools.install.command_words import Resolved, check_name, resolved, suggested_name
from twopipes._tools.install.config_file import HostFile, read_file, write_file
from twopipes._tools.install.escaping import literal
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError, report_error
from twopipes.errors import LocalProtocolError

_USAGE = """\
twopipes install HOST [options] -- CMD...
       twopipes install HOST --keep-all | --undo [options]
       twopipes install --list"""
_DESCRIPTION = f"""\
Adds a server to the configuration of a host.

Without --write nothing is changed: the command shows the entry, the file that
it goes into, and what to do next. With --write it is written. The rest of the
file stays unchanged, byte for byte: comments, order, indentation. A backup of
the file is kept beside it. A file that cannot be parsed is not changed.

Hosts start servers from another folder, and often with a shorter PATH. Files in
this folder, and programs that a host may not find, are therefore written with
their full path, and the command reports it.

With --keep, the host starts the server through `twopipes keep`. --keep-all puts
it in front of the servers that the host already has, and --undo removes it.

hosts:
{fill(", ".join(HOSTS), 76, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)}
"""
_EXAMPLES = [
    "twopipes install cursor -- python server.py",
    "twopipes install claude-code --write -- uvx mcp-server-time",
    "twopipes install vscode --scope project --write -- python server.py",
    "twopipes install codex --name weather --env KEY --write -- python -m weather",
    "twopipes install claude-desktop --tap --write -- python server.py",
    "twopipes install claude-code --keep --lazy --write -- npx -y some-server",
    "twopipes install cursor --keep-all --write",
    "twopipes install cursor --undo --write",
    "twopipes install generic --config mcp.json --write -- python server.py",
    "twopipes install --list",
]


class Plan(NamedTuple):
    """An entry, and the file that it goes into."""

    host: Host
    name: str
    content: dict[str, Any]
    path: Path
    file: HostFile


def install(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    words, command = parser.split_server(arguments)
    options = parser.parse_args(words)
    try:
        if options.list:
            _list(Machine.this())
            return OK
        check_keep_options(options, command)
        return _change_all(options) if options.keep_all or options.undo else _install(options, command)
    except Refused as refused:
        return report_error(refused, FAILED)


def _parser() -> CommandParser:
    parser = CommandParser("install", usage=_USAGE, description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("host", metavar="HOST", nargs="?", help="the host: one of the names above")
    parser.add_argument("--list", action="store_true", help="list the hosts and their files on this machine")
    what = parser.add_argument_group("what to write")
    what.add_argument(
        "--name", help="the name of the entry (default: the name in the server's source, or one made from the command)"
    )
    text = (
        "an environment variable for the server. Without a value, the host passes its own one on, if it supports that, so that no"
        " secret is written into the file"
    )
    add_list_option(what, "--env", "NAME[=VALUE]", text)
    what.add_argument("--tap", action="store_true", help="put `twopipes tap` in front of the command, to record the messages")
    text = "write the command exactly as typed: no full paths, and the host expands references to variables"
    what.add_argument("--as-is", action="store_true", help=text)
    add_keep_options(parser)
    where = parser.add_argument_group("where to write it")
    text = "the file of the user, for all projects (default), or the file of the project in this folder"
    where.add_argument("--scope", choices=("user", "project"), default="user", help=text)
    where.add_argument("--config", metavar="FILE", help="this file instead of the host's default one")
    how = parser.add_argument_group("how to write it")
    how.add_argument("--write", action="store_true", help="write the entry, instead of only showing it")
    how.add_argument("--replace", action="store_true", help="replace an existing server with this name")
    return parser


_SCOPES: tuple[Scope, ...] = ("user", "project")


def _list(machine: Machine) -> None:
    rows = []
    for name, host in HOSTS.items():
        for scope in _SCOPES:
            found = _file(host, scope, machine)
            if found is not None:
                rows.append([name, scope, "yes" if found.exists() else "no", visible(str(found))])
    rows.append(["generic", "", "", "the file given with --config"])
    terminal = Terminal()
    terminal.table(["host", "scope", "exists", "file"], rows)
    terminal.flush()


def _change_all(options: Namespace) -> int:
    host = _host(options.host)
    path = _file_of(host, options)
    file = read_file(path)
    return change_all(ConfigFile(_actual_host(host, file), path, file), options)


def _install(options: Namespace, command: Sequence[str] | None) -> int:
    host = _host(options.host)
    if not command:
        raise UsageError("no server given; put its command after --, such as: -- python server.py")
    if len(command) == 1 and is_url(command[0]):
        raise UsageError(
            f"install writes commands only; add the URL to the configuration of {host.title} yourself, where most hosts take"
            f' {{"mcpServers": {{"NAME": {{"type": "http", "url": "{command[0]}"}}}}}}'
        )
    name = check_name(options.name) if options.name else suggested_name(command, str(Path.cwd()))
    found = Resolved(list(command), [], []) if options.as_is else resolved(command, os.environ, str(Path.cwd()))
    words = [*keep_words(options), *found.words] if options.keep else found.words
    words = _with_tap(words) if options.tap else words
    path = _file_of(host, options)
    file = read_file(path)
    host = _actual_host(host, file)
    entry = _entry(host, name, words, options.env, found.notes)
    written = literal(host.title, host.expands, entry.command, entry.values, as_is=options.as_is)
    found.notes.extend(written.notes)
    entry = entry._replace(command=written.words, values=written.values)
    plan = Plan(host, name, entry_of(host, entry), path, file)
    terminal = Terminal(sys.stdout if options.write else sys.stderr)
    for word, full, why in found.changes:
        terminal.say(f"{visible(word)} becomes ", (visible(full), "bold"), f": {why}")
    if found.changes and options.scope == "project":
        terminal.say(("These paths are valid on this machine only; use --as-is to write the command as typed", "yellow"))
    for note in found.notes:
        terminal.say((f"Note: {visible(note)}", "yellow"))
    (_write if options.write else _show)(plan, options, terminal)
    _show_next_steps(plan, options, terminal)
    terminal.flush()
    return OK


def _host(name: str | None) -> Host:
    if name is None:
        raise UsageError(f"no host given; known hosts: {', '.join(HOSTS)}. See twopipes install --list")
    if name not in HOSTS:
        near = difflib.get_close_matches(name.lower(), HOSTS, 1, 0.5) or [each for each in HOSTS if name.lower() in each][:1]
        hint = f"did you mean {near[0]}?" if near else f"known hosts: {', '.join(HOSTS)}."
        raise UsageError(f"unknown host {name!r}; {hint} For other hosts: twopipes install generic --config FILE")
    return HOSTS[name]


def _file_of(host: Host, options: Namespace) -> Path:
    if options.config:
        return Path(options.config).expanduser()
    found = _file(host, options.scope, Machine.this())
    if found is not None:
        return Path.cwd() / found
    if options.scope == "project" and host.user:
        raise UsageError(f"{host.title} has no project file; leave out --scope, or name the file with --config FILE")
    raise UsageError("no file given; name it with --config FILE")


def _file(host: Host, scope: Scope, machine: Machine) -> Path | None:
    """Return the file of a host: the one that exists, of the names that it can have."""
    packaged, usual = host.packaged_file(machine) if scope == "user" else None, host.file(scope, machine)
    if packaged is not None or usual is None:
        return packaged
    path = Path(usual)
    return next((path.with_name(other) for other in host.others if path.with_name(other).exists()), path)


def _actual_host(host: Host, file: HostFile) -> Host:
    """Return the host that a file belongs to: opencode 2 uses the file of opencode, with the servers in another place."""
    if host is not HOSTS["opencode"] or not file.text.strip():
        return host
    try:
        servers = found_at(read(file.text, host.language), HOSTS["opencode-2"].place)
    except ValueError:
        return host  # a later step reports the syntax error
    # In a file of opencode 1, `servers` could be the name of a server.
    return HOSTS["opencode-2"] if isinstance(servers, dict) and not isinstance(servers.get("type"), str) else host


def _with_tap(words: Sequence[str]) -> list[str]:
    if not sys.executable:
        raise UsageError("--tap: the path of this Python is unknown; write the path of twopipes in front of the command instead")
    return [sys.executable, "-m", "twopipes", "tap", "--", *words]


def _entry(host: Host, name: str, words: list[str], given: Sequence[str], notes: list[str]) -> HostEntry:
    values: dict[str, str] = {}
    passed: list[str] = []
    for each in given:
        variable, equals, value = each.partition("=")
        if equals:
            values[variable] = value
        elif host.reference is not None or host.passes_on:
            passed.append(variable)
            if variable not in os.environ:
                notes.append(f"{variable} is not set here; it must be set in the environment of {host.title}")
        elif variable in os.environ:
            values[variable] = os.environ[variable]
            notes.append(f"{host.title} cannot pass {variable} on, so its value is written into the file")
        else:
            raise UsageError(
                f"--env {variable}: {variable} is not set here, so it cannot be passed on; write --env {variable}=VALUE"
            )
    try:
        ServerCommand(words, env=values | dict.fromkeys(passed, ""))
        for text in [*words, *values.values()]:
            text.encode()
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} is not valid Unicode text and cannot be written into a file") from error
    return HostEntry(name, words, values, passed)


def _show(plan: Plan, options: Namespace, terminal: Terminal) -> None:
    host, path = plan.host, visible(str(plan.path))
    exists = plan.file.data is not None
    try:
        is_installed = exists and _merged(plan, replace=options.replace) == plan.file.text
    except Refused as refused:
        terminal.say((f"Note: --write would refuse. {visible(str(refused))}", "yellow"))
        is_installed = False
    if is_installed:
        terminal.say(("Nothing to do: ", "bold green"), f"{path} already contains {plan.name}:")
    else:
        terminal.say(f"For {host.title}, this goes into ", (path, "bold"), ":" if exists else ", which does not exist yet:")
    terminal.flush()
    # Only the entry goes to stdout, so that it can be redirected to a file.
    sys.stdout.write(snippet(host.language, host.place, plan.name, plan.content))
    sys.stdout.flush()
    if not is_installed:
        terminal.say("Use ", ("--write", "bold"), " to write it. The rest of the file stays unchanged.")


def _write(plan: Plan, options: Namespace, terminal: Terminal) -> None:
    file, path = plan.file, visible(str(plan.path))
    text = _merged(plan, replace=options.replace)
    if text == file.text and file.data is not None:
        terminal.say(("Nothing to do: ", "bold green"), f"{path} already contains {plan.name}")
        return
    backup = write_file(file, text, shared=options.scope == "project" and not options.config)
    _verify(plan, text, backup)
    terminal.say(("Created: " if file.data is None else "Written: ", "bold green"), f"{plan.name} in ", (path, "bold"))
    if backup is not None:
        terminal.say(f"Backup: {visible(str(backup))}")


def _merged(plan: Plan, *, replace: bool) -> str:
    host, path = plan.host, plan.path
    fresh = dict(host.fresh) if host.fresh else None
    try:
        return put(plan.file.text, host.language, host.place, plan.name, plan.content, replace=replace, fresh=fresh)
    except AnotherEntry as taken:
        raise Refused(f"{path}: {taken}. Nothing was changed; use --replace, or another --name") from None
    except Refused as refused:
        raise Refused(f"{path}: {refused}. Nothing was changed") from refused
    except ValueError as error:
        raise Refused(f"{path} is not valid {host.language}: {error}. Nothing was changed") from error


def _verify(plan: Plan, text: str, backup: Path | None) -> None:
    """Read the file again and compare it with what was written."""
    host, before = plan.host, plan.file
    now = read_file(plan.path)
    try:
        old = read(before.text, host.language)
    except ValueError:  # it was empty, or had only comments
        old = None
    wanted = with_entry(host.fresh if old is None else old, host.place, plan.name, plan.content)
    if now.data != before.encoded(text) or not same(read(now.text, host.language), wanted):
        kept = f"; backup: {backup}" if backup is not None else ""
        raise Refused(f"{plan.path} does not contain what was written. Is the host writing to it at the same time?{kept}")


def _show_next_steps(plan: Plan, options: Namespace, terminal: Terminal) -> None:
    if plan.host.note and options.scope == "user" and not options.config:
        terminal.say((f"Note: {plan.host.note}", "yellow"))
    terminal.say(("Next: ", "bold"), plan.host.next_step)
    if plan.host.approval and options.scope == "project":
        terminal.say(("Approval: ", "bold yellow"), plan.host.approval.replace("NAME", plan.name))
    check = shlex.join(["twopipes", "doctor", "--config", str(plan.path), "--server", plan.name])
    terminal.say(("To test it: ", "bold"), visible(check))
