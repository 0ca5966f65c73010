"""Caching, from the side of a client."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES, Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import CHANGING
from twopipes._tools.check.verdict import Skip

_HINTS = ("ttlMs", "cacheScope")
_LISTS = (
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resources"),
    ("prompts/list", "prompts"),
)
# Resources that are read, and tools that are called.
_READ = 8
_CALLS = 12
_PAGES = 20


@probe("CH-01", "CH-02", needs="resources")
async def what_is_read_says_how_long_it_is_good(case: Case) -> None:
    """Resources are read; the lists show it by themselves."""
    for uri in _uris(case):
        response = await case.conversation.request("resources/read", {"uri": uri})
        if not response.is_result or response.result.get("resultType", "complete") != "complete":
            continue
        missing = [hint for hint in _HINTS if hint not in response.result]
        fix = "Put ttlMs and cacheScope into every complete result of resources/read; 0 and private are always right."
        why = f"the result of resources/read has no {' and no '.join(missing)}"
        case.expect("CH-01", not missing, why, fix=fix, about=response)
        if missing:
            continue
        lifetime, scope = response.result["ttlMs"], response.result["cacheScope"]
        is_lifetime = isinstance(lifetime, int) and not isinstance(lifetime, bool) and lifetime >= 0
        case.expect("CH-02", is_lifetime, f"ttlMs of a resource is {lifetime!r}, and no integer of at least 0", about=response)
        case.expect(
            "CH-02",
            scope in ("public", "private"),
            f"cacheScope of a resource is {scope!r}; it is public or private",
            about=response,
        )


@probe("CH-05", client_capabilities=ALL_CAPABILITIES)
async def questions_carry_no_hints(case: Case) -> None:
    """Resources are read, prompts fetched and tools called by a client that can answer questions, to get some."""
    conversation, features = case.conversation, case.features
    asked: list[tuple[str, dict[str, Any]]] = [
        *(("resources/read", {"uri": uri}) for uri in _uris(case)),
        *(
            ("prompts/get", {"name": prompt.get("name")})
            for prompt in features.prompts[:_READ]
            if not any(isinstance(each, dict) and each.get("required") for each in prompt.get("arguments") or ())
        ),
        *(("tools/call", call.params) for call in features.safe_calls(case.permissions)[:_CALLS] if call.name not in CHANGING),
    ]
    questions: list[tuple[str, Response]] = []
    for method, params in asked:
        response = await conversation.request(method, params)
        if response.result.get("resultType") == "input_required":
            questions.append((method, response))
    for method, response in questions:
        told = [hint for hint in _HINTS if hint in response.result]
        case.expect(
            "CH-05",
            not told,
            f"{method} was answered with questions (input_required), and {' and '.join(told)} with them",
            fix="Put caching hints into complete results alone; questions must not be kept by anybody.",
            about=response,
        )
    if not questions:
        raise Skip("nothing that may be asked for made the server ask back")


@probe("CH-08")
async def pages_share_their_scope(case: Case) -> None:
    """Every list with more than one page is walked."""
    judged = False
    for method, capability in _LISTS:
        if not case.features.has(capability):
            continue
        pages = await _pages(case, method)
        scopes = [page.result.get("cacheScope") for page in pages]
        if len(pages) > 1:
            judged = True
            odd = next((page for page in pages if page.result.get("cacheScope") != scopes[0]), None)
            case.expect(
                "CH-08",
                odd is None,
                f"the pages of {method} differ in cacheScope: {', '.join(map(str, scopes))}",
                fix="Give all pages of a list the same scope; if one of them is private, all are.",
                about=odd,
            )
    if not judged:
        raise Skip("no list of the server has more than one page")


async def _pages(case: Case, method: str) -> list[Response]:
    pages: list[Response] = []
    cursor = None
    while len(pages) < _PAGES:
        response = await case.conversation.request(method, None if cursor is None else {"cursor": cursor})
        if not response.is_result:
            break
        pages.append(response)
        cursor = response.result.get("nextCursor")
        if not isinstance(cursor, str):
            break
    return pages


def _uris(case: Case) -> list[str]:
    found = [resource.get("uri") for resource in case.features.resources]
    return [uri for uri in found if isinstance(uri, str)][:_READ]
