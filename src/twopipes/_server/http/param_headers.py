"""The headers that the tools of a server ask for with ``x-mcp-header`` in their input schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twopipes._http.headers import InvalidAnnotation, ParamHeader, param_headers
from twopipes._server.log import logger

if TYPE_CHECKING:
    from twopipes._server.app import Server


class ToolHeaders:
    """Looks up the headers of a tool. Each tool is examined once."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._known: dict[str, tuple[Mapping[str, Any], tuple[ParamHeader, ...]]] = {}

    def of(self, name: Any) -> tuple[ParamHeader, ...]:
        """Return the headers that a call of the tool must repeat; none for an unknown tool."""
        schema = self._server._input_schema(name) if isinstance(name, str) else None
        if schema is None:
            return ()
        known = self._known.get(name)
        if known is None or known[0] is not schema:  # another tool may have taken the name
            known = self._known[name] = (schema, _read(name, schema))
        return known[1]


def _read(name: str, schema: Mapping[str, Any]) -> tuple[ParamHeader, ...]:
    try:
        return param_headers(schema)
    except InvalidAnnotation as error:
        # A client leaves such a tool out. One that calls it anyway must not fail on a header that it cannot know.
        logger.warning("the tool %r cannot be called over HTTP by most clients: %s", name, error)
        return ()
