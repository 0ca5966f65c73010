"""What a gateway knows about the tools of the server behind it, from the lists that passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import DecodeError, Raw, Struct
from msgspec import json as msgspec_json
from msgspec.json import Decoder

from twopipes._protocol.types import ToolAnnotations

# The keyword of a schema that asks for a header. A gateway without HTTP does not load its module.
_ANNOTATION: Final = b'"x-mcp-header"'
# Pages that wait to be read: most are never needed.
_MAX_PAGES: Final = 64
# Tools that are remembered. A server with more is not one that a model can use.
_MAX_TOOLS: Final = 10_000


class _Tool(Struct, rename="camel"):
    name: str = ""
    annotations: ToolAnnotations | None = None
    input_schema: Raw = Raw(b"null")


class _Page(Struct):
    tools: list[_Tool] = []


class _Known(Struct):
    annotations: ToolAnnotations | None
    schema: bytes | None  # if it asks for headers
    decoded: Mapping[str, Any] | None = None


_decode_page = Decoder(_Page).decode


class KnownTools:
    """The tools as hosts saw them: their annotations tell which calls are safe to repeat, their schemas which have headers.

    Several hosts may read the list at once, each page by page, so a page changes only what is known about its own tools.
    """

    def __init__(self) -> None:
        self._unread: list[Raw] = []
        self._known: dict[str, _Known] = {}

    def add(self, page: Raw) -> None:
        """Add a page of the list. It is read when it is needed."""
        if len(self._unread) >= _MAX_PAGES:
            self._read()
        self._unread.append(page)

    def annotations_of(self, name: str) -> ToolAnnotations | None:
        """Return the annotations of a tool, if they are known."""
        tool = self._find(name)
        return None if tool is None else tool.annotations

    def header_schema_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, if it asks for headers. The object is the same until the schema changes."""
        tool = self._find(name)
        if tool is None or tool.schema is None:
            return None
        if tool.decoded is None:
            tool.decoded = msgspec_json.decode(tool.schema)
        return tool.decoded

    def _find(self, name: str) -> _Known | None:
        if self._unread:
            self._read()
        return self._known.get(name)

    def _read(self) -> None:
        pages, self._unread = self._unread, []
        for page in pages:
            try:
                tools = _decode_page(page).tools
            except (DecodeError, RecursionError):
                continue  # without annotations, a call is not safe to repeat
            if len(self._known) + len(tools) > _MAX_TOOLS:
                self._known.clear()
            for tool in tools[:_MAX_TOOLS]:
                self._learn(tool)

    def _learn(self, tool: _Tool) -> None:
        schema = bytes(tool.input_schema)  # a copy: the raw one would keep the whole page in memory
        wanted = schema if _ANNOTATION in schema else None
        known = self._known.get(tool.name)
        if known is not None and known.schema == wanted:
            known.annotations = tool.annotations
        else:
            self._known[tool.name] = _Known(tool.annotations, wanted)
