"""The file server.json, which describes a server to the MCP registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from twopipes._tools.pack.source import PackSource
from twopipes._tools.usage import UsageError

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
# The owner in the name that `twopipes new` writes.
PLACEHOLDER = "io.github.OWNER"
LABEL = "io.modelcontextprotocol.server.name"
_NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_LONGEST = 100  # characters of a title or a description


def server_json(source: PackSource, manifest: Mapping[str, Any], sha256: str) -> dict[str, Any]:
    """Return the content of server.json.

    Raises:
        UsageError: the name in the registry is missing or differs between files, or no package is known.
    """
    name = _registry_name(source)
    _check_readme(source, name)
    _check_dockerfile(source, name)
    members: dict[str, Any] = {
        "$schema": SCHEMA,
        "name": name,
        "title": manifest.get("display_name"),
        "description": _shortened(str(manifest["description"])),
        "version": manifest["version"],
        "websiteUrl": manifest.get("homepage"),
        "repository": _repository(manifest),
        "packages": _packages(source, manifest, sha256),
    }
    return {member: value for member, value in members.items() if value is not None}


def _registry_name(source: PackSource) -> str:
    name = source.settings.registry_name
    if name is None or name.startswith(f"{PLACEHOLDER}/"):
        raise UsageError(
            "the name of the server in the registry is not known; "
            'set registry-name = "io.github.YOU/NAME" in [tool.twopipes.pack] of pyproject.toml, or give --registry-name'
        )
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name for the registry; write it as io.github.YOU/NAME")
    return name


def _check_readme(source: PackSource, name: str) -> None:
    """The registry accepts a PyPI package if its README has the name of the server, which only its author can write there."""
    if not source.is_project:
        return
    readme = source.project.get("readme", "README.md")
    path = source.folder / (readme if isinstance(readme, str) else str(readme.get("file", "README.md")))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        text = ""
    if not re.search(rf"mcp-name:\s*{re.escape(name)}(?=[\s<]|-->|$)", text):
        raise UsageError(f"{path} does not contain the name of the server; add the line <!-- mcp-name: {name} -->")


def _check_dockerfile(source: PackSource, name: str) -> None:
    path = source.folder / "Dockerfile"
    if source.settings.image is None or not path.is_file():
        return
    if f'{LABEL}="{name}"' not in path.read_text(encoding="utf-8"):
        raise UsageError(f'{path} does not name the server; add the line LABEL {LABEL}="{name}"')


def _packages(source: PackSource, manifest: Mapping[str, Any], sha256: str) -> list[dict[str, Any]]:
    settings, version = source.settings, str(manifest["version"])
    stdio = {"type": "stdio"}
    found: list[dict[str, Any]] = []
    if source.is_project:
        found.append(
            {"registryType": "pypi", "identifier": source.name, "version": version, "runtimeHint": "uvx", "transport": stdio}
        )
    if settings.bundle_url:
        url = settings.bundle_url.replace("{version}", version)
        found.append({"registryType": "mcpb", "identifier": url, "fileSha256": sha256, "transport": stdio})
    if settings.image:
        found.append({"registryType": "oci", "identifier": settings.image.replace("{version}", version), "transport": stdio})
    if not found:
        raise UsageError("server.json needs a package; give the address of the bundle with --bundle-url")
    variables = _variables(settings.env, settings.user_config)
    return [{**package, **({"environmentVariables": variables} if variables else {})} for package in found]


def _variables(env: Mapping[str, str], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the variables that the user must set, from those that a bundle fills with answers of the user."""
    found = []
    for variable, value in env.items():
        asked = re.fullmatch(r"\$\{user_config\.([^}]*)\}", value)
        option = options.get(asked[1]) if asked else None
        if option is None:
            continue
        entry: dict[str, Any] = {"name": variable, "description": option.description}
        if option.required:
            entry["isRequired"] = True
        if option.sensitive:
            entry["isSecret"] = True
        found.append(entry)
    return found


def _repository(manifest: Mapping[str, Any]) -> dict[str, str] | None:
    url = manifest.get("repository", {}).get("url")
    if not url:
        return None
    for host in ("github", "gitlab"):
        if f"{host}.com" in url:
            return {"url": url, "source": host}
    return None  # the registry knows only these two


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3].rstrip() + "..."
