"""What a server lists, page by page, and what is wrong with its tools. Read leniently: a bad tool must not hide others."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import msgspec
from msgspec import Raw

from twopipes._protocol.dialect import Dialect
from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._tools.doctor.observations import Answer, Listed, ToolFault
from twopipes._tools.doctor.visit import Visit
from twopipes.errors import RemoteProtocolError

__all__ = ["ask_for_lists", "missing_members"]

# For each list: the method, the member of its result, what names an entry, and the capability that declares it.
_LISTS: Final = (
    ("tools", "tools/list", "tools", "name", "tools"),
    ("resources", "resources/list", "resources", "uri", "resources"),
    ("templates", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"),
    ("prompts", "prompts/list", "prompts", "name", "prompts"),
)
# A server that gives ever new cursors has no last page.
_MOST_PAGES: Final = 50
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
_METHOD_NOT_FOUND: Final = -32601


async def ask_for_lists(
    visit: Visit, spoken: Dialect, capabilities: ServerCapabilities, info: Implementation, *, patience: float
) -> tuple[Listed, list[Answer]]:
    """Asks for everything that the capabilities declare; nothing is called."""
    lists: dict[str, tuple[str, ...] | None] = {}
    answers: list[Answer] = []
    faults: list[ToolFault] = []
    for name, method, member, key, capability in _LISTS:
        if not capabilities.allows(capability):
            continue
        entries, answer = await _pages(visit, spoken, method, member, info, patience=patience)
        # Templates have no capability of their own, and who has none need not know the method (RS-02).
        if name == "templates" and answer.code == _METHOD_NOT_FOUND:
            continue
        answers.append(answer)
        if entries is not None:
            lists[name] = tuple(str(entry.get(key, "?")) if isinstance(entry, dict) else "?" for entry in entries)
            if name == "tools":
                faults = _faults(entries)
        if answer.took is None:
            break  # gone or silent: the next list would only cost the same patience again
    return Listed(**lists, faults=tuple(faults)), answers


async def _pages(
    visit: Visit, spoken: Dialect, method: str, member: str, info: Implementation, *, patience: float
) -> tuple[list[Any] | None, Answer]:
    found: list[Any] = []
    missing: set[str] = set()
    cursor: str | None = None
    fault: str | None = None
    took = 0.0
    meta = spoken.request_meta(client_info=info, capabilities=ClientCapabilities()) if spoken.modern else None
    for _ in range(_MOST_PAGES):
        asked_at = visit.elapsed
        params = ({} if cursor is None else {"cursor": cursor}) | ({} if meta is None else {"_meta": meta})
        heard = await visit.ask(method, params, patience=patience)
        if heard is None:
            return None, Answer(method=method, message="no response")
        took += heard.at - asked_at
        if heard.error is not None:
            return None, Answer(method=method, took=took, code=heard.error.code, message=heard.error.message)
        if heard.result is None:
            return None, Answer(method=method, took=took, message=heard.fault or "malformed")
        result = msgspec.json.decode(heard.result)
        if not isinstance(result.get(member), list):
            return None, Answer(method=method, took=took, message=f"its result has no list {member!r}")
        missing |= set(missing_members(spoken, heard.result))
        found += result[member]
        fault = fault or _misfit(spoken, method, heard.result)
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str):
            break
    return found, Answer(method=method, took=took, usable=fault is None, message=fault or "", missing=tuple(sorted(missing)))


def missing_members(spoken: Dialect, raw: Raw) -> tuple[str, ...]:
    """Members that strict clients want in every result of a modern list (VN-09, CH-01)."""
    if not spoken.modern:
        return ()
    result = msgspec.json.decode(raw)
    return tuple(name for name in ("resultType", "ttlMs", "cacheScope") if name not in result)


def _misfit(spoken: Dialect, method: str, raw: Raw) -> str | None:
    try:
        spoken.read_result(method, raw)
    except RemoteProtocolError as error:
        return error.what
    return None


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
