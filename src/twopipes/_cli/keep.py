"""``twopipes keep``: keep a server running for a host. The host waits for it to start, so it imports little."""

from __future__ import annotations

import os
import sys

from twopipes._cli.durations import positive_seconds_in
from twopipes._cli.sandbox_options import SANDBOX_HELP, SANDBOX_SWITCHES, SANDBOX_WITH_VALUE, sandbox_in
from twopipes._tools.exit_codes import OK, UNREACHABLE, exit_code_help
from twopipes._tools.usage import UsageError, read_words, report_error

TYPE_CHECKING = False  # importing typing would slow down the start
if TYPE_CHECKING:
    from collections.abc import Sequence

_USAGE = (
    "usage: twopipes keep [--lazy] [--idle TIME] [--no-manifest] [--watch PATH] [--share[=all]] [--trace FILE] [--log FILE] "
    "[--sandbox ...] -- CMD..."
)
_HELP = f"""\
usage: twopipes keep [--lazy] [--idle TIME] [--no-manifest] [--watch PATH ...]
                     [--share[=all]] [--trace FILE] [--log FILE]
                     [--sandbox] [--sandbox-read PATH ...]
                     [--sandbox-write PATH ...] [--sandbox-network] -- CMD...
       twopipes keep status | logs [NAME] | stop [NAME]

Starts a server and keeps it running for a host. Put it in front of a server's
command in the configuration of a host. While the server starts, the host gets
its lists at once, as they were in the previous run. A server that crashes is
started again, and the session of the host goes on. The server ends when the
host ends.

options:
  --lazy             start the server at the first request that needs it
  --idle TIME        stop a server that was not used for this long, such as 10m;
                     the next request starts it again
  --no-manifest      store nothing about the server, and answer nothing before
                     it has started
  --watch PATH ...   restart the server when this file, or the code in this
                     folder, changes; needs: pip install "twopipes[watch]"
  --share            use one process for all hosts with the same command, folder
                     and environment, if the server speaks the modern era. It
                     ends --idle (by default 5m) after the last host has left
  --share=all        the same for a server of the legacy era, which must not
                     keep anything about a session
  --trace FILE       record the messages between the host and keep in this file,
                     for twopipes view
  --log FILE         append the server's stderr to this file; by default it goes
                     to stderr
{SANDBOX_HELP}  -h, --help         show this help

commands about the servers that run:
  status             show what runs, for whom, and its memory
  logs [NAME]        show the last lines that the servers wrote to stderr
  stop [NAME]        end a server, or all of them; the next call starts it again

examples:
  twopipes keep -- npx -y some-server
  twopipes keep --lazy --idle 10m -- python server.py

{exit_code_help("keep")}"""

_WITH_VALUE = ("--idle", "--watch", "--trace", "--log", *SANDBOX_WITH_VALUE)
_SWITCHES = ("--lazy", "--no-manifest", "--share", "--share=all", *SANDBOX_SWITCHES)
# The commands about servers that run, each a function of keep_commands.py.
_COMMANDS = ("status", "logs", "stop")


def keep(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    if arguments and arguments[0] in _COMMANDS:
        from twopipes._cli import keep_commands  # a host does not need them

        return int(getattr(keep_commands, arguments[0])(arguments[1:]))
    options, plain, command = read_words(arguments, _USAGE, _HELP, with_value=_WITH_VALUE, switches=_SWITCHES)
    if plain and "--watch" in options:
        options["--watch"] += plain  # --watch src tests
    elif plain:
        raise UsageError(f"unknown argument {plain[0]}; put the command of the server after --. {_USAGE}")
    if not command or not command[0]:
        raise UsageError(f"no server given; put its command after --. {_USAGE}")
    checked = KeepOptions(options)
    return _share(command, checked) if checked.share is not None else serve(command, checked)


class KeepOptions:
    """The options of the command line, checked."""

    def __init__(self, given: dict[str, list[str]]) -> None:
        last = {name: values[-1] if values else "" for name, values in given.items()}
        self.is_lazy = "--lazy" in last
        self.has_manifest = "--no-manifest" not in last
        self.idle = _seconds("--idle", last["--idle"]) if "--idle" in last else None
        self.watch = _paths(given.get("--watch", []))
        # None, "modern" or "all": the servers that hosts share.
        self.share = "all" if "--share=all" in last else "modern" if "--share" in last else None
        self.trace = last.get("--trace")
        self.log = _file("--log", last["--log"]) if "--log" in last else None
        self.sandbox = sandbox_in(given)


def _paths(paths: Sequence[str]) -> tuple[str, ...]:
    if not paths:
        return ()
    from twopipes._gateway.watch import check_paths  # only if it is requested
    from twopipes.errors import LocalProtocolError  # likewise

    try:
        return tuple(check_paths(paths))
    except LocalProtocolError as error:
        raise UsageError(f"--watch: {error}") from None


def _seconds(option: str, text: str) -> float:
    try:
        return positive_seconds_in(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _file(option: str, name: str) -> str:
    """Return the path of a file to write, after opening it once: an error must not come after the host has connected."""
    from twopipes._process.user_files import open_private  # only if it is requested

    try:
        os.close(open_private(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    except OSError as error:
        raise UsageError(f"{option}: {name} cannot be written: {error.strerror or error}") from None
    return os.path.abspath(name)


def _share(command: list[str], options: KeepOptions) -> int:
    """Connect the host to the daemon. This process imports neither asyncio nor msgspec, to be small."""
    request = {
        "share_all": options.share == "all",
        "is_lazy": options.is_lazy,
        "idle": options.idle,
        "has_manifest": options.has_manifest,
        "watch": options.watch,
        "log": options.log,
        "trace": None if options.trace is None else os.path.abspath(options.trace),
        "sandbox": options.sandbox,
    }
    from twopipes._gateway.daemon.messages import DaemonError  # only for --share
    from twopipes._gateway.daemon.relay import relay  # likewise

    try:
        return relay(command, request)
    except (DaemonError, OSError, RuntimeError) as error:
        return report_error(error, UNREACHABLE)


def serve(command: Sequence[str], options: KeepOptions, *, http: str | None = None) -> int:
    """Serve a command over stdio, or over HTTP, until the host is gone. Return the exit code."""
    from twopipes._channels.stdout_guard import Guard  # not needed for the commands about kept servers

    if not options.watch and http is None:  # watchfiles and HTTP need ssl
        # As in a Python that was built without OpenSSL: asyncio has no TLS, which is not used here, and hashlib uses its own code.
        # A None is the documented way to make an import fail. It saves 5 MB (decision 41).
        sys.modules.update(dict.fromkeys(("ssl", "_hashlib")))  # type: ignore[arg-type]
    if http is None:
        Guard.take()  # before anything else is imported, so that stdout carries messages only
    from twopipes._gateway.keeper import KeepSettings, kept_server  # after stdout is protected
    from twopipes.errors import TwopipesError  # likewise
    from twopipes.settings import Sandbox  # likewise

    settings = KeepSettings(
        is_lazy=options.is_lazy,
        idle=options.idle,
        has_manifest=options.has_manifest,
        log=options.log,
        watch=options.watch,
        sandbox=None if options.sandbox is None else Sandbox(**options.sandbox),
    )
    try:
        kept_server(command, settings).run(trace=options.trace, http=http)
    except TwopipesError as error:
        raise UsageError(str(error)) from error
    return OK
