"""The tools of all servers of a group: which are offered, under which names, and which differ from what was approved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twopipes._host.approval import Approvals, ToolChange
from twopipes._host.config import ServerConfig
from twopipes._host.filters import ToolFilter
from twopipes._host.group_server import GroupServer
from twopipes._host.group_tool import GroupTool
from twopipes._host.names import NameProblem, NameTable, shown
from twopipes._protocol.types import Tool
from twopipes.errors import CallDenied, LocalProtocolError


class GroupTools:
    """Finds tools by name, and reports changed tools and confusing names, each once."""

    def __init__(
        self,
        servers: Mapping[str, GroupServer],
        names: NameTable,
        chosen: ToolFilter | None,
        approvals: Approvals,
        *,
        on_change: Callable[[ToolChange], None],
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

    def replace(self, server: GroupServer, tools: Sequence[Tool]) -> bool:
        """Replace the tools of a server. Return whether anything changed."""
        allowed = self._allowed(server, tools)
        by_name: dict[str, Tool] = {}
        for tool in allowed:
            by_name.setdefault(tool.name, tool)
        self.names.replace(server.name, [tool.name for tool in allowed])
        listed = {public: by_name[name] for public, name in self.names.names(server.name).items()}
        before, server.offered = server.offered, self.approvals.check(server.name, listed, server.offered)
        self.warn()
        self._report_changes(server)
        return list(server.offered.values()) != list(before.values())

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

    def _report_changes(self, server: GroupServer) -> None:
        reported = self._flagged.get(server.name, {})
        changed = {name: tool for name, tool in server.offered.items() if tool.changed}
        self._flagged[server.name] = {name: tool.fingerprint for name, tool in changed.items()}
        for name, tool in changed.items():
            if reported.get(name) != tool.fingerprint:
                self._on_change(self.approvals.change(tool))


def unknown(kind: str, name: str, names: NameTable, servers: Mapping[str, GroupServer]) -> str:
    """Describe a name that does not exist: similar names, and servers whose names may be missing."""
    similar = names.suggestions(name)
    failed = [each.name for each in servers.values() if each.problem is not None]
    hint = f"; similar names: {', '.join(similar)}" if similar else ""
    return f"there is no {kind} {shown(name)} in the group{hint}" + (
        f"; servers with problems: {', '.join(failed)}" if failed else ""
    )
