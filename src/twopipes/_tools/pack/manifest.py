"""The manifest of a bundle, version 0.4."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from twopipes._tools.pack.source import PackSource
from twopipes._tools.pack.wheels import Build
from twopipes._tools.usage import UsageError

MANIFEST_VERSION = "0.4"
ENTRY_POINT = "server/main.py"
# The names of systems in a manifest, by the first word of ours.
_PLATFORMS = {"linux": "linux", "macos": "darwin", "win": "win32"}
_SEMVER = re.compile(r"\d+(\.\d+){0,2}(?:[-+.]?[0-9A-Za-z.+-]*)?")
_VARIABLE = re.compile(r"\$\{user_config\.([^}]*)\}")
# Other members of [project.urls], by the names that people use for them.
_URLS = {
    "homepage": ("homepage", "home"),
    "documentation": ("documentation", "docs"),
    "support": ("issues", "bug tracker", "tracker", "support"),
}
_REPOSITORY = ("repository", "source", "source code", "github", "code")


class Learned(Struct, frozen=True, kw_only=True):
    """What the packed server said about itself when it was started."""

    version: str
    title: str | None
    tools: Sequence[tuple[str, str | None]]  # names and descriptions
    has_prompts: bool


def manifest_of(source: PackSource, wanted: Sequence[Build], learned: Learned | None) -> dict[str, Any]:
    """Return the manifest.

    Raises:
        UsageError: the version is not known, or an argument uses an option that is not declared.
    """
    settings = source.settings
    check_variables(settings.arguments, settings.env, settings.user_config)
    version = source.version or (learned.version if learned else None)
    if version is None or not _SEMVER.fullmatch(version):
        raise UsageError(f"the version of {source.name} must be like 1.0.0, not {version}; give it with --version")
    members: dict[str, Any] = {
        "manifest_version": MANIFEST_VERSION,
        "name": source.name,
        "display_name": settings.display_name or (learned.title if learned else None),
        "version": version,
        "description": source.description or f"The server {source.name}.",
        "long_description": settings.long_description,
        "author": source.author or {"name": "unknown"},
        **_links(source.project.get("urls", {})),
        "icon": settings.icon,
        "server": {"type": "python", "entry_point": ENTRY_POINT, "mcp_config": _command(settings.arguments, settings.env)},
        **_lists(learned),
        "keywords": list(source.project.get("keywords", ())),
        "license": source.project.get("license") if isinstance(source.project.get("license"), str) else None,
        "compatibility": {
            "platforms": sorted({_PLATFORMS[build.system.partition("-")[0]] for build in wanted}),
            "runtimes": {"python": f">={min((build.python for build in wanted), key=_number)}"},
        },
        "user_config": msgspec.to_builtins(settings.user_config),
    }
    return {name: value for name, value in members.items() if value not in (None, [], {})}


def check_variables(arguments: Sequence[str], env: Mapping[str, str], known: Mapping[str, Any]) -> None:
    """Reject ``${user_config.X}`` without an option X: a host would start the server with that text."""
    for text in (*arguments, *env.values()):
        for name in _VARIABLE.findall(text):
            if name not in known:
                raise UsageError(f"{text} uses the option {name}, which is not declared; add --ask {name}:string")


def _command(arguments: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    # Without -s a package in the user's home folder could hide one of the bundle's.
    words = ["-s", f"${{__dirname}}/{ENTRY_POINT}", *arguments]
    # Linux and macOS often have no `python`, and Windows has no `python3`.
    return {"command": "python3", "args": words, "env": dict(env), "platform_overrides": {"win32": {"command": "python"}}}


def _lists(learned: Learned | None) -> dict[str, Any]:
    if learned is None:
        return {"tools_generated": True, "prompts_generated": True}
    tools = [{"name": name, **({"description": text} if text else {})} for name, text in learned.tools]
    # A prompt in a manifest needs its text, which only a call of the server returns.
    return {"tools": tools, **({"prompts_generated": True} if learned.has_prompts else {})}


def _links(urls: Mapping[str, str]) -> dict[str, Any]:
    by_name = {name.lower(): url for name, url in urls.items()}
    found: dict[str, Any] = {}
    for member, names in _URLS.items():
        if (url := next((by_name[name] for name in names if name in by_name), None)) is not None:
            found[member] = url
    if (url := next((by_name[name] for name in _REPOSITORY if name in by_name), None)) is not None:
        found["repository"] = {"type": "git", "url": url}
    return found


def _number(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))
