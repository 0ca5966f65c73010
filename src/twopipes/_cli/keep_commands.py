"""``twopipes keep status``, ``logs`` and ``stop``: the servers that run behind ``keep`` for this user."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from twopipes._gateway.daemon.control import ask_daemons
from twopipes._tools.exit_codes import FAILED, OK
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError, read_words
from twopipes._trace.units import duration, size_of

_FORMATS = ("text", "json")
_STATUS = "usage: twopipes keep status [--format text|json]"
_LOGS = "usage: twopipes keep logs [NAME] [--format text|json]"
_STOP = "usage: twopipes keep stop [NAME] [--format text|json]"
_NAME = "NAME is the id of a server, its name, or a part of its command."
_FORMAT = """\
options:
  --format FORMAT    text or json (default text)
  -h, --help         show this help
"""
_STATUS_HELP = f"""\
{_STATUS}

Shows the servers behind twopipes keep: start time, hosts, calls, restarts and
memory.

{_FORMAT}"""
_LOGS_HELP = f"""\
{_LOGS}

Shows the last lines that the servers wrote to stderr.
{_NAME}

{_FORMAT}"""
_STOP_HELP = f"""\
{_STOP}

Ends the process of a server, and waits for its end. The sessions of its hosts go
on, and the next call starts it again. Without NAME it ends all servers; of those
that are shared also the sessions and the daemon.
{_NAME}

{_FORMAT}"""
_COLUMNS = ("ID", "SERVER", "PID", "STARTED", "HOSTS", "CALLS", "RESTARTS", "MEMORY", "COMMAND")
_NONE = "No server runs behind keep."


def status(arguments: Sequence[str]) -> int:
    """Show the servers of all daemons."""
    as_json, _ = _read(arguments, _STATUS, _STATUS_HELP, takes_name=False)
    replies, failed = _ask({"request": "status"})
    if as_json:
        return _print_json(replies) or failed
    rows = [_row(server) for reply in replies for server in reply["servers"]]
    terminal = Terminal()
    if rows:
        terminal.table(_COLUMNS, rows)
    else:
        terminal.say(_NONE)
    for reply in (each for each in replies if each["kind"] == "daemon"):
        memory = "" if reply["memory"] is None else f", {size_of(reply['memory'])}"
        terminal.say(f"daemon: process {reply['pid']}, twopipes {reply['version']}, started {_ago(reply['started'])}{memory}")
    return failed


def logs(arguments: Sequence[str]) -> int:
    """Show what the servers wrote to stderr."""
    as_json, name = _read(arguments, _LOGS, _LOGS_HELP)
    replies, failed = _ask({"request": "logs", "server": name})
    if as_json:
        return _print_json(replies) or failed
    servers = [server for reply in replies for server in reply["servers"]]
    if not servers:
        return _nothing(name)
    terminal = Terminal()
    sections = [(f"{server['id']} {shlex.join(server['command'])}", server["lines"]) for server in servers]
    sections += [(f"{reply['kind']} {reply['pid']}", reply["lines"]) for reply in replies if reply["lines"]]
    for title, lines in sections:
        terminal.say((visible(f"== {title}"), "bold"))
        for line in lines:
            terminal.say(visible(line))
    return failed


def stop(arguments: Sequence[str]) -> int:
    """End servers, or the daemons."""
    as_json, name = _read(arguments, _STOP, _STOP_HELP)
    replies, failed = _ask({"request": "stop", "server": name})
    if as_json:
        return _print_json(replies) or failed
    stopped = [server for reply in replies for server in reply["stopped"]]
    if not stopped and (name is not None or not replies):
        return _nothing(name) or failed
    terminal = Terminal()
    for server in stopped:
        terminal.say(visible(f"stopped {server['id']} {shlex.join(server['command'])}"))
    if name is None:
        for reply in (each for each in replies if each["kind"] == "daemon"):
            terminal.say(f"stopped the daemon, process {reply['pid']}")
    return failed


def _read(arguments: Sequence[str], usage: str, help_text: str, *, takes_name: bool = True) -> tuple[bool, str | None]:
    """Return whether JSON is wanted, and the name of the server."""
    options, plain, rest = read_words(arguments, usage, help_text, with_value=("--format",))
    words = plain + (rest or [])
    if len(words) > takes_name:
        raise UsageError(f"unknown argument {words[-1]}. {usage}")
    chosen = options.get("--format", ["text"])[-1]
    if chosen not in _FORMATS:
        raise UsageError(f"--format must be text or json, not {chosen!r}. {usage}")
    return chosen == "json", words[0] if words else None


def _ask(request: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return the replies of the daemons, and the exit code."""
    try:
        found = ask_daemons(request)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"the folder of the daemon cannot be used: {error}") from error
    for reason in found.errors:
        sys.stderr.write(f"Error: {visible(reason)}\n")
    return found.replies, FAILED if found.errors else OK


def _row(server: dict[str, Any]) -> list[str]:
    pid, memory = server.get("pid"), server["memory"]
    cells = [
        server["id"],
        server.get("name") or os.path.basename(server["command"][0]),
        "-" if pid is None else str(pid),
        "-" if server.get("started") is None else _ago(server["started"]),
        str(len(server["hosts"])),
        str(server.get("calls", 0)),
        str(server.get("restarts", 0)),
        "-" if memory is None else size_of(memory),
        shlex.join(server["command"]),
    ]
    return [visible(cell) for cell in cells]


def _ago(moment: float) -> str:
    return f"{duration(max(time.time() - moment, 0))} ago"


def _print_json(replies: list[dict[str, Any]]) -> int:
    by_kind = {kind: [reply for reply in replies if reply["kind"] == kind] for kind in ("daemon", "keep")}
    sys.stdout.write(json.dumps({"daemons": by_kind["daemon"], "processes": by_kind["keep"]}, indent=2) + "\n")
    return OK


def _nothing(name: str | None) -> int:
    if name is None:
        Terminal().say(_NONE)
        return OK
    sys.stderr.write(f"Error: no server matches {visible(name)!r}; see twopipes keep status\n")
    return FAILED
