"""``twopipes bridge``: serve a server that runs elsewhere or speaks another era. A host may wait for it, so it imports little."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any, Literal, NamedTuple

from twopipes._cli import serving_options
from twopipes._cli.server_address import BEARER_VARIABLE, is_address, is_url, read_headers, token_of
from twopipes._cli.serving_options import HTTP_HELP, WHERE_HELP, Options, last_of, where_to_serve
from twopipes._client.connect import with_http
from twopipes._client.targets import CommandTarget, Target, target_of
from twopipes._gateway.back import Back, BackConfig
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer
from twopipes._process.command import ServerCommand
from twopipes._tools.exit_codes import CANNOT_EXECUTE, NOT_FOUND, OK, exit_code_help
from twopipes._tools.usage import UsageError, read_words, report_error
from twopipes.errors import StartFailed, TwopipesError

_USAGE = "usage: twopipes bridge [--http PORT | --unix PATH | --tcp HOST:PORT] [OPTION ...] (-- CMD... | URL | unix:PATH | tcp://HOST:PORT)"
_HELP = f"""\
usage: twopipes bridge [--http [HOST:]PORT | --unix PATH | --tcp HOST:PORT]
                       [--era ERA] [--isolate] [--trace FILE] -- CMD...
       twopipes bridge ... [--header 'NAME: VALUE'] [--token-env NAME] URL
       twopipes bridge ... unix:PATH | tcp://HOST:PORT

Serves an existing server in another way: a stdio server over HTTP, a
remote server over stdin and stdout, or a server of one era to hosts of the
other. Everything passes through: progress, cancellation, log messages, list
changes, and the questions of the server to the user. One process of the server
is shared by all clients, restarted after a crash, and ended with the bridge.

the server:
  CMD...             its command; it gets the environment of the bridge
  URL                its address, such as https://example.com/mcp;
                     needs: pip install "twopipes[http]"
  unix:PATH, tcp://HOST:PORT
                     the socket it listens on

{WHERE_HELP}
options:
  --era ERA          what clients may speak: legacy (with a handshake), modern
                     (without), or both (default). The era of the server is
                     detected
  --isolate          give each session its own process of the server
  --header 'NAME: VALUE'
                     with a URL: send this header; may be repeated
  --token-env NAME   with a URL: send the token in this environment variable;
                     {BEARER_VARIABLE} by default
{HTTP_HELP}  --trace FILE       record the messages between the bridge and the server in
                     this file, for twopipes view
  -h, --help         show this help

examples:
  twopipes bridge --http 8000 -- npx -y some-server
  twopipes bridge https://example.com/mcp --token-env EXAMPLE_TOKEN
  twopipes bridge --era legacy -- python modern_server.py
  twopipes bridge --tcp 127.0.0.1:9000 unix:/run/server.sock

