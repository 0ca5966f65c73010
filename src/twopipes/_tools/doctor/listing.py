"""The lists of a server, page by page, and faults of its tools. Reading is lenient: a bad tool must not hide the others."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw, structs

from twopipes._protocol.dialect import Dialect
from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._tools.doctor.observations import Listed, Reply, ToolFault
from twopipes._tools.doctor.stdout_reader import ReceivedResponse, reply_to
from twopipes.errors import RemoteProtocolError

# For each list: its name, the method, the member of the result, the member that names an entry, and the capability.
_LISTS: Final = (
    ("tools", "tools/list", "tools", "name", "tools"),
    ("resources", "resources/list", "resources", "uri", "resources"),
    ("templates", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
    ("prompts", "prompts/list", "prompts", "name", "prompts"),
)
# A server may return new cursors forever.
_MAX_PAGES: Final = 50
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
_METHOD_NOT_FOUND: Final = -32601


class Requester(Protocol):
    """A server that can be sent requests."""

    async def request(self, method: str, params: Any, *, seconds: float) -> ReceivedResponse | None:
        """Send a request and return its response, or ``None`` if there is none."""


async def request_lists(
    server: Requester, dialect: Dialect, capabilities: ServerCapabilities, info: Implementation, *, seconds: float
) -> tuple[Listed, list[Reply]]:
    """Request every list that the capabilities declare. Nothing is called."""
    lists: dict[str, tuple[str, ...] | None] = {}
    replies: list[Reply] = []
    faults: list[ToolFault] = []
    for name, method, member, key, capability in _LISTS:
        if not capabilities.allows(capability):
            continue
        entries, reply = await _pages(server, dialect, method, member, info, seconds=seconds)
        # Templates have no capability of their own, so a server without templates need not know the method (RS-02).
        if name == "templates" and reply.code == _METHOD_NOT_FOUND:
            continue
        replies.append(reply)
        if entries is not None:
            lists[name] = tuple(str(entry.get(key, "?")) if isinstance(entry, dict) else "?" for entry in entries)
            if name == "tools":
                faults = _faults(entries)
        if reply.took is None:
            break  # it exited or is silent: the next list would only time out as well
    return Listed(**lists, faults=tuple(faults)), replies


async def _pages(
    server: Requester, dialect: Dialect, method: str, member: str, info: Implementation, *, seconds: float
) -> tuple[list[Any] | None, Reply]:
    found: list[Any] = []
    missing: set[str] = set()
    cursor: str | None = None
    fault: str | None = None
    took = 0.0
    meta = dialect.client_meta(info, ClientCapabilities())
    for _ in range(_MAX_PAGES):
        params = ({} if cursor is None else {"cursor": cursor}) | ({"_meta": meta} if meta else {})
        response = await server.request(method, params, seconds=seconds)
        reply = reply_to(method, response)
        if response is None:
            return None, reply
        took += response.took
        if response.result is None:
            return None, structs.replace(reply, took=took)
        result = msgspec.json.decode(response.result)
        if not isinstance(result.get(member), list):
            return None, Reply(method=method, took=took, message=f"its result has no list {member!r}")
        missing |= set(missing_members(dialect, response.result))
        found += result[member]
        try:
            dialect.read_result(method, response.result)
        except RemoteProtocolError as error:
            fault = fault or error.what
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str):
            break
    return found, Reply(method=method, took=took, usable=fault is None, message=fault or "", missing=tuple(sorted(missing)))


def missing_members(dialect: Dialect, raw: Raw) -> tuple[str, ...]:
    """Return the members that every modern result must have and this one lacks (VN-09, CH-01)."""
    if not dialect.modern:
        return ()
    result = msgspec.json.decode(raw)
    return tuple(name for name in ("resultType", "ttlMs", "cacheScope") if name not in result)


def _faults(tools: list[Any]) -> list[ToolFault]:
    found = []
    for number, tool in enumerate(tools):
        if not isinstance(tool, dict):
            found.append(ToolFault(f"number {number + 1}", "it is not an object", "TL-01"))
            continue
        name = tool.get("name")
        shown = name if isinstance(name, str) else f"number {number + 1}"
        if not isinstance(name, str):
            found.append(ToolFault(shown, "it has no name", "TL-01"))
        elif not _NAME.fullmatch(name):
            found.append(ToolFault(shown, "its name has characters other than A-Z a-z 0-9 _ - . or is too long", "TL-15"))
        found += [ToolFault(shown, fault, "TL-01") for fault in _schema_faults(tool)]
    counted = Counter(tool.get("name") for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str))
    found += [
        ToolFault(str(name), f"there are {count} tools of that name", "TL-15") for name, count in counted.items() if count > 1
    ]
    return found


def _schema_faults(tool: dict[str, Any]) -> list[str]:
    if "inputSchema" not in tool:
        return ["it has no inputSchema"]
    schema = tool["inputSchema"]
    if not isinstance(schema, dict):
        return [f"its inputSchema is not an object but {msgspec.json.encode(schema)[:40].decode()}"]
    if schema.get("type") != "object":
        return [f"the type of its inputSchema is {schema.get('type')!r} and must be 'object'"]
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return ["the properties of its inputSchema are not an object"]
    required = schema.get("required", [])
    if not isinstance(required, list):
        return ["the required of its inputSchema is not a list"]
    unknown = [name for name in required if name not in properties] if schema.get("additionalProperties") is False else []
    return [f"its inputSchema requires {name!r} and does not allow it" for name in unknown]
