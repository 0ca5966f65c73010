"""The argument parser of the commands, and the options that several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from twopipes._cli.durations import positive_seconds_in, seconds_in
from twopipes._cli.server_address import BEARER_VARIABLE, is_url
from twopipes._tools.exit_codes import exit_code_help
from twopipes._tools.usage import HelpShown, UsageError


class CommandParser(argparse.ArgumentParser):
    """A parser that raises :class:`UsageError` instead of printing the usage and exiting."""

    def __init__(self, command: str, *, usage: str, description: str, examples: Sequence[str], notes: str = "") -> None:
        lines = "".join(f"  {example}\n" for example in examples)
        super().__init__(
            prog=f"twopipes {command}",
            usage=usage,
            description=description,
            epilog=f"examples:\n{lines}\n{exit_code_help(command)}{notes}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def split_server(self, arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
        """Return the words for the parser, and those that name the server: after ``--``, or else the last URL.

        The second is ``None`` if there is neither. The value of an option is not a URL of a server.
        """
        words, command = split_command(arguments)
        if command is not None:
            return words, command
        places = [place for place, word in enumerate(words) if is_url(word) and not (place and self._takes_value(words[place - 1]))]
        if not places:
            return words, None
        return words[: places[-1]] + words[places[-1] + 1 :], [words[places[-1]]]

    def _takes_value(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs != 0

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found as a usage error."""
        raise UsageError(f"{message}; see {self.prog} --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Return to the command line after ``--help``."""
        raise HelpShown


class _Renamed(argparse.Action):
    """An option of an earlier release; the error names its replacement."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: object, values: Any, option_string: str | None = None) -> None:
        value = f" {values}" if values else ""
        raise UsageError(f"{option_string} was renamed; write {self.const}{value}")


def add_renamed_option(parser: Any, *old: str, new: str) -> None:
    """Reject an option of an earlier release with an error that names the new one."""
    parser.add_argument(*old, action=_Renamed, nargs="?", const=new, help=argparse.SUPPRESS)


def add_list_option(group: Any, name: str, metavar: str, text: str) -> None:
    """Add an option that may be repeated."""
    group.add_argument(name, metavar=metavar, action="append", default=[], help=text)


def add_format_option(parser: Any, choices: Sequence[str] = ("text", "json"), **options: Any) -> None:
    """Add ``--format``, and reject ``--output``, its name in the first release."""
    parser.add_argument("--format", choices=choices, default="text", **{"help": "the output format (default text)", **options})
    add_renamed_option(parser, "--output", "-o", new="--format")


def add_timeout_option(group: Any, note: str, **options: Any) -> None:
    """Add ``--timeout``: the longest wait for a response."""
    text = f"the longest wait for a response, such as 5 or 2m ({note})"
    group.add_argument("--timeout", metavar="SECONDS", help=text, **{"type": positive_duration, **options})


def add_socket_options(group: Any) -> None:
    """Add the options for a server that is running already."""
    group.add_argument("--unix", metavar="PATH", help="the Unix socket it listens on")
    group.add_argument("--tcp", metavar="HOST:PORT", help="the TCP port it listens on")


def add_url_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a server at a URL."""
    group = parser.add_argument_group("a server at a URL")
    add_list_option(group, "--header", "'NAME: VALUE'", "send this header with every request; may be repeated")
    text = f"send this token; better set {BEARER_VARIABLE}, which other users of this machine cannot see"
    group.add_argument("--bearer", metavar="TOKEN", help=text)


def add_config_options(group: Any, *, default: str) -> None:
    """Add the options for a server in a configuration file."""
    group.add_argument("--config", metavar="FILE", help="a host's configuration file, with mcpServers (or servers, as in VS Code)")
    group.add_argument("--server", metavar="NAME", help=f"the server in that file ({default})")


def add_start_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for starting a process."""
    group = parser.add_argument_group("how to start it")
    text = "set an environment variable; without a value, copy yours. By default it gets a minimal environment, as in most hosts"
    add_list_option(group, "--env", "NAME[=VALUE]", text)
    group.add_argument("--inherit-env", action="store_true", help="pass your whole environment on")
    group.add_argument("--cwd", metavar="FOLDER", help="the folder to start in")


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return the words before the first ``--``, and those after it; ``None`` if there is no ``--``."""
    words = list(arguments)
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def discard_stdout() -> None:
    """Stop writing to a stdout whose reader is gone, such as ``head``; otherwise Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def duration(text: str, *, unit: str = "s") -> float:
    """Return the seconds that a text means."""
    try:
        return seconds_in(text, unit=unit)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive_duration(text: str) -> float:
    """Return the seconds that a text means, which must be more than 0."""
    try:
        return positive_seconds_in(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def milliseconds(text: str) -> float:
    """Return the seconds that a text means; a number without a unit is in milliseconds."""
    return duration(text, unit="ms")
