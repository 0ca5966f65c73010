"""``twopipes install``: how a server gets into the configuration of a host, said or done."""

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

from twopipes._cli.server_options import CommandParser, split_command
from twopipes._process.command import ServerCommand
from twopipes._tools.install.command_words import Resolved, check_name, resolved, suggested_name
from twopipes._tools.install.config_file import HostFile, read_file, write_file
from twopipes._tools.install.expansion import literal
from twopipes._tools.install.formats import put, read, snippet
from twopipes._tools.install.host_table import HOSTS, Host, HostEntry, Machine, entry_of
from twopipes._tools.install.values import AnotherEntry, Refused, found_at, same, with_entry
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes.errors import LocalProtocolError

__all__ = ["install"]

_DONE = 0
_REFUSED = 1
_MISTAKE = 2

_DESCRIPTION = f"""\
Put a server into the configuration of a host.

Without --write nothing is changed: you see what has to stand there, in which
file, and what to do then. With --write it is put there. All else in the file
stays as it is, byte for byte: comments, order, indentation. What was there is
kept beside it. A file that cannot be read is left alone.

Hosts start servers from folders of their own, and often with a shorter PATH.
Files of this folder, and programs that a host may not find, are therefore
written with their full path, and you are told.

hosts:
{fill(", ".join(HOSTS), 76, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)}
"""
_EPILOG = """\
examples:
  twopipes install cursor -- python server.py
  twopipes install claude-code --write -- uvx mcp-server-time
  twopipes install vscode --scope project --write -- python server.py
  twopipes install codex --name weather --env WEATHER_KEY --write -- python -m weather
  twopipes install claude-desktop --tap --write -- python server.py
  twopipes install generic --config mcp.json --write -- python server.py
  twopipes install --list

exit codes:
  0  it is said, or done; or it was there already
  1  the file is better left alone, or the name is taken: nothing was changed
  2  the command line cannot be understood
"""


class Plan(NamedTuple):
    """What is to stand where."""

    host: Host
    name: str
    content: dict[str, Any]
    path: Path
    file: HostFile


def install(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    words, command = split_command(arguments)
    try:
        options = _parser().parse_args(words)
        if options.list:
            _list(Machine.this())
            return _DONE
        return _install(options, command)
    except Refused as refused:
        sys.stderr.write(f"Error: {visible(str(refused))}\n")
        return _REFUSED
    except UsageError as mistake:
        sys.stderr.write(f"Error: {' '.join(visible(str(mistake)).split())}\n")
        return _MISTAKE
    except SystemExit as leaving:  # argparse has printed its help
        return int(leaving.code or 0)


def _parser() -> CommandParser:
    parser = CommandParser(
        "twopipes install",
        usage="twopipes install HOST [options] -- CMD...\n       twopipes install --list",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("host", metavar="HOST", nargs="?", help="which host, by one of the names above")
    parser.add_argument("--list", action="store_true", help="show the hosts, and where their files are on this machine")
    what = parser.add_argument_group("what is written")
    what.add_argument(
        "--name",
        help="what the server is called there; unless given, as it calls itself in its source, or else made from the command",
    )
    what.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="an environment variable for it. Without a value, the host is told to pass its own one on, if it can do that: no"
        " secret gets into the file",
    )
    what.add_argument("--tap", action="store_true", help="put `twopipes tap` in front, which records the conversation")
    what.add_argument(
        "--as-is",
        action="store_true",
        help="write the command as it was typed: no path is written out, and references to variables are left to the host",
    )
    where = parser.add_argument_group("where")
    where.add_argument(
        "--scope",
        choices=("user", "project"),
        default="user",
        help="the file of the user, for all projects, or that of the project in this folder (default user)",
    )
    where.add_argument("--config", metavar="FILE", help="this file instead of the host's usual one")
    how = parser.add_argument_group("how")
    how.add_argument("--write", action="store_true", help="do it")
    how.add_argument("--replace", action="store_true", help="a server of this name with another content may go")
    return parser


def _list(machine: Machine) -> None:
    rows = []
    for name, host in HOSTS.items():
        for scope in ("user", "project"):
            path = host.file(scope, machine)
            if path is not None:
                found = _existing(host, Path(path))
                rows.append([name, scope, "yes" if found.exists() else "no", visible(str(found))])
    rows.append(["generic", "", "", "the file that --config names"])
    terminal = Terminal()
    terminal.table(["host", "scope", "there", "file"], rows)
    terminal.flush()


def _install(options: Namespace, command: Sequence[str] | None) -> int:
    host = _host(options.host)
    if not command:
        raise UsageError("which server? Put its command behind --, such as: -- python server.py")
    name = check_name(options.name) if options.name else suggested_name(command, str(Path.cwd()))
    found = Resolved(list(command), [], []) if options.as_is else resolved(command, os.environ, str(Path.cwd()))
    words = _with_tap(found.words) if options.tap else found.words
    path = _file_of(host, options)
    file = read_file(path)
    host = _kin(host, file)
    entry = _entry(host, name, words, options.env, found.doubts)
    written = literal(host.title, host.expands, entry.command, entry.values, as_is=options.as_is)
    found.doubts.extend(written.notes)
    entry = entry._replace(command=written.words, values=written.values)
    plan = Plan(host, name, entry_of(host, entry), path, file)
    tell = Terminal(sys.stdout if options.write else sys.stderr)
    for word, full, why in found.changes:
        tell.say(f"{visible(word)} is written as ", (visible(full), "bold"), f": {why}")
    if found.changes and options.scope == "project":
        tell.say(("These paths are those of this machine; with --as-is the command is written as it was typed", "yellow"))
    for doubt in found.doubts:
        tell.say((f"Note: {visible(doubt)}", "yellow"))
    if options.write:
        _write(plan, options, tell)
    else:
        _show(plan, options, tell)
    tell.flush()
    return _DONE


def _host(name: str | None) -> Host:
    if name is None:
        raise UsageError(f"which host? One of {', '.join(HOSTS)}; see twopipes install --list")
    if name not in HOSTS:
        near = difflib.get_close_matches(name.lower(), HOSTS, 1, 0.5) or [each for each in HOSTS if name.lower() in each][:1]
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(HOSTS)}"
        raise UsageError(f"the host {name!r} is not known; {hint} For others: twopipes install generic --config FILE")
    return HOSTS[name]


