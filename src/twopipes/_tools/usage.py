"""User mistakes, and what every command needs to read its command line.

``run``, ``tap`` and ``mock`` import this module while a host waits for the server, so it imports little.
"""

from __future__ import annotations

import sys

from twopipes._tools.exit_codes import USAGE

TYPE_CHECKING = False  # importing typing would slow down the start of run, tap and mock
if TYPE_CHECKING:
    from collections.abc import Sequence

    from twopipes._channels.address import TcpAddress


class UsageError(Exception):
    """A mistake that the user can fix. The message explains how, on one line."""


class HelpShown(Exception):
    """The help of a command was printed; there is nothing more to do."""


def report_error(error: object, exit_code: int = USAGE) -> int:
    """Write an error to stderr on one line, and return the exit code."""
    from twopipes._tools.terminal import visible  # keeps the start of run, tap and mock light

    sys.stderr.write(f"Error: {visible(' '.join(str(error).split()))}\n")
    return exit_code


def split_target(target: str) -> tuple[str, str]:
    """Split ``FILE:NAME``. The name may be missing, and the drive of a Windows path has a colon of its own."""
    drive = target[:2] if target[1:2] == ":" and target[2:3] in {"\\", "/"} else ""
    file, _, name = target.removeprefix(drive).partition(":")
    return drive + file, name


def read_words(
    arguments: Sequence[str], usage: str, help_text: str, *, with_value: Sequence[str] = (), switches: Sequence[str] = ()
) -> tuple[dict[str, list[str]], list[str], list[str] | None]:
    """Read a command line without argparse, which would slow down the start.

    Returns the values of each option, the other words before ``--``, and those after it; ``None`` if there is no ``--``.
    """
    words = list(arguments)
    rest: list[str] | None = None
    values: dict[str, list[str]] = {}
    plain: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, rest = words[:cut], words[cut + 1 :]
    if "--help" in words or "-h" in words:
        sys.stdout.write(help_text)
        raise HelpShown
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word in switches:
            values[word] = []
        elif name in with_value:
            if not equals and not words:
                raise UsageError(f"{name} needs a value. {usage}")
            values.setdefault(name, []).append(value if equals else words.pop(0))
        elif word.startswith("-") and word != "-":
            raise UsageError(f"unknown option {word}. {usage}")
        else:
            plain.append(word)
    return values, plain, rest


def tcp_address(text: str) -> TcpAddress:
    """Return the address that ``--tcp`` names."""
    from twopipes._channels.address import parse_host_port  # keeps the start of run light

    try:
        return parse_host_port(text, default_host="127.0.0.1")
    except ValueError:
        raise UsageError(f"--tcp needs HOST:PORT, such as 127.0.0.1:9000, not {text!r}") from None
