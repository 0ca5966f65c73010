"""Read the servers in the configuration file of a host, and how each is started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twopipes._host.files.formats import Language, language_of, read
from twopipes._host.files.host_table import HOSTS
from twopipes._host.files.values import found_at
from twopipes._process.command import ServerCommand
from twopipes.errors import ConfigError, LocalProtocolError

# Where hosts keep their servers. `mcp` is the last, because hosts keep other settings there too.
_PLACES = sorted(dict.fromkeys(host.place for host in HOSTS.values()), key=lambda place: place == ("mcp",))
# The types of the extensions that are built into goose.
_BUILT_INTO_GOOSE = {"builtin", "platform", "frontend", "inline_python"}
_HTTP_TYPES = {"http", "sse", "streamable-http", "streamable_http", "remote"}
# Folders of hosts inside a project. The project is their parent.
_HOST_FOLDERS = {Path(host.project).parts[0] for host in HOSTS.values() if host.project and "/" in host.project}
# ${NAME} and ${env:NAME}; {env:NAME} of opencode.
_VARIABLE = re.compile(r"\$\{([^{}]*)\}|\{(env:[^{}]*)\}")


class ServerEntry(NamedTuple):
    """One server of a configuration file, as written there."""

    name: str
    content: Mapping[str, Any]
    file: str


def read_entries(file: str, name: str | None = None) -> list[ServerEntry]:
    """Return the servers of a file in its order, or only the one with that name."""
    language = language_of(file)
    servers = _servers(_document(file, language), file, language)
    if name is None:
        return [ServerEntry(each, content, file) for each, content in servers.items()]
    if name not in servers:
        raise ConfigError(f"{file} has no server {name!r}; known servers: {', '.join(servers)}")
    return [ServerEntry(name, servers[name], file)]


def command_of(entry: ServerEntry) -> ServerCommand:
    """Return the command of a server, with references to variables expanded as hosts do."""
    where = f"{entry.file}: server {entry.name!r}"
    content = _normalized(entry.content)
    command, arguments = content.get("command"), content.get("args", [])
    if not isinstance(command, str) or not command:
        raise ConfigError(f'{where} has no command; add "command": "...", or for a server at a URL "url": "..."')
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ConfigError(f"{where}: args must be a list of strings")
    env, folder = content.get("env") or {}, content.get("cwd")
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float | None) for value in env.values()):
        raise ConfigError(f"{where}: env must be an object with string values")
    if not isinstance(folder, str | None):
        raise ConfigError(f"{where}: cwd must be a string")

    def expanded(text: str) -> str:
        return _expanded(text, entry, where)

    variables = dict(_passed_variables(content))
    variables |= _read_env_file(content.get("envFile"), expanded, where)
    variables |= {key: expanded(_text(value)) for key, value in env.items() if value is not None}
    try:
        return ServerCommand(
            [expanded(word) for word in [command, *arguments]],
            env=variables or None,
            cwd=None if folder is None else expanded(folder),
        )
    except LocalProtocolError as error:
        raise ConfigError(f"{where}: {error}") from error


class ServerUrl(NamedTuple):
    """The URL of a server in a configuration file, and the headers for it."""

    url: str
    headers: dict[str, str]


def url_of(entry: ServerEntry) -> ServerUrl | None:
    """Return the URL of a server, with references to variables expanded; ``None`` if the entry has a command."""
    where = f"{entry.file}: server {entry.name!r}"
    content = entry.content
    if "command" in content or "cmd" in content:
        return None
    url = next((content[key] for key in ("url", "serverUrl", "httpUrl", "uri") if key in content), None)
    if url is None:
        if content.get("type") in _HTTP_TYPES:
            raise ConfigError(f'{where} has no URL; add "url": "https://..."')
        return None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}: url must begin with http:// or https://")
    headers = content.get("headers") or content.get("http_headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ConfigError(f"{where}: headers must be an object with string values")
    return ServerUrl(_expanded(url, entry, where), {name: _expanded(value, entry, where) for name, value in headers.items()})


def _expanded(text: str, entry: ServerEntry, where: str) -> str:
    return _VARIABLE.sub(lambda found: _value(found.group(1) or found.group(2) or "", entry, where), text)


def _normalized(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry with the usual members: command, args and env."""
    found = dict(content)
    for own, common in {"environment": "env", "envs": "env", "cmd": "command"}.items():
        if own in found and common not in found:
            found[common] = found.pop(own)
    command = found.get("command")
    if isinstance(command, list) and command and "args" not in found:  # opencode
        found["command"], found["args"] = command[0], command[1:]
    elif isinstance(command, dict) and "path" in command:  # Zed until 2025
        found |= {"command": command["path"]} | {key: command[key] for key in ("args", "env") if command.get(key) is not None}
    return found


def _passed_variables(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the variables that Codex and goose pass on from their environment, if they are set here."""
    for key in ("env_vars", "env_keys"):
        names = content.get(key)
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name in os.environ:
                yield name, os.environ[name]


def _document(file: str, language: Language) -> Any:
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {why}") from error
    try:
        return read(text, language)
    except ValueError as error:
        raise ConfigError(f"{file} is not valid {language}: {error}") from error
    except ConfigError as mistake:
        raise ConfigError(f"{file}: {mistake}") from mistake


def _servers(document: Any, file: str, language: Language) -> dict[str, Mapping[str, Any]]:
    for place in _PLACES:
        found = found_at(document, place)
        if not isinstance(found, dict) or (place == ("extensions",) and language != "YAML"):
            continue
        objects = [each for each in found.values() if isinstance(each, dict)]
        if place == ("mcp",) and not (len(objects) == len(found) and all(each.keys() & {"type", "enabled"} for each in objects)):
            continue  # other hosts keep other settings there
        if place == ("extensions",):
            built_in = [each for each in objects if each.get("type") in _BUILT_INTO_GOOSE]
            found = {name: each for name, each in found.items() if each not in built_in}
        if found:
            if wrong := [name for name, content in found.items() if not isinstance(content, dict)]:
                raise ConfigError(f"{file}: server {wrong[0]!r} must be an object with a command")
            return found
    raise ConfigError(f'{file} has no servers; it needs {{"mcpServers": {{"NAME": {{"command": "...", "args": [...]}}}}}}')


def _value(inside: str, entry: ServerEntry, where: str) -> str:
    """Return the value of ``${inside}``: a variable, with a default after ``:-``, or a predefined name of VS Code and Cursor."""
    kind, colon, rest = inside.partition(":")
    if colon and kind == "input":
        raise ConfigError(f"{where} asks the user for ${{{inside}}}; set it with --env or in the environment")
    project = Path(entry.file).expanduser().absolute().parent
    if project.name in _HOST_FOLDERS:
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
    raise ConfigError(f"{where} needs the variable {name}, which is not set; run {name}=... twopipes ...")


def _read_env_file(file: Any, expanded: Any, where: str) -> dict[str, str]:
    if file is None:
        return {}
    if not isinstance(file, str):
        raise ConfigError(f"{where}: envFile must be a string")
    try:
        lines = Path(expanded(file)).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: envFile {file} cannot be read: {error}") from error
    found = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            found[name.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    return found


def _text(value: Any) -> str:
    # Hosts pass numbers and booleans on in their JSON form.
    return value if isinstance(value, str) else json.dumps(value)
