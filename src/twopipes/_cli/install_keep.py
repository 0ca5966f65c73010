"""``twopipes install --keep``, ``--keep-all`` and ``--undo``: put ``twopipes keep`` in front of servers, and remove it."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from twopipes._cli.command_parser import CommandParser, add_list_option, positive_duration
from twopipes._host.files.host_table import Host
from twopipes._host.files.values import Refused
from twopipes._tools.exit_codes import FAILED, OK
from twopipes._tools.install.config_file import HostFile, read_file, write_file
from twopipes._tools.install.escaping import literal
from twopipes._tools.install.keep import Change, as_before, command_line, places_in, servers_in, with_command, without_keep
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError


class ConfigFile(NamedTuple):
    """The file of a host, as it was read."""

    host: Host
    path: Path
    file: HostFile


def add_keep_options(parser: CommandParser) -> None:
    """Add the options that put ``twopipes keep`` in front of a server, and those that are passed on to it."""
    group = parser.add_argument_group("run servers behind twopipes keep, which starts, restarts and shares them")
    group.add_argument("--keep", action="store_true", help="put `twopipes keep` in front of the command")
    text = "put it in front of every command that the file already has; --name selects one"
    group.add_argument("--keep-all", action="store_true", help=text)
    text = "remove `twopipes keep` from the servers of the file; --name selects one"
    group.add_argument("--undo", action="store_true", help=text)
    passed = parser.add_argument_group("options of twopipes keep, written with it (see twopipes keep --help)")
    passed.add_argument("--lazy", action="store_true", help="start the server at the first call that needs it")
    passed.add_argument("--idle", metavar="TIME", type=_duration_text, help="stop an unused server after this time, such as 10m")
    passed.add_argument("--no-manifest", action="store_true", help="do not answer from the previous run while the server starts")
    add_list_option(passed, "--watch", "PATH", "restart the server when this file or folder changes; may be repeated")
    text = "use one process for several hosts and sessions; =all also if the server is legacy"
    passed.add_argument("--share", nargs="?", const="", choices=("", "all"), metavar="all", help=text)
    passed.add_argument("--log", metavar="FILE", help="write the server's stderr to this file")
    passed.add_argument("--trace", metavar="FILE", help="record the messages in this file")


def _duration_text(text: str) -> str:
    positive_duration(text)
    return text


def keep_words(options: Namespace) -> list[str]:
    """Return the words to write in front of a command: ``twopipes keep``, its options, and ``--``."""
    if options.as_is:
        program = ["twopipes"]
    elif sys.executable:
        program = [sys.executable, "-m", "twopipes"]
    else:
        raise UsageError("the path of this Python is unknown; use --as-is to write `twopipes keep`")
    return [*program, "keep", *_passed_options(options), "--"]


def check_keep_options(options: Namespace, command: list[str] | None) -> None:
    """Check that the options fit together."""
    chosen = [name for name, given in _ways(options) if given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other; give one of them")
    if command and chosen and chosen != ["--keep"]:
        raise UsageError(f"{chosen[0]} changes the servers of the file; leave out the command after --")
    passed = _passed_options(options)
    if passed and chosen in ([], ["--undo"]):
        raise UsageError(f"{passed[0]} is an option of twopipes keep; add --keep or --keep-all")
    if chosen in ([], ["--keep"]):
        return
    for name in ("tap", "env", "watch", "log", "trace"):
        if getattr(options, name) and not (options.name and name in {"watch", "log", "trace"}):
            raise UsageError(f"--{name} is for one server; leave it out, or {chosen[0]}")


def _ways(options: Namespace) -> list[tuple[str, bool]]:
    return [("--keep", options.keep), ("--keep-all", options.keep_all), ("--undo", options.undo)]


def _passed_options(options: Namespace) -> list[str]:
    words = ["--lazy"] if options.lazy else []
    words += ["--idle", options.idle] if options.idle else []
    words += ["--no-manifest"] if options.no_manifest else []
    for path in options.watch:
        words += ["--watch", _full(path, options)]
    words += [f"--share={options.share}" if options.share else "--share"] if options.share is not None else []
    for name in ("log", "trace"):
        path = getattr(options, name)
        words += [f"--{name}", _full(path, options)] if path else []
    return words


def _full(path: str, options: Namespace) -> str:
    """Return the full path, because hosts start servers from another folder."""
    return path if options.as_is else os.path.abspath(os.path.expanduser(path))


def change_all(config: ConfigFile, options: Namespace) -> int:
    """Put ``twopipes keep`` in front of the servers of a file, or remove it. Return the exit code."""
    terminal = Terminal()
    try:
        changes = list(_undone(config, options) if options.undo else _kept(config, options, terminal))
        text, failed = _edited(config, changes, terminal)
    except ValueError as error:
        raise Refused(f"{config.path} is not valid {config.host.language}: {error}. Nothing was changed") from error
    for change in changes:
        if change in failed:
            continue
        terminal.say((visible(change.name), "bold"), f": {visible(shlex.join(change.before))}")
        terminal.say(f"  becomes {visible(shlex.join(change.after))}")
    if options.undo and not failed:
        text = _backup_text(config, changes) or text
    _finish(config, options, text, terminal)
    terminal.flush()
    return FAILED if failed else OK


def _kept(config: ConfigFile, options: Namespace, terminal: Terminal) -> Iterator[Change]:
    host = config.host
    # Only our own words are escaped: those of the file are already as the host needs them.
    prefix = literal(host.title, host.expands, keep_words(options), {}, as_is=options.as_is).words
    for place, name, content in _selected(config, options):
        try:
            before = command_line(content).words
        except Refused as refused:
            terminal.say((visible(name), "bold"), f": unchanged; {refused}")
            continue
        if without_keep(before) is None:
            yield Change(name, before, [*prefix, *before], place)
        else:
            terminal.say((visible(name), "bold"), ": unchanged; it runs behind twopipes keep already")


def _undone(config: ConfigFile, options: Namespace) -> Iterator[Change]:
    for place, name, content in _selected(config, options):
        try:
            before = command_line(content).words
        except Refused:
            continue
        if after := without_keep(before):
            yield Change(name, before, after, place)


def _selected(config: ConfigFile, options: Namespace) -> list[tuple[tuple[str, ...], str, Any]]:
    """Return the servers to change: the keys that lead to each, its name and its content."""
    text, host = config.file.text, config.host
    try:
        found = [(place, *server) for place in places_in(text, host) for server in servers_in(text, host, place).items()]
    except Refused as refused:
        raise Refused(f"{config.path}: {refused}. Nothing was changed") from refused
    if not options.name:
        return found
    selected = [each for each in found if each[1] == options.name]
    if not selected:
        names = ", ".join(name for _, name, _ in found)
        raise Refused(f"{config.path} has no server {options.name!r}; {f'known servers: {names}' if names else 'it has none'}")
    return selected


def _edited(config: ConfigFile, changes: list[Change], terminal: Terminal) -> tuple[str, list[Change]]:
    """Return the text with all changes that are possible, and the other changes."""
    text, failed = config.file.text, []
    for change in changes:
        try:
            text = with_command(text, config.host, change.place, change.name, change.after)
        except Refused as refused:
            failed.append(change)
            terminal.say((f"{visible(change.name)}: cannot be changed; {visible(str(refused))}", "bold red"))
    return text, failed


def _backup_text(config: ConfigFile, changes: list[Change]) -> str | None:
    """Return the text of the backup from before ``--keep-all``, if the file was not edited since."""
    path = config.file.path
    for backup in sorted(path.parent.glob(f"{path.name}.backup-*"), key=lambda each: each.stat().st_mtime_ns, reverse=True):
        try:
            text = read_file(backup).text
        except Refused:
            continue
        if as_before(config.file.text, config.host, changes, text):
            return text
    return None


def _finish(config: ConfigFile, options: Namespace, text: str, terminal: Terminal) -> None:
    """Write the text, or say what to do to write it."""
    path = visible(str(config.path))
    if text == config.file.text:
        which = "runs behind twopipes keep" if options.undo else "has a command to put twopipes keep in front of"
        terminal.say(("Nothing to do: ", "bold green"), f"no server in {path} {which}")
        return
    if not options.write:
        terminal.say("Use ", ("--write", "bold"), f" to write this into {path}. The rest of the file stays unchanged.")
        return
    backup = write_file(config.file, text, shared=options.scope == "project" and not options.config)
    if read_file(config.path).data != config.file.encoded(text):
        raise Refused(
            f"{config.path} does not contain what was written. Is the host writing to it at the same time? Backup: {backup}"
        )
    terminal.say(("Written: ", "bold green"), (path, "bold"))
    terminal.say(f"Backup: {visible(str(backup))}")
    if not options.undo:
        terminal.say(f"To undo it: twopipes install {options.host} --undo --write", *_where(options))
    terminal.say(("Next: ", "bold"), config.host.next_step)


def _where(options: Namespace) -> list[str]:
    if options.config:
        return [f" --config {visible(shlex.quote(options.config))}"]
    return [" --scope project"] if options.scope == "project" else []
