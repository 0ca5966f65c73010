"""The headers that the tools of a server ask for with ``x-mcp-header`` in their input schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twopipes._http.headers import InvalidAnnotation, ParamHeader, param_headers
from twopipes._server.log import logger

if TYPE_CHECKING:
    from twopipes._server.app import Server
    from twopipes._server.tools import ToolEntry


class ToolHeaders:
    """Looks up the headers of a tool. Each tool is examined once."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._known: dict[str, tuple[ToolEntry, tuple[ParamHeader, ...]]] = {}

    def of(self, name: Any) -> tuple[ParamHeader, ...]:
        """Return the headers that a call of the tool must repeat; none for an unknown tool."""
        entry = self._server.tools.entries.get(name) if isinstance(name, str) else None
        if entry is None:
            return ()
        known = self._known.get(name)
        if known is None or known[0] is not entry:  # another tool may have taken the name
            known = self._known[name] = (entry, _read(entry))
        return known[1]


def _read(entry: ToolEntry) -> tuple[ParamHeader, ...]:
    try:
        return param_headers(entry.tool.input_schema)
    except InvalidAnnotation as error:
        # A client leaves such a tool out. One that calls it anyway must not fail on a header that it cannot know.
        logger.warning("the tool %r cannot be called over HTTP by most clients: %s", entry.tool.name, error)
        return ()
