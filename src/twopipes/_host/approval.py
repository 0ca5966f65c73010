"""Who may call which tool: the approval hook, and the versions of tools that were approved."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec import json as msgspec_json

from twopipes._host.group_tool import COMPARED, GroupTool, fingerprint_of
from twopipes._protocol.types import Tool
from twopipes.errors import CallDenied, LocalProtocolError

# First versions of tools that one server lists no more. A server that invents new names all the time cannot fill the memory.
_MAX_UNLISTED = 20_000


class Allow(Struct, frozen=True):
    """The decision to make a call as it is."""


class Deny(Struct, frozen=True):
    """The decision not to make a call. ``reason`` is for the user and the model."""

    reason: str = ""


class Edit(Struct, frozen=True):
    """The decision to make a call with other arguments."""

    arguments: Mapping[str, Any]


Decision = Allow | Deny | Edit
Approve = Callable[[str, GroupTool, dict[str, Any]], Decision | Awaitable[Decision]]
"""Decides about a call: gets the name of the server, the tool and a copy of the arguments."""


class ToolChange(Struct, frozen=True, kw_only=True):
    """A tool that differs from the version that was approved.

    Attributes:
        server: The server.
        name: The tool's name in the group.
        before: The approved version; ``None`` if only its fingerprint is known, from an earlier run.
        after: The version that the server lists now.
        what: The attributes that differ, such as ``description``; empty if ``before`` is ``None``.
    """

    server: str
    name: str
    before: Tool | None
    after: Tool
    what: tuple[str, ...]


class _Version(Struct, frozen=True):
    fingerprint: str
    tool: Tool | None  # None if it is from an earlier run


class Approvals:
    """The approved version of each tool: the one that was first seen, until a call or the host approves another."""

    def __init__(self, approve: Approve | None, approved: Mapping[str, str]) -> None:
        self._approve = approve
        self._explicit = {name: _Version(fingerprint, None) for name, fingerprint in approved.items()}
        self._seen: dict[str, dict[str, _Version]] = {}  # by server: the first versions

    @property
    def has_hook(self) -> bool:
        """Whether calls need an approval."""
        return self._approve is not None

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of the approved version of each tool."""
        seen = {name: version.fingerprint for versions in self._seen.values() for name, version in versions.items()}
        return seen | {name: version.fingerprint for name, version in self._explicit.items()}

    def check(
        self,
        server: str,
        listed: Mapping[str, Tool],
        before: Mapping[str, GroupTool],
        fingerprints: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, GroupTool]:
        """Return the tools of a server, each flagged if it is not the approved version. New ones count as approved.

        Args:
            server: The server.
            listed: Its tools, by their names in the group.
            before: The same before the list changed; unchanged tools are reused.
            fingerprints: Those that are known already, by the own names of the tools.
        """
        seen = self._seen.setdefault(server, {})
        tools = {}
        for name, tool in listed.items():
            known = before.get(name)
            if known is None or (known.tool is not tool and known.tool != tool):
                fingerprint = fingerprints.get(tool.name) or fingerprint_of(server, tool)
                known = GroupTool(name=name, server=server, tool=tool, fingerprint=fingerprint)
            version = self._explicit.get(name) or seen.get(name)
            if version is None:
                version = seen[name] = _Version(known.fingerprint, tool)
            changed = version.fingerprint != known.fingerprint
            tools[name] = known if known.changed == changed else _flagged(known, changed=changed)
        self._forget(seen, listed)
        return tools

    def change(self, tool: GroupTool) -> ToolChange:
        """Describe how a tool differs from the approved version."""
        version = self._explicit.get(tool.name) or self._seen[tool.server][tool.name]
        before, after = version.tool, tool.tool
        what = () if before is None else tuple(name for name in COMPARED if getattr(before, name) != getattr(after, name))
        return ToolChange(server=tool.server, name=tool.name, before=before, after=after, what=what)

    def accept(self, tool: GroupTool) -> GroupTool:
        """Approve this version of a tool, and return it without a flag."""
        self._explicit[tool.name] = _Version(tool.fingerprint, tool.tool)
        return _flagged(tool, changed=False)

    async def decide(self, tool: GroupTool, arguments: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Ask the hook about a call, and return the arguments to send.

        Raises:
            CallDenied: The hook denied the call, failed, or returned something else.
        """
        if self._approve is None:
            return arguments
        sent = _copied(tool.name, arguments)  # what was approved is sent, also if the caller changes its object meanwhile
        try:
            decision: object = self._approve(tool.server, tool, _copied(tool.name, sent))
            if inspect.isawaitable(decision):
                decision = await decision
        except Exception as error:
            raise CallDenied(tool.server, tool.name, f"the approval hook failed: {error!r}") from error
        match decision:
            case Allow():
                return None if arguments is None else sent
            case Edit():
                return _copied(tool.name, decision.arguments)
            case Deny():
                raise CallDenied(tool.server, tool.name, decision.reason)
        raise CallDenied(
            tool.server, tool.name, f"the approval hook must return Allow(), Deny(...) or Edit(...), but returned {decision!r}"
        )

    def _forget(self, seen: dict[str, _Version], listed: Iterable[str]) -> None:
        """Forget the oldest of the tools that are listed no more, if there are too many of them."""
        current = set(listed)
        if len(seen) - len(current) > _MAX_UNLISTED:
            unlisted = [name for name in seen if name not in current]
            for name in unlisted[: len(unlisted) - _MAX_UNLISTED]:
                del seen[name]


def _flagged(tool: GroupTool, *, changed: bool) -> GroupTool:
    return GroupTool(name=tool.name, server=tool.server, tool=tool.tool, fingerprint=tool.fingerprint, changed=changed)


def _copied(tool: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of arguments as they are sent: plain JSON values."""
    try:
        return msgspec_json.decode(msgspec_json.encode(arguments or {}), type=dict[str, Any])
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"the arguments of {tool} cannot be written as JSON: {error}") from error