{exit_code_help("bridge")}"""

_WITH_VALUE = (*serving_options.WITH_VALUE, "--era", "--header", "--token-env", "--trace")
_SWITCHES = (*serving_options.SWITCHES, "--isolate")
# How the options that errors point to are typed here, by their keys in twopipes._error_text.
_OPTIONS = {"auth": f"--token-env NAME or {BEARER_VARIABLE}=TOKEN", "public": "--public", "path": "PATH"}
# Seconds that a slow disk may delay the exit.
_CLOSE_TRACE = 3.0
Eras = Literal["both", "legacy", "modern"]
_ERAS: dict[str, Eras] = {"both": "both", "legacy": "legacy", "modern": "modern"}


class Bridge(NamedTuple):
    """What the command line asks for."""

    target: Target  # the server
    where: dict[str, Any]  # the arguments of Server.run() for the side of the clients
    eras: Eras  # what clients may speak
    isolated: bool  # each session has its own process
    trace: str | None  # the file to record in


def bridge(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        wanted = read_bridge(arguments)
        with nullcontext(wanted.target) if wanted.trace is None else _recorded(wanted.target, wanted.trace) as target:
            is_shared = bool(wanted.where) and not wanted.isolated  # on stdio there is only one client
            backs = Backs(lambda: Back(target, config=BackConfig()), isolated=wanted.isolated, shared=is_shared)
            server = GatewayServer(backs, eras=wanted.eras, name="twopipes bridge", option_names=_OPTIONS)
            server.run(**wanted.where)
    except StartFailed as error:
        return report_error(error.describe(_OPTIONS), NOT_FOUND if error.reason == "not found" else CANNOT_EXECUTE)
    except TwopipesError as error:
        raise UsageError(error.describe(_OPTIONS)) from error
    return OK


def read_bridge(arguments: Sequence[str]) -> Bridge:
    """Read and check the command line.

    Raises:
        UsageError: An option is wrong, or no server is given.
        StartFailed: The command of the server does not exist or cannot be executed.
        LocalProtocolError: The address of the server is not valid, or an extra is missing.
    """
    options, plain, command = read_words(arguments, _USAGE, _HELP, with_value=_WITH_VALUE, switches=_SWITCHES)
    era = last_of(options, "--era") or "both"
    if era not in _ERAS:
        raise UsageError(f"--era must be both, legacy or modern, got {era!r}")
    where = where_to_serve(options)
    return Bridge(_target(options, plain, command), where, _ERAS[era], "--isolate" in options, last_of(options, "--trace"))


def _target(options: Options, plain: list[str], command: list[str] | None) -> Target:
    """Return the server that the words name."""
    if command is not None and len(command) == 1 and is_address(command[0]):
        plain, command = [*plain, *command], None
    if command is None:
        return _at_address(options, plain)
    if plain:
        raise UsageError(f"{plain[0]} and -- CMD each name a server; give one of them")
    if not command:
        raise UsageError(f"no command after --. {_USAGE}")
    _refuse_url_options(options)
    # The child gets what the host gave us, as if the host had started it, and writes to our stderr.
    found = ServerCommand(command, environment="inherit", stderr="inherit")
    found.resolve()  # so that a command that does not exist is reported at once, and not to the first client
    return CommandTarget(found)


def _at_address(options: Options, words: list[str]) -> Target:
    """Return the server at a URL or a socket."""
    if len(words) != 1:
        problem = f"{' and '.join(words)} each name a server; give one of them" if words else "no server given"
        raise UsageError(f"{problem}. {_USAGE}")
    address = words[0]
    if not is_address(address) and not address.startswith(("ws://", "wss://")):  # of which connect() knows what is wrong
        raise UsageError(
            f"{address!r} is not the address of a server: a URL begins with https:// or http://, and a command comes after --"
        )
    if not is_url(address):
        _refuse_url_options(options)
        return target_of(address)
    import_module("twopipes._client.http_exchange")  # raises now if the extra is missing, and not at the first request
    return with_http(target_of(address), read_headers(options.get("--header", ())), token_of(_token(options), "--token-env"))


def _refuse_url_options(options: Options) -> None:
    for name in ("--header", "--token-env"):
        if name in options:
            raise UsageError(f"{name} is for a server at a URL; leave it out, or give a URL")


def _token(options: Options) -> str | None:
    """Return the token in the variable that ``--token-env`` names."""
    name = last_of(options, "--token-env")
    if name is not None and not os.environ.get(name):
        raise UsageError(f"--token-env {name}: the environment variable {name} is not set or empty; set it to the token")
    return None if name is None else os.environ[name]


@contextmanager
def _recorded(target: Target, path: str) -> Generator[Target, None, None]:
    """Record every connection to the server in one file."""
    from twopipes._client.recording import RecordedTarget, open_recorder  # only if it is requested
    from twopipes._trace.recorder import names_to_redact  # likewise

    recorder = open_recorder(target, path, names_to_redact(()), on_loss=_report)
    try:
        yield RecordedTarget(target, recorder)
    finally:
        recorder.close(_CLOSE_TRACE)


def _report(sentence: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"twopipes bridge: {sentence}\n")
        sys.stderr.flush()
