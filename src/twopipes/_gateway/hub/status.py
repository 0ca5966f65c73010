"""The state of a hub's servers as resources, for hosts and for people who look for a fault."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from msgspec import json as msgspec_json

from twopipes._gateway.hub.catalogue import OWN_URIS
from twopipes._gateway.hub.member import Member
from twopipes._gateway.hub.server import HubServer
from twopipes._host.config import ServerConfig
from twopipes._process.command import ServerCommand
from twopipes.errors import NotFound, TwopipesError

ALL_SERVERS: Final = f"{OWN_URIS}servers"
"""The resource about all servers."""
ONE_SERVER: Final = f"{ALL_SERVERS}/{{name}}"
"""The template of the resources about one server."""
# Seconds in which changes count as one: a server that starts changes several times.
_PAUSE: Final = 0.2
# Bounds of what a server wrote, in lines and in characters.
_MAX_LINES: Final = 20
_MAX_LINE: Final = 500
_MAX_ERROR: Final = 2000


class StatusResources:
    """Adds the resources to a hub, and announces changes to hosts that subscribed to them.

    They contain neither commands nor variables, because these may contain secrets.
    """

    def __init__(self, hub: HubServer) -> None:
        self._hub = hub
        self._changed: set[str] = set()
        hub.on_state.append(self._announce_soon)
        hub.add_resource(
            ALL_SERVERS,
            self._all,
            name="hub-servers",
            title="Servers of this hub",
            description="The state of each server behind this hub: whether it is ready, what it offers, and its last error.",
            mime_type="application/json",
        )
        hub.add_resource(
            ONE_SERVER,
            self._one,
            name="hub-server",
            title="A server of this hub",
            description="The state of one server behind this hub, and the last lines that it wrote to stderr.",
            mime_type="application/json",
        )
        hub.add_completion(ONE_SERVER, "name", self._suggest)

    async def _all(self) -> str:
        return _json({"servers": [_summary(member) for member in self._hub.members.values()]})

    async def _one(self, name: str) -> str:
        member = self._hub.members.get(name)
        if member is None:
            known = ", ".join(map(repr, self._hub.members)) or "none"
            uri = uri_of(name)
            raise NotFound("resource", uri, message=f"this hub has no server {name!r}; servers: {known}", data={"uri": uri})
        lines = () if member.back is None else member.back.stderr[-_MAX_LINES:]
        return _json({**_summary(member), "stderr": [line[:_MAX_LINE] for line in lines]})

    async def _suggest(self, typed: str) -> list[str]:
        return [name for name in self._hub.members if name.startswith(typed)]

    def _announce_soon(self, member: Member) -> None:
        if not self._changed:
            asyncio.get_running_loop().call_later(_PAUSE, self._announce)
        self._changed |= {ALL_SERVERS, uri_of(member.name)}

    def _announce(self) -> None:
        changed, self._changed = self._changed, set()
        for uri in sorted(changed):
            self._hub.notify_resource_updated(uri)


def uri_of(name: str) -> str:
    """Return the URI of the resource about one server."""
    return f"{ALL_SERVERS}/{quote(name, safe='')}"


def _summary(member: Member) -> dict[str, Any]:
    """Describe a server. Members that do not apply are left out."""
    back, opened = member.back, member.opened
    counts = {kind: len(member.offered(f"{kind}/list")) for kind in ("tools", "prompts", "resources")}
    found: dict[str, Any] = {
        "name": member.name,
        "uri": uri_of(member.name),
        "state": member.state,
        "since": datetime.fromtimestamp(member.since, UTC).isoformat(timespec="seconds"),
        "error": _error_of(member, member.problem),
        "server": None if opened is None or opened.server_info is None else opened.server_info.name[:_MAX_LINE],
        "revision": None if opened is None else opened.revision,
        **counts,
    }
    if back is not None:
        calls = {"running": len(back.calls), "total": back.calls_total}
        found |= {"pid": back.pid, "restarts": back.restarts, "calls": calls, "lastError": _error_of(member, back.last_error)}
    return {key: value for key, value in found.items() if value is not None}


def _error_of(member: Member, error: TwopipesError | None) -> str | None:
    """Return the text of an error, bounded, and without the arguments of the server's command."""
    if error is None:
        return None
    text = member.describe(error)
    if isinstance(member.config, ServerConfig) and member.config.command:
        text = text.replace(ServerCommand(member.config.command).describe(), member.config.command[0])
    return text[:_MAX_ERROR]


def _json(value: Any) -> str:
    return msgspec_json.format(msgspec_json.encode(value), indent=2).decode()
