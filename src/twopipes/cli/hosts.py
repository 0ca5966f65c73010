"""The configuration files of hosts: which servers stand in them, and how each is started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twopipes.cli.run import Mistake
from twopipes.errors import LocalProtocolError
from twopipes.process.command import ServerCommand

__all__ = ["Entry", "command_of", "read_entries"]

# Where hosts keep their servers: Claude Desktop, Claude Code, Cursor and many others; VS Code's mcp.json; VS Code's settings.json.
_PLACES = (("mcpServers",), ("servers",), ("mcp", "servers"))
# The folders inside a project in which hosts keep their files; the project is one up.
_FOLDERS_OF_HOSTS = {".vscode", ".cursor"}
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
# A string, or what is no JSON: a comment, or a comma that nothing follows.
_TOLERATED = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}])', re.DOTALL)


class Entry(NamedTuple):
    """One server of a configuration file, as it stands there."""

    name: str
    content: Mapping[str, Any]
    file: str


def read_entries(file: str, name: str | None = None) -> list[Entry]:
    """The servers of a file, in its order; or the one with that name.

    Raises:
        Mistake: The file cannot be read, no servers stand in it, or not this one.
    """
    servers = _servers(_document(file), file)
    if name is None:
        return [Entry(each, content, file) for each, content in servers.items()]
    if name not in servers:
        raise Mistake(f"{file} has no server {name!r}; it has {', '.join(servers)}")
    return [Entry(name, servers[name], file)]


def command_of(entry: Entry) -> ServerCommand:
    """How the server is started, with the variables in it replaced as hosts do.

    Raises:
        Mistake: It is reached over HTTP, a variable has no value, or something is not what it must be.
    """
    where = f"{entry.file}: the server {entry.name!r}"
    content = entry.content
    kind = content.get("type", "stdio")
    if "command" not in content and ("url" in content or "serverUrl" in content or kind in {"http", "sse", "streamable-http"}):
        raise Mistake(f"{where} is reached by HTTP ({content.get('url', kind)}), and twopipes speaks stdio alone")
    command, arguments = content.get("command"), content.get("args", [])
    if not isinstance(command, str) or not command:
        raise Mistake(f'{where} has no command; it needs "command": "..."')
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise Mistake(f"{where}: its args must be a list of strings")
    env, folder = content.get("env") or {}, content.get("cwd")
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float | None) for value in env.values()):
        raise Mistake(f"{where}: its env must be an object with strings in it")
    if not isinstance(folder, str | None):
        raise Mistake(f"{where}: its cwd must be a string")

    def expanded(text: str) -> str:
        return _VARIABLE.sub(lambda found: _value(found.group(1), entry, where), text)

    variables = _file_of_variables(content.get("envFile"), expanded, where)
    variables |= {key: expanded(_text(value)) for key, value in env.items() if value is not None}
    try:
        return ServerCommand(
            [expanded(word) for word in [command, *arguments]],
            env=variables or None,
            cwd=None if folder is None else expanded(folder),
        )
    except LocalProtocolError as error:
        raise Mistake(f"{where}: {error}") from error


def _document(file: str) -> Any:
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Mistake(f"{file} cannot be read: {why}") from error
    try:
        return json.loads(
            _TOLERATED.sub(lambda found: found.group() if found.group().startswith('"') else _blank(found.group()), text)
        )
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{file} is no JSON: {error}") from error


def _blank(text: str) -> str:
    # As long as before and on as many lines, so that what the reader of JSON says of a place is true of the file.
    return "".join("\n" if character == "\n" else " " for character in text)


def _servers(document: Any, file: str) -> dict[str, Mapping[str, Any]]:
    for place in _PLACES:
        found = document
        for key in place:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, dict) and found:
            if wrong := [name for name, content in found.items() if not isinstance(content, dict)]:
                raise Mistake(f"{file}: the server {wrong[0]!r} must be an object, with a command in it")
            return found
    raise Mistake(f'{file} has no servers; it needs {{"mcpServers": {{"NAME": {{"command": "...", "args": [...]}}}}}}')


def _value(inside: str, entry: Entry, where: str) -> str:
    """What stands for ``${inside}``: a variable of ours, with a default behind ``:-``, or a word of VS Code's and Cursor's."""
    kind, colon, rest = inside.partition(":")
    if colon and kind == "input":
        raise Mistake(f"{where} asks its user for ${{{inside}}}; give the value with --env, or as a variable of the environment")
    project = Path(entry.file).expanduser().absolute().parent
    if project.name in _FOLDERS_OF_HOSTS:
        project = project.parent
    words = {
        "workspaceFolder": str(project),
        "workspaceFolderBasename": project.name,
        "userHome": str(Path.home()),
        "pathSeparator": os.sep,
        "/": os.sep,
    }
    if inside in words:
        return words[inside]
    name, has_default, default = (rest if colon and kind == "env" else inside).partition(":-")
    if name in os.environ:
        return os.environ[name]
    if has_default:
        return default
    raise Mistake(f"{where} needs the variable {name}, which is not set; run {name}=... twopipes ...")


def _file_of_variables(file: Any, expanded: Any, where: str) -> dict[str, str]:
    if file is None:
        return {}
    if not isinstance(file, str):
        raise Mistake(f"{where}: its envFile must be a string")
    try:
        lines = Path(expanded(file)).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{where}: its envFile {file} cannot be read: {error}") from error
    found = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            found[name.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    return found


def _text(value: Any) -> str:
    # Numbers and booleans are written by people who do not think of types; hosts hand them over as JSON writes them.
    return value if isinstance(value, str) else json.dumps(value)
