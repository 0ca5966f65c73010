"""Apps and extensions, from the side of a client."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Skip

_UNKNOWN = {"extensions": {"com.example/never-heard-of": {"level": 9}, "org.example.nested/other": {}}}
_PAGE = "text/html;profile=mcp-app"
_NO_SUCH_METHOD = -32601


@probe("AP-01")
async def unknown_extensions_change_nothing(case: Case) -> None:
    """Requests that declare unknown extensions are served as always."""
    fix = "Look for the extensions that you know, and pass over the others."
    response = await case.conversation.request(case.harmless, client_capabilities=_UNKNOWN)
    case.expect(
        "AP-01", response.is_result, f"a request that declares unknown extensions got {response.summary}", fix=fix, about=response
    )
    if case.features.has("tools"):
        plain = await case.conversation.request("tools/list")
        listed = await case.conversation.request("tools/list", client_capabilities=_UNKNOWN)
        case.expect(
            "AP-01",
            listed.is_result == plain.is_result and _kind(listed.result) == _kind(plain.result),
            f"tools/list got {listed.summary} when unknown extensions were declared, and {plain.summary} without them",
            fix=fix,
            about=listed,
        )


@probe("AP-02")
async def apps_are_resources(case: Case) -> None:
    """The pages of tools that have one can be read, and what belongs between a page and its host is not understood."""
    response = await case.conversation.request("ui/initialize", {})
    case.expect(
        "AP-02",
        response.code == _NO_SUCH_METHOD,
        f"ui/initialize, which is said between a host and a page, got {response.summary}",
        fix="Do not serve ui/ methods; answer them with -32601.",
        about=response,
    )
    for tool, uri in _pages(case):
        if not uri.startswith("ui://"):
            case.expect("AP-02", condition=False, why=f"the page of {tool.get('name')} is {uri}, which is no ui:// resource")
            continue
        read = await case.conversation.request("resources/read", {"uri": uri})
        contents = read.result.get("contents")
        kinds = [each.get("mimeType") for each in contents if isinstance(each, dict)] if isinstance(contents, list) else []
        case.expect(
            "AP-02",
            any(isinstance(kind, str) and kind.replace(" ", "").lower() == _PAGE for kind in kinds),
            f"the page {uri} of {tool.get('name')} is no resource of the type {_PAGE}: {kinds or read.summary}",
            fix=f"Serve the page by resources/read, with the mimeType {_PAGE}.",
            about=read,
        )


@probe("AP-03", needs="call")
async def tools_with_an_app_say_something_to_others(case: Case) -> None:
    """A tool with a page is called by a client that cannot show any."""
    names = {tool.get("name") for tool, _uri in _pages(case)}
    calls = [call for call in case.features.safe_calls(case.permissions) if call.name in names]
    if not calls:
        raise Skip("there is no tool with an app that may be called")
    for call in calls:
        response = await case.conversation.request("tools/call", call.params)
        if response.result.get("resultType", "complete") != "complete" or response.result.get("isError") is True:
            continue
        content = response.result.get("content")
        texts = [each.get("text") for each in content if isinstance(each, dict)] if isinstance(content, list) else []
        case.expect(
            "AP-03",
            any(isinstance(text, str) and text.strip() for text in texts),
            f"{call.name} has an app, and no text for a client without apps",
            fix="Put what the page shows into a text block as well.",
            about=response,
        )


def _pages(case: Case) -> list[tuple[dict[str, Any], str]]:
    """The tools that have a page, each with its URI."""
    found = []
    for tool in case.features.tools:
        meta = tool.get("_meta")
        ui = meta.get("ui") if isinstance(meta, dict) else None
        uri = ui.get("resourceUri") if isinstance(ui, dict) else None
        if isinstance(uri, str):
            found.append((tool, uri))
    return found


def _kind(result: dict[str, Any]) -> Any:
    return result.get("resultType")
