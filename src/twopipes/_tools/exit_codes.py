"""The exit codes of the ``twopipes`` command. Help texts and docs/reference/exit-codes.md show this table.

``tap`` and ``mock`` import this module while a host waits for the server, so it imports nothing.
"""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NO_RESPONSE = 4
# The codes of shells: for a command that cannot be started, and 128 plus the number of a signal.
CANNOT_EXECUTE = 126
NOT_FOUND = 127
INTERRUPTED = 130
TERMINATED = 143

_CTRL_C: dict[int | str, str] = {INTERRUPTED: "interrupted by Ctrl-C"}
_CLIENT: dict[int | str, str] = {
    OK: "success",
    FAILED: "the server responded with an error, or the tool failed",
    USAGE: "usage error, such as an argument that the tool does not have",
    UNREACHABLE: "the server could not be started or reached",
    NO_RESPONSE: "no response in time, an invalid response, or the server exited",
    **_CTRL_C,
}
# The meaning of each code, by command. "N" stands for any code.
EXIT_CODES: dict[str, dict[int | str, str]] = {
    "new": {OK: "the project was created", USAGE: "invalid name, or a file already exists; nothing was written"},
    "install": {
        OK: "the entries were shown or written, or were already there",
        FAILED: "the file, or one of its servers, cannot be edited, or the name is taken",
        USAGE: "usage error",
    },
    "pack": {
        OK: "the bundle was written",
        USAGE: "usage error, no wheels, or the packed server does not work",
    },
    "run": {
        OK: "the input ended, or SIGINT or SIGTERM stopped the server",
        FAILED: "the server failed",
        USAGE: "usage error, or there is no server to serve",
    },
    "dev": {
        OK: "the input ended, or SIGINT or SIGTERM stopped it",
        USAGE: "usage error, or a file that does not exist",
    },
    "mock": {
        OK: "the input ended, or a signal stopped it",
        FAILED: "with --strict: a request came that the trace does not contain",
        USAGE: "usage error, or the trace cannot be read",
    },
    "keep": {
        OK: "the input ended, or SIGINT or SIGTERM stopped it",
        FAILED: "--share: the daemon ended; logs, stop: there is no such server",
        USAGE: "usage error, or a file cannot be written",
        UNREACHABLE: "--share: the daemon cannot be started, or refused the server",
    },
    "bridge": {
        OK: "the input ended, or SIGINT or SIGTERM stopped it",
        FAILED: "the bridge failed",
        USAGE: "usage error, or it cannot listen on the address",
        CANNOT_EXECUTE: "the server's command cannot be executed",
        NOT_FOUND: "the server's command was not found",
    },
    "hub": {
        OK: "the input ended, or SIGINT or SIGTERM stopped it",
        FAILED: "the hub failed",
        USAGE: "usage error, the file cannot be used, or it cannot listen on the address",
    },
    "list": _CLIENT,
    "call": _CLIENT,
    "read": _CLIENT,
    "prompt": _CLIENT,
    "tap": {
        "N": "the exit code of the server; after a signal, tap ends by the same one",
        OK: "with a URL: SIGINT or SIGTERM stopped the tap",
        USAGE: "usage error",
        CANNOT_EXECUTE: "the server's command cannot be executed",
        NOT_FOUND: "the server's command was not found",
    },
    "view": {OK: "the trace was shown, or Ctrl-C ended --follow", USAGE: "usage error, or the trace cannot be read", **_CTRL_C},
    "replay": {
        OK: "all responses are the same",
        FAILED: "something differs, or the server exited or stopped responding",
        USAGE: "usage error, or the trace cannot be read or the server not started",
        **_CTRL_C,
    },
    "doctor": {
        OK: "healthy; there may be notes",
        FAILED: "problems were found",
        USAGE: "usage error",
        INTERRUPTED: "interrupted by Ctrl-C; no process is left running",
        TERMINATED: "ended by SIGTERM; no process is left running",
    },
    "check": {
        OK: "no applicable rule was broken, as far as it could be tested",
        FAILED: "a MUST was broken; with --strict, a MUST or a SHOULD",
        USAGE: "usage error",
        UNREACHABLE: "not started, not reached, or no known protocol revision",
        **_CTRL_C,
    },
}


def exit_code_help(command: str) -> str:
    """Return the section of a help text that lists the exit codes of a command."""
    return "exit codes:\n" + "".join(f"  {code:<3}  {meaning}\n" for code, meaning in EXIT_CODES[command].items())
