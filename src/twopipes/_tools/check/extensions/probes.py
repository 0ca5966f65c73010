"""Apps and extensions of servers."""

from __future__ import annotations

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.messages import members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Skip

_UNKNOWN = {"extensions": {"com.example/unknown": {"level": 9}, "org.example.nested/other": {}}}
_PAGE = "text/html;profile=mcp-app"


@probe("AP-01")
async def unknown_extensions_change_nothing(case: Case) -> None:
    """Declares unknown extensions."""
    response = await case.conversation.request(case.harmless, client_capabilities=_UNKNOWN)
    case.expect("AP-01", response.is_result, f"a request that declares unknown extensions got {response.summary}", about=response)
    if case.features.has("tools"):
        plain = await case.conversation.request("tools/list")
        listed = await case.conversation.request("tools/list", client_capabilities=_UNKNOWN)
        is_same = listed.is_result == plain.is_result and listed.result.get("resultType") == plain.result.get("resultType")
        why = f"tools/list got {listed.summary} with unknown extensions, and {plain.summary} without them"
        case.expect("AP-01", is_same, why, about=listed)


@probe("AP-02")
async def apps_are_resources(case: Case) -> None:
    """Reads the pages of tools with an app, and sends a method that belongs between a page and its host."""
    response = await case.conversation.request("ui/initialize", {})
    case.expect_code("AP-02", response, METHOD_NOT_FOUND, "ui/initialize, which belongs between a host and a page,")
    for name, uri in _pages(case):
        if not uri.startswith("ui://"):
            case.expect("AP-02", False, f"the page of {name} is {uri}, not a ui:// resource")
            continue
        read = await case.conversation.request("resources/read", {"uri": uri})
        kinds = [each.get("mimeType") for each in read.items("contents")]
        is_page = any(isinstance(kind, str) and kind.replace(" ", "").lower() == _PAGE for kind in kinds)
        why = f"the page {uri} of {name} is not a resource of the type {_PAGE}: {kinds or read.summary}"
        case.expect("AP-02", is_page, why, about=read)


@probe("AP-03", needs="call")
async def tools_with_an_app_also_return_text(case: Case) -> None:
    """Calls tools that have an app, as a client without apps."""
    names = {name for name, _ in _pages(case)}
    calls = [call for call in case.safe_calls if call.name in names]
    if not calls:
        raise Skip("there is no tool with an app that may be called")
    for call in calls:
        result = (response := await case.conversation.request("tools/call", call.params)).result
        if result.get("resultType", "complete") == "complete" and result.get("isError") is not True:
            texts = [each.get("text") for each in response.items("content")]
            has_text = any(isinstance(text, str) and text.strip() for text in texts)
            case.expect("AP-03", has_text, f"{call.name} has an app, but returns no text", about=response)


def _pages(case: Case) -> list[tuple[str, str]]:
    """Return the names of tools with an app, and the URIs of their pages."""
    found = [(tool.get("name"), members(members(tool.get("_meta")).get("ui")).get("resourceUri")) for tool in case.features.tools]
    return [(str(name), uri) for name, uri in found if isinstance(uri, str)]