def _file_of(host: Host, options: Namespace) -> Path:
    if options.config:
        return Path(options.config).expanduser()
    found = host.file(options.scope, Machine.this())
    if found is not None:
        return _existing(host, Path.cwd() / found)
    if options.scope == "project" and host.user:
        raise UsageError(f"{host.title} has no file for a project; leave --scope out, or name the file with --config FILE")
    raise UsageError("which file? Name it with --config FILE")


def _existing(host: Host, path: Path) -> Path:
    """Of the names that a host's file can have, the one that is there."""
    return next((path.with_name(other) for other in host.others if path.with_name(other).exists()), path)


def _kin(host: Host, file: HostFile) -> Host:
    """The host whose file this is: opencode 2 has the file of opencode, and keeps its servers elsewhere in it."""
    if host is not HOSTS["opencode"] or not file.text.strip():
        return host
    try:
        servers = found_at(read(file.text, host.language), HOSTS["opencode-2"].place)
    except ValueError:
        return host  # what is wrong with it is said later, and by name
    # In a file of the first opencode, `servers` could be the name of a server.
    return HOSTS["opencode-2"] if isinstance(servers, dict) and not isinstance(servers.get("type"), str) else host


def _with_tap(words: Sequence[str], *, windows: bool = sys.platform == "win32") -> list[str]:
    if windows:
        raise UsageError("--tap needs a POSIX system; connect(..., trace=FILE) and run --trace FILE record here")
    if not sys.executable:
        raise UsageError("--tap: this Python does not know where it is; write the path of twopipes before the command instead")
    return [sys.executable, "-m", "twopipes", "tap", "--", *words]


def _entry(host: Host, name: str, words: list[str], given: Sequence[str], doubts: list[str]) -> HostEntry:
    values: dict[str, str] = {}
    passed: list[str] = []
    for each in given:
        variable, equals, value = each.partition("=")
        if equals:
            values[variable] = value
        elif host.reference is not None or host.passes_on:
            passed.append(variable)
            if variable not in os.environ:
                doubts.append(f"{variable} is not set here; {host.title} must have it")
        elif variable in os.environ:
            values[variable] = os.environ[variable]
            doubts.append(f"{host.title} cannot pass {variable} on, so that its value gets into the file")
        else:
            raise UsageError(f"--env {variable}: there is no such variable here to pass on; write --env {variable}=VALUE")
    try:
        ServerCommand(words, env=values | dict.fromkeys(passed, ""))
        for text in [*words, *values.values()]:
            text.encode()
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} is no text, and cannot be written into a file") from error
    return HostEntry(name, words, values, passed)


