"""Three tools instead of hundreds: a model searches the tools of a hub, reads the definition of one, and calls it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Final

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec import json as msgspec_json

from twopipes._gateway.hub.member import Member
from twopipes._gateway.hub.search import SearchIndex, ToolText
from twopipes._gateway.hub.server import HubServer
from twopipes._gateway.translate import decode_members
from twopipes._protocol.types import CallToolResult, Result, TextContent, ToolAnnotations
from twopipes._server.context import Context
from twopipes.errors import NotFound, ToolError

_DEFAULT_LIMIT: Final = 8
_MAX_LIMIT: Final = 50
# Characters of a description in a result of a search. The whole text is in the definition.
_MAX_LINE: Final = 200
# Bytes of a definition. A longer one would use up the context of a model; what it returns is left out first.
_MAX_DEFINITION: Final = 64 * 1024
# Members of a tool that help a model to call it. Icons, for example, are for people.
_SHOWN: Final = ("name", "title", "description", "inputSchema", "annotations", "outputSchema")
# Servers that are named if nothing was found.
_MAX_SERVERS: Final = 50

_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SEARCH: Final = """\
Search the tools of all connected servers. Use this first: the tools are not listed otherwise. Returns the names and short \
descriptions of the tools that fit best, best first. If none fits, search again with other words."""
_DESCRIBE: Final = "Get the full description and the parameters (JSON Schema) of a tool that search_tools found."
_CALL: Final = """\
Call a tool that search_tools found, and return its result. Get its parameters from describe_tool first."""

ToolName = Annotated[str, Meta(description="The name of the tool, as search_tools returned it.")]


class FoundTool(Struct, frozen=True):
    """A tool that fits a query."""

    name: str
    description: str


class Found(Struct, frozen=True, omit_defaults=True):
    """The result of a search. ``note`` is for what the model should know about it."""

    tools: list[FoundTool]
    note: str = ""


class _Call(Struct):
    name: str
    arguments: Raw = Raw(b"{}")


class SearchTools:
    """Adds the three tools to a hub, and takes those of its servers out of the list. They can still be called by name."""

    def __init__(self, hub: HubServer) -> None:
        self._hub = hub
        self._index: SearchIndex | None = None
        self._lines: dict[str, str] = {}
        self._version = 0
        hub.catalogue.hides_tools = True
        hub.on_state.append(self._forget)
        hub.add_tool(self.search_tools, description=_SEARCH, annotations=_READS)
        hub.add_tool(self.describe_tool, description=_DESCRIBE, annotations=_READS)
        hub.add_tool(self.call_tool, description=_CALL)
        hub.handlers["call_tool"] = self._pass_on

    # The tools

    async def search_tools(
        self,
        query: Annotated[str, Meta(description="A few words for what the tool should do, such as: create github issue.")],
        limit: Annotated[int, Meta(description="How many tools to return.", ge=1, le=_MAX_LIMIT)] = _DEFAULT_LIMIT,
    ) -> Found:
        """Search the tools."""
        await self._hub.until_listed()
        index = await self._current()
        names = [name for name in index.search(query, limit) if name in self._lines]
        return Found([FoundTool(name, self._lines[name]) for name in names], self._note(is_empty=not names))

    async def describe_tool(self, name: ToolName, ctx: Context) -> str:
        """Return the definition of a tool."""
        await self._known(name)
        raw = self._hub.catalogue.tool(name, ctx.call.dialect)
        if raw is None:  # removed meanwhile, or inexpressible in the host's revision
            raise ToolError(f"the tool {name} is not available any more; use search_tools again")
        members = msgspec_json.decode(raw, type=dict[str, Raw])
        shown = {member: members[member] for member in _SHOWN if member in members}
        if sum(len(bytes(value)) for value in shown.values()) > _MAX_DEFINITION:
            shown.pop("outputSchema", None)
        text = msgspec_json.encode(shown).decode()
        if len(text) > _MAX_DEFINITION:
            raise ToolError(f"the definition of {name} is too long to show ({len(text):,} characters)")
        return text

    def call_tool(
        self,
        name: ToolName,
        arguments: Annotated[dict[str, Any] | None, Meta(description="The arguments of the tool, as its inputSchema says.")] = None,
    ) -> None:
        """Describe the third tool. Its calls are passed on by ``_pass_on``."""
        raise AssertionError("the hub passes these calls on")

    async def _pass_on(self, context: Context) -> Result:
        """Call a tool with the progress, the questions and the cancellation of the model's own call."""
        try:
            given = _read_call(decode_members(context.call.raw_params or b"{}").get("arguments"))
            await self._known(given.name)
        except ToolError as error:
            return CallToolResult([TextContent(str(error))], is_error=True)
        return await self._hub.call_tool(context, given.name, given.arguments)

    async def _known(self, name: str) -> None:
        try:
            await self._hub.find_tool(name)
        except NotFound as error:
            raise ToolError(f"{error.message}. Use search_tools to find the right name") from None

    # The index

    def _forget(self, _: Member) -> None:
        self._version += 1
        self._index = None

    async def _current(self) -> SearchIndex:
        """Return an index of the tools as they are now. It is built again after a change, when the next search needs it."""
        index = self._index
        if index is None:
            version, texts = self._version, list(self._texts())
            index = await asyncio.to_thread(SearchIndex, texts)  # thousands of tools take a while
            self._lines = {text.name: _line_of(text) for text in texts}
            if version == self._version:
                self._index = index
        return index

    def _texts(self) -> Iterator[ToolText]:
        for member in self._hub.members.values():
            raws = {item.key: item.raw for item in reversed(member.tools)}  # of two with one name the first is used
            for public, own in self._hub.catalogue.tools.names(member.name).items():
                if own in raws:
                    yield _text_of(public, raws[own])

    def _note(self, *, is_empty: bool) -> str:
        missing = self._hub.missing_tools()
        notes = [f"Servers that are not available: {', '.join(missing[:_MAX_SERVERS])}."] if missing else []
        if is_empty:
            servers = [f"{member.name} ({len(member.tools)})" for member in self._hub.members.values()][:_MAX_SERVERS]
            known = ", ".join(servers) or "none"
            notes.insert(0, f"No tool fits these words. Search with other words. Servers and how many tools they have: {known}.")
        return " ".join(notes)


