"""The tools of all servers of a group: which are offered, under which names, and which differ from what was approved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from twopipes._host.approval import Approvals, ToolChange
from twopipes._host.config import ServerConfig
from twopipes._host.filters import ToolFilter
from twopipes._host.group_server import GroupServer
from twopipes._host.group_tool import GroupTool, fingerprint_of
from twopipes._host.names import NameProblem, NameTable, shown
from twopipes._protocol.types import Tool
from twopipes.errors import CallDenied, LocalProtocolError

# Tools that are compared before other tasks of the event loop run: about a millisecond.
_AT_ONCE = 250


class GroupTools:
    """Finds tools by name, and reports changed tools and confusing names, each once."""

    def __init__(
        self,
        servers: Mapping[str, GroupServer],
        names: NameTable,
        chosen: ToolFilter | None,
        approvals: Approvals,
        *,
        on_change: Callable[[ToolChange], None] | None,
        on_warning: Callable[[NameProblem], None],
    ) -> None:
        self.names = names
        self.approvals = approvals
        self._servers = servers
        self._filter = chosen
        self._on_change = on_change
        self._on_warning = on_warning
        self._warned: set[NameProblem] = set()
        self._flagged: dict[str, dict[str, str]] = {}  # by server: the fingerprint of each changed tool that was reported

    async def replace(self, server: GroupServer, tools: Sequence[Tool]) -> bool:
        """Replace the tools of a server. Return whether anything changed."""
        allowed = self._allowed(server, tools)
        by_name, fingerprints = await self._compared(server, allowed)
        if self._servers.get(server.name) is not server:
            return False  # it was removed meanwhile
        self.names.replace(server.name, [tool.name for tool in allowed])
        listed = {public: by_name[name] for public, name in self.names.names(server.name).items()}
        before, server.offered = server.offered, self.approvals.check(server.name, listed, server.offered, fingerprints)
        self.warn()
        is_changed = list(server.offered.values()) != list(before.values())
        await self._report_changes(server)
        return is_changed

    async def _compared(self, server: GroupServer, tools: Sequence[Tool]) -> tuple[dict[str, Tool], dict[str, str]]:
        """Return the tools by name, the old object where nothing changed, and the fingerprints; other tasks run in between."""
        known = {tool.tool.name: tool for tool in server.offered.values()}
        by_name: dict[str, Tool] = {}
        fingerprints: dict[str, str] = {}
        for number, tool in enumerate(tools, 1):
            if tool.name not in by_name:
                before = known.get(tool.name)
                if before is not None and before.tool == tool:
                    by_name[tool.name], fingerprints[tool.name] = before.tool, before.fingerprint
                else:
                    by_name[tool.name], fingerprints[tool.name] = tool, fingerprint_of(server.name, tool)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return by_name, fingerprints

    def get(self, name: str) -> GroupTool:
        """Return a tool. Raises ``LocalProtocolError`` with similar names if there is none."""
        tool = self._find(name)
        if tool is None:
            raise LocalProtocolError(unknown("tool", name, self.names, self._servers))
        return tool

    def accept(self, name: str) -> GroupTool:
        """Approve the current version of a tool."""
        tool = self.get(name)
        accepted = self._servers[tool.server].offered[name] = self.approvals.accept(tool)
        return accepted

    def check_approved(self, tool: GroupTool) -> None:
        """Refuse a call if the tool is no longer the one that the hook saw; otherwise note the approval."""
        if not self.approvals.has_hook:
            return
        current = self._find(tool.name)
        if current is None or current.fingerprint != tool.fingerprint:
            raise CallDenied(tool.server, tool.name, "the tool changed while the call waited for approval; call it again")
        self.accept(tool.name)

    def warn(self) -> None:
        """Report the problems of names that are new."""
        problems = self.names.problems()
        for problem in problems:
            if problem not in self._warned:
                self._on_warning(problem)
        self._warned = set(problems)

    def _find(self, name: str) -> GroupTool | None:
        found = self.names.find(name)
        return None if found is None else self._servers[found.server].offered.get(name)

    def _allowed(self, server: GroupServer, tools: Sequence[Tool]) -> list[Tool]:
        own = server.config.tools if isinstance(server.config, ServerConfig) else None
        filters = [each for each in (own, self._filter) if each is not None]
        return [tool for tool in tools if all(each.allows(tool) for each in filters)]

    async def _report_changes(self, server: GroupServer) -> None:
        if self._on_change is None:
            return
        changed = {name: tool for name, tool in server.offered.items() if tool.changed}
        known = self._flagged.get(server.name, {})
        # Noted one by one: if this is cancelled, the next list reports the rest.
        reported = self._flagged[server.name] = {name: known[name] for name in changed if name in known}
        for number, (name, tool) in enumerate(changed.items(), 1):
            if reported.get(name) != tool.fingerprint:
                reported[name] = tool.fingerprint
                self._on_change(self.approvals.change(tool))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)


def unknown(kind: str, name: str, names: NameTable, servers: Mapping[str, GroupServer]) -> str:
    """Describe a name that does not exist: similar names, and servers whose names may be missing."""
    similar = names.suggestions(name)
    failed = [each.name for each in servers.values() if each.problem is not None]
    hint = f"; similar names: {', '.join(similar)}" if similar else ""
    return f"there is no {kind} {shown(name)} in the group{hint}" + (
        f"; servers with problems: {', '.join(failed)}" if failed else ""
    )
