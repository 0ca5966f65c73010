"""Caching hints of servers."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import CHANGING, required_of
from twopipes._tools.check.verdict import Skip

_HINTS = ("ttlMs", "cacheScope")
# Resources and prompts that are requested, and tools that are called.
_READ = 8
_CALLS = 12


@probe("CH-01", "CH-02", needs="resources")
async def resource_contents_have_caching_hints(case: Case) -> None:
    """Reads resources; the hints of the lists are judged in every conversation."""
    for uri in case.features.uris[:_READ]:
        response = await case.conversation.request("resources/read", {"uri": uri})
        if not response.is_result or response.result.get("resultType", "complete") != "complete":
            continue
        missing = [hint for hint in _HINTS if hint not in response.result]
        if case.expect("CH-01", not missing, f"the result of resources/read has no {' and no '.join(missing)}", about=response):
            lifetime, scope = response.result["ttlMs"], response.result["cacheScope"]
            is_lifetime = isinstance(lifetime, int) and not isinstance(lifetime, bool) and lifetime >= 0
            case.expect("CH-02", is_lifetime, f"ttlMs of a resource is {lifetime!r}", about=response)
            case.expect("CH-02", scope in ("public", "private"), f"cacheScope of a resource is {scope!r}", about=response)


@probe("CH-05", client_capabilities=ALL_CAPABILITIES)
async def input_requests_have_no_caching_hints(case: Case) -> None:
    """Reads resources, gets prompts and calls tools as a client that can answer questions."""
    prompts = [prompt.get("name") for prompt in case.features.prompts[:_READ] if not required_of(prompt)]
    asked: list[tuple[str, dict[str, Any]]] = [
        *(("resources/read", {"uri": uri}) for uri in case.features.uris[:_READ]),
        *(("prompts/get", {"name": name}) for name in prompts),
        *(("tools/call", call.params) for call in case.safe_calls[:_CALLS] if call.name not in CHANGING),
    ]
    for method, params in asked:
        response = await case.conversation.request(method, params)
        if response.result.get("resultType") == "input_required":
            hints = [hint for hint in _HINTS if hint in response.result]
            why = f"a result of type input_required of {method} has {' and '.join(hints)}"
            case.expect("CH-05", not hints, why, about=response)
    if not case.verdicts:
        raise Skip("the server asked nothing, whatever was requested")


@probe("CH-08")
async def pages_have_the_same_scope(case: Case) -> None:
    """Requests all pages of every list."""
    for kind in ("tools", "resources", "resources/templates", "prompts"):
        if not case.features.has(kind.partition("/")[0]):
            continue
        pages = [page async for page in case.conversation.pages(f"{kind}/list") if page.is_result]
        scopes = [page.result.get("cacheScope") for page in pages]
        if len(pages) > 1:
            odd = [page for page in pages if page.result.get("cacheScope") != scopes[0]]
            case.forbid("CH-08", odd, f"the pages of {kind}/list differ in cacheScope: {', '.join(map(str, scopes))}")
    if not case.verdicts:
        raise Skip("no list of the server has more than one page")
