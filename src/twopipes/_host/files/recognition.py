"""Find out which host a configuration file belongs to, and which servers it has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from twopipes._host.files.formats import Language, language_of, read
from twopipes._host.files.host_table import HOSTS, OTHER_HOSTS, Host, Machine
from twopipes._host.files.reading import READING
from twopipes._host.files.values import found_at
from twopipes.errors import ConfigError

_ALL = HOSTS | OTHER_HOSTS
# The types of the extensions that are built into goose.
_BUILT_INTO_GOOSE = ("builtin", "platform", "frontend", "inline_python")
# Members that only a server has.
_OF_A_SERVER = {"type", "command", "url", "enabled", "disabled"}


class HostDocument(NamedTuple):
    """A configuration file, as it was read."""

    file: str  # as it was given
    host: str  # a key of the table of hosts
    servers: dict[str, Any]
    disabled: frozenset[str]  # servers that another member switches off


def read_document(file: str | os.PathLike[str], host: str | None = None) -> HostDocument:
    """Read a file and find its servers.

    Args:
        file: The path; ``~`` is the home folder.
        host: A name of the table of hosts. By default the path decides, if the file has servers where that host keeps them, or else
            the member that has servers. ``mcpServers`` in a file that no host uses is the form of twopipes.

    Raises:
        ConfigError: The file cannot be read, or has no servers.
    """
    name = os.fspath(file)
    if host is not None and host not in _ALL:
        raise ConfigError(f"unknown host {host!r}; known hosts: {', '.join(_ALL)}")
    language = _language(name) if host in (None, "generic") else _ALL[host].language
    document = _document(name, language)
    for candidate in [host] if host is not None else _candidates(name, document, language):
        servers = _servers(document, candidate)
        if servers:
            return HostDocument(name, candidate, servers, frozenset(_disabled(document, candidate, servers)))
    where = ".".join(_ALL[host].place if host is not None else ("mcpServers",))
    raise ConfigError(f'{name} has no servers; it needs {{"{where}": {{"NAME": {{"command": "...", "args": [...]}}}}}}')


def _language(file: str) -> Language:
    """Return the language of a file whose host is not known."""
    return _ALL["openclaw"].language if Path(file).name == "openclaw.json" else language_of(file)


def _document(file: str, language: Language) -> Any:
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: there is no home folder
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8" if isinstance(error, ValueError) else error
        raise ConfigError(f"{file} cannot be read: {why}") from error
    try:
        return read(text, language)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid {language}: {error}") from error
    except ConfigError as error:  # a package is missing
        raise ConfigError(f"{file}: {error}") from error


def _candidates(file: str, document: Any, language: Language) -> Iterator[str]:
    """Yield the hosts that the file may belong to, the most likely first."""
    by_path = sorted(_matches(file, Machine.this()), key=lambda match: -match[0])  # stable: then in the order of the table
    yield from (name for _, name in by_path if _ALL[name].language == language)
    yield from ("generic", "zed", "amp", "vscode")
    if language == "TOML":
        yield "codex"
    if language == "YAML":
        yield from ("hermes", "goose")
    entries = found_at(document, ("mcp", "servers"))
    has_lists = isinstance(entries, dict) and any(isinstance(_member(each, "command"), list) for each in entries.values())
    yield from ("opencode-2", "openclaw") if has_lists else ("openclaw", "opencode-2")
    yield "opencode"


def _matches(file: str, machine: Machine) -> Iterator[tuple[int, str]]:
    """Yield the hosts whose files have this path, with the number of its parts that match."""
    full = Path(file).expanduser().absolute()
    for name, host in _ALL.items():
        if host.user is not None and str(host.file("user", machine)) == str(full):
            yield len(full.parts), name
        for tail in _tails(host):
            parts = PurePosixPath(tail).parts
            if full.parts[-len(parts) :] == parts:
                yield len(parts), name


def _tails(host: Host) -> Iterator[str]:
    """Yield the ends of the paths of a host's files, without placeholders."""
    for path in (host.user, host.project, *host.also_read, *host.elsewhere.values()):
        if path is None:
            continue
        inside, _, tail = path.partition("}/") if path.startswith("{") else ("", "", path)
        default = inside.partition("|")[2]
        tail = tail if default in {"", "."} else f"{default}/{tail}"
        yield tail
        yield from (str(PurePosixPath(tail).with_name(other)) for other in host.others)


def _servers(document: Any, host: str) -> dict[str, Any]:
    """Return the servers that a host finds in a document; none if it does not look like a document of the host."""
    place = _ALL[host].place
    servers = _named(found_at(document, place))
    if host == "copilot" and not servers and _has_only_servers(document):
        servers = document  # without mcpServers around them
    elif host == "goose":
        servers = {name: each for name, each in servers.items() if _member(each, "type") not in _BUILT_INTO_GOOSE}
    elif place[0] == "mcp" and not all(isinstance(each, dict) and each.keys() & _OF_A_SERVER for each in servers.values()):
        return {}  # hosts keep other settings there too
    elif host == "opencode" and "servers" in servers and not servers["servers"].keys() & {"type", "command", "url"}:
        return {}
    for place_of_project in project_places(document, host):
        servers |= _named(found_at(document, place_of_project))
    return servers


def _has_only_servers(document: Any) -> bool:
    servers = document.values() if isinstance(document, dict) else ()
    return bool(servers) and all(isinstance(each, dict) and each.keys() & {"command", "url"} for each in servers)


def project_places(document: Any, host: str) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to the servers of the current folder in the file of a user. Only Claude Code has such servers."""
    if host == "claude-code":
        place = ("projects", _project_key(document), "mcpServers")
        if found_at(document, place):
            yield place


def _named(servers: Any) -> dict[str, Any]:
    """Return servers by name. In YAML, a name can look like a number."""
    return {str(name): content for name, content in servers.items()} if isinstance(servers, dict) else {}


def _project_key(document: Any) -> str:
    """Return the key of the settings that Claude Code keeps for the current folder: its path, or that of its repository."""
    projects = found_at(document, ("projects",))
    folder = Path.cwd()
    for each in (folder, *folder.parents):
        for spelling in (str(each), each.as_posix()):  # on Windows the key may have slashes
            if isinstance(projects, dict) and spelling in projects:
                return spelling
        if (each / ".git").exists():
            break
    return str(folder)


def _disabled(document: Any, host: str, servers: Sequence[str] | Mapping[str, Any]) -> Iterator[str]:
    """Yield the servers that a list of the document switches off."""
    reading = READING[host]
    excluded = found_at(document, reading.excluded) if reading.excluded else None
    if host == "claude-code":
        excluded = found_at(document, ("projects", _project_key(document), "disabledMcpServers"))
    allowed = found_at(document, reading.allowed) if reading.allowed else None
    patterns = reading.lists_have_patterns
    for name in servers:
        is_allowed = not isinstance(allowed, list) or _is_in(name, allowed, patterns=patterns) or not (allowed or patterns)
        if not is_allowed or (isinstance(excluded, list) and _is_in(name, excluded, patterns=patterns)):
            yield name


def _is_in(name: str, listed: Sequence[Any], *, patterns: bool) -> bool:
    """Return whether a list of names, or of patterns, has a name."""
    return any(name == each or (patterns and isinstance(each, str) and fnmatchcase(name, each)) for each in listed)


def _member(content: Any, key: str) -> Any:
    return content.get(key) if isinstance(content, dict) else None