def _read_call(raw: Raw | None) -> _Call:
    """Return the name and the arguments of a call. Some models write the arguments as a text that contains JSON."""
    try:
        call = msgspec_json.decode(b"{}" if raw is None else raw, type=_Call)
        arguments = msgspec_json.decode(call.arguments)
        if isinstance(arguments, str):
            call.arguments = Raw(arguments.encode())
            arguments = msgspec_json.decode(arguments)
        if arguments is None:
            call.arguments = Raw(b"{}")
        elif not isinstance(arguments, dict):
            raise ToolError("the arguments of call_tool must be an object with the arguments of the tool")
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise ToolError(f"call_tool needs the name of a tool and an object with its arguments: {error}") from None
    return call


def _text_of(public: str, raw: bytes) -> ToolText:
    """Return what is searched of a tool. A server may send anything."""
    try:
        tool = msgspec_json.decode(raw)
    except (DecodeError, UnicodeError, RecursionError):
        return ToolText(public)
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    title, description = (tool[each] if isinstance(tool.get(each), str) else "" for each in ("title", "description"))
    return ToolText(public, title, description, list(properties) if isinstance(properties, dict) else [])


def _line_of(text: ToolText) -> str:
    """Return the first line of a description, cut if it is long."""
    whole = " ".join((text.description or text.title).strip().partition("\n\n")[0].split())
    return whole if len(whole) <= _MAX_LINE else whole[: _MAX_LINE - 1] + "…"
