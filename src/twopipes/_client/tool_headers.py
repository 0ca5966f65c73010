"""The headers that tools ask for with ``x-mcp-header`` in their input schemas, learned from the lists of tools."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec import DecodeError, Raw, structs
from msgspec import json as msgspec_json

from twopipes._http.headers import NAME_MEMBERS, InvalidAnnotation, ParamHeader, param_headers, request_headers
from twopipes._protocol.decode import read
from twopipes._protocol.types import ListToolsResult, Params

_decode_members = msgspec_json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec_json.Decoder(list[Raw]).decode
_log = logging.getLogger("twopipes.client")


class ToolHeaders:
    """The headers of the tools of one server, by name. They outlive a connection."""

    def __init__(self) -> None:
        self._by_tool: dict[str, tuple[ParamHeader, ...]] = {}

    def learn(self, page: ListToolsResult) -> ListToolsResult:
        """Learn the headers of the tools on a page. Return it without the tools whose annotations are invalid."""
        tools = []
        for tool in page.tools:
            self._by_tool.pop(tool.name, None)
            try:
                headers = param_headers(tool.input_schema)
            except InvalidAnnotation as error:
                _log.warning("the tool %.200r is left out, because its input schema is invalid over HTTP: %s", tool.name, error)
                continue
            if headers:
                self._by_tool[tool.name] = headers
            tools.append(tool)
        return page if len(tools) == len(page.tools) else structs.replace(page, tools=tools)

    def learn_raw(self, page: Raw) -> Raw:
        """Do the same for a page as received, which keeps its unknown members."""
        try:
            typed = read(ListToolsResult, page)
        except (DecodeError, RecursionError):
            return page  # the reader reports what is wrong
        learned = self.learn(typed)
        if learned is typed:
            return page
        kept = {id(tool) for tool in learned.tools}
        members: dict[str, Any] = dict(_decode_members(page))
        raws = _decode_list(members["tools"])
        members["tools"] = [raw for raw, tool in zip(raws, typed.tools, strict=True) if id(tool) in kept]
        return Raw(msgspec_json.encode(members))

    def headers_of(self, method: str, params: Params | Mapping[str, Any] | None, version: str) -> dict[str, str]:
        """Return the headers that repeat parts of a request.

        Raises:
            LocalProtocolError: An argument for a header is a number that a header cannot contain.
        """
        member = NAME_MEMBERS.get(method)
        if member is None:
            return request_headers(method, {}, version)
        target = params.get(member) if isinstance(params, Mapping) else getattr(params, member, None)
        wanted = self._by_tool.get(target, ()) if method == "tools/call" and isinstance(target, str) else ()
        repeated = {member: target, "arguments": _arguments_of(params)} if wanted else {member: target}
        return request_headers(method, repeated, version, wanted)


def _arguments_of(params: Params | Mapping[str, Any] | None) -> Any:
    arguments = params.get("arguments") if isinstance(params, Mapping) else getattr(params, "arguments", None)
    try:
        # As they are in the body: a value of another type, such as an enum, becomes what JSON makes of it.
        return msgspec_json.decode(arguments if isinstance(arguments, Raw) else msgspec_json.encode(arguments))
    except (DecodeError, TypeError, ValueError, RecursionError):
        return None  # the error for it is raised where the body is written
