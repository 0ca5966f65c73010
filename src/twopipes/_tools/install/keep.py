"""Put ``twopipes keep`` in front of the servers in a configuration file, and remove it again. Nothing else of an entry changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from twopipes._host.files.formats import put, read
from twopipes._host.files.host_table import HOSTS, Host
from twopipes._host.files.recognition import project_places
from twopipes._host.files.values import Refused, check_place, found_at

_URL_KEYS = {"url", "serverUrl", "httpUrl", "uri"}


class CommandLine(NamedTuple):
    """The command of an entry, and the members that hold it."""

    place: tuple[str, ...]  # the keys that lead from the entry to the members
    program: str  # the member with the program, or with all words if `arguments` is None
    arguments: str | None
    words: list[str]


class Change(NamedTuple):
    """A server whose command changes."""

    name: str
    before: list[str]
    after: list[str]
    place: tuple[str, ...]  # the keys that lead to the servers


def command_line(content: Any) -> CommandLine:
    """Find the command of an entry. Raises ``Refused`` with the reason if it has none."""
    if not isinstance(content, Mapping):
        raise Refused("it is not an object")
    program = "cmd" if "command" not in content and "cmd" in content else "command"
    if program not in content:
        raise Refused("it is a URL" if _URL_KEYS & content.keys() else "it has no command")
    command = content[program]
    if isinstance(command, list):  # opencode
        return CommandLine((), program, None, _words(command))
    if isinstance(command, Mapping):  # Zed until 2025
        return CommandLine((program,), "path", "args", _joined(command, "path"))
    return CommandLine((), program, "args", _joined(content, program))


def _joined(content: Mapping[str, Any], program: str) -> list[str]:
    arguments = content.get("args") or []
    if not isinstance(arguments, list):
        raise Refused("its args is not a list")
    return _words([content.get(program), *arguments])


def _words(words: list[Any]) -> list[str]:
    if not words or not words[0] or not all(isinstance(word, str) for word in words):
        raise Refused("its command is not a list of strings")
    return words


def without_keep(words: Sequence[str]) -> list[str] | None:
    """Return a command without the ``twopipes keep`` in front of it; ``None`` if there is none. A ``twopipes tap`` stays."""
    start = 0
    while "--" in words[start:]:
        end = words.index("--", start)
        if _runs(words[start:end], "keep"):
            return [*words[:start], *words[end + 1 :]]
        if not _runs(words[start:end], "tap"):
            break
        start = end + 1
    return None


def _runs(words: Sequence[str], command: str) -> bool:
    """Whether these words run a command of twopipes, as in ``python -m twopipes keep`` or ``uvx twopipes keep``."""
    names = [re.split(r"[/\\]", word)[-1].removesuffix(".exe") for word in words]
    return any(name == "twopipes" and word == command for name, word in zip(names, words[1:], strict=False))


def places_in(text: str, host: Host) -> list[tuple[str, ...]]:
    """Return the keys that lead to servers: those of the host, and of the current project if the file has servers for it."""
    document = read(text, host.language) if text.strip() else None
    return [host.place, *project_places(document, next((name for name, each in HOSTS.items() if each is host), ""))]


def servers_in(text: str, host: Host, place: Sequence[str]) -> dict[str, Any]:
    """Return the servers of a text by name. Raises ``ValueError`` if it is not valid, and ``Refused`` if they are not an object."""
    document = read(text, host.language) if text.strip() else None
    check_place(document, place)
    return found_at(document, place) or {}


def with_command(text: str, host: Host, place: Sequence[str], name: str, words: Sequence[str]) -> str:
    """Set the command of a server and keep the rest of the text. Raises ``Refused`` if that is not possible."""
    line = command_line(servers_in(text, host, place).get(name))
    inside = [*place, name, *line.place]
    if line.arguments is None:
        return put(text, host.language, inside, line.program, list(words), replace=True)
    text = put(text, host.language, inside, line.program, words[0], replace=True)
    if words[1:] == line.words[1:]:
        return text  # so that no empty list is added
    return put(text, host.language, inside, line.arguments, list(words[1:]), replace=True)


def as_before(text: str, host: Host, changes: Sequence[Change], backup: str) -> bool:
    """Whether a text is a backup with only these commands changed, so that the backup can be restored as it is."""
    try:
        for change in changes:
            if command_line(servers_in(backup, host, change.place).get(change.name)).words != change.after:
                return False
            backup = with_command(backup, host, change.place, change.name, change.before)
    except (ValueError, Refused):
        return False
    return backup == text
