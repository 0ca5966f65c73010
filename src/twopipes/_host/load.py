"""``load()``: the servers of a configuration file, as the host that it belongs to would start them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twopipes._host.config import ServerConfig
from twopipes._host.files.entries import Entry
from twopipes._host.files.expansion import Scope
from twopipes._host.files.host_table import HOSTS, OTHER_HOSTS
from twopipes._host.files.reading import READING
from twopipes._host.files.recognition import HostDocument, read_document
from twopipes.errors import ConfigError, LocalProtocolError

# Folders of hosts inside a project. The project is their parent.
_HOST_FOLDERS = {
    Path(host.project).parts[0] for host in (HOSTS | OTHER_HOSTS).values() if host.project is not None and "/" in host.project
}


def load(
    file: str | os.PathLike[str],
    *,
    host: str | None = None,
    names: Iterable[str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> dict[str, ServerConfig]:
    """Read the servers of a configuration file.

    References to variables are expanded as the host does it. A server that cannot be used, because a variable is not set, for
    example, is in the result with a ``problem``, and does not keep the others from being used.

    Args:
        file: The file of a host, such as ``~/.claude.json``, ``.mcp.json`` or ``~/.codex/config.toml``, or one of your own.
        host: The host that it belongs to, by its name in ``twopipes install --list``; also ``hermes``, ``omp``, ``openclaw`` and
            ``pi``. By default the path and the content of the file decide. ``generic`` is the form of twopipes.
        names: Return only these servers.
        inputs: Answers to the questions of VS Code, by their ids: values of ``${input:ID}``.

    Returns:
        The servers by name, in the order of the file.

    Raises:
        ConfigError: The file cannot be read, has no servers, or has no server with one of the names.
    """
    found = read_document(file, host)
    wanted = list(found.servers) if names is None else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in found.servers:
            raise ConfigError(f"{found.file} has no server {name!r}; known servers: {', '.join(found.servers)}")
    scope = _scope(found, inputs or {})
    return {name: _config(name, found, scope) for name in found.servers if name in wanted}


def _scope(found: HostDocument, inputs: Mapping[str, str]) -> Scope:
    folder = Path(found.file).expanduser().absolute().parent
    return Scope(os.environ, folder, folder.parent if folder.name in _HOST_FOLDERS else folder, inputs)


def _config(name: str, found: HostDocument, scope: Scope) -> ServerConfig:
    """Return the configuration of one server, or one with a problem."""
    content, where = found.servers[name], f"{found.file}: server {name!r}"
    given: dict[str, Any] = {"source": str(Path(found.file).expanduser().absolute())}
    if not isinstance(content, dict):
        return ServerConfig(**given, problem=f"{where} must be an object with a command")
    entry = Entry(content, READING[found.host], scope)
    given["enabled"] = entry.enabled and name not in found.disabled
    try:
        return ServerConfig(**given, **entry.arguments())
    except ConfigError as error:
        return ServerConfig(**given, problem=f"{where} {error}")
    except (LocalProtocolError, ValueError) as error:
        return ServerConfig(**given, problem=f"{where}: {error}")