def _show(plan: Plan, options: Namespace, tell: Terminal) -> None:
    host, file = plan.host, plan.file
    try:
        is_there = file.data is not None and _merged(plan, replace=options.replace) == file.text
    except Refused as refused:
        tell.say((f"Note: --write would refuse. {visible(str(refused))}", "yellow"))
        is_there = False
    if is_there:
        tell.say(("Nothing to do: ", "bold green"), f"{plan.name} stands in {visible(str(plan.path))} already, as it should:")
    else:
        state = "which is there" if file.data is not None else "which is not there yet"
        tell.say(f"For {host.title}, this goes into ", (visible(str(plan.path)), "bold"), f", {state}:")
    tell.flush()
    # Alone on stdout, for those who want it in a file.
    sys.stdout.write(snippet(host.language, host.place, plan.name, plan.content))
    sys.stdout.flush()
    if not is_there:
        tell.say("With ", ("--write", "bold"), " it is put there, and all else in the file stays as it is.")
    _say_what_is_next(plan, options, tell)


def _write(plan: Plan, options: Namespace, tell: Terminal) -> None:
    file = plan.file
    text = _merged(plan, replace=options.replace)
    if text == file.text and file.data is not None:
        tell.say(("Nothing to do: ", "bold green"), f"{plan.name} stands in {visible(str(plan.path))} already, as it should")
    else:
        backup = write_file(file, text, shared=options.scope == "project" and not options.config)
        _check(plan, text, backup)
        done = "Written" if file.data is not None else "Made"
        tell.say((f"{done}: ", "bold green"), f"{plan.name} in ", (visible(str(plan.path)), "bold"))
        if backup is not None:
            tell.say(f"What was there is in {visible(str(backup))}")
    _say_what_is_next(plan, options, tell)


def _merged(plan: Plan, *, replace: bool) -> str:
    host, path = plan.host, plan.path
    try:
        return put(
            plan.file.text,
            host.language,
            host.place,
            plan.name,
            plan.content,
            replace=replace,
            fresh=dict(host.fresh) if host.fresh else None,
        )
    except AnotherEntry as taken:
        way_out = "--replace puts the new one in its place, --name gives it another name"
        raise Refused(f"{path}: {taken}. Nothing was changed; {way_out}") from None
    except Refused as refused:
        raise Refused(f"{path}: {refused}. Nothing was changed") from refused
    except ValueError as error:
        raise Refused(f"{path} is no {host.language}, so that nothing was changed: {error}") from error


def _check(plan: Plan, text: str, backup: Path | None) -> None:
    """Reads again what was written: everything that was there, and the one entry."""
    host, before = plan.host, plan.file
    now = read_file(plan.path)
    old = _said(before, host)
    wanted = with_entry(dict(host.fresh or {}) if old is None else old, host.place, plan.name, plan.content)
    if now.data != before.encoded(text) or not same(read(now.text, host.language), wanted):
        kept = f"; what was there is in {backup}" if backup is not None else ""
        raise Refused(f"{plan.path} does not say what was written into it. Does its host write into it as well?{kept}")


def _said(file: HostFile, host: Host) -> Any:
    """What a file said before it was edited; ``None`` for one that said nothing, or had comments alone."""
    try:
        return read(file.text, host.language) if file.text.strip() else None
    except ValueError:
        return None


def _say_what_is_next(plan: Plan, options: Namespace, tell: Terminal) -> None:
    if plan.host.note and options.scope == "user" and not options.config:
        tell.say((f"Note: {plan.host.note}", "yellow"))
    tell.say(("Then: ", "bold"), plan.host.then)
    if plan.host.approval and options.scope == "project":
        tell.say(("Approval: ", "bold yellow"), plan.host.approval.replace("NAME", plan.name))
    check = shlex.join(["twopipes", "doctor", "--config", str(plan.path), "--server", plan.name])
    tell.say(("Does it work? ", "bold"), visible(check))
