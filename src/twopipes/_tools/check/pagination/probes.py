"""Pagination of servers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twopipes._codes import INVALID_PARAMS
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import Response
from twopipes._tools.check.probe import Case, probe

# By method: the member with the items, and the capability.
_LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "resources"),
    "prompts/list": ("prompts", "prompts"),
}
_PAGES = 50
_REPEATED = 3
_UNKNOWN_CURSOR = "twopipes-check: no cursor of this server"


@probe("PG-01")
async def lists_have_an_end(case: Case) -> None:
    """Every list is followed page by page, with the cursors of the server."""
    has_pages = False
    for method, (_, capability) in _LISTS.items():
        if case.features.has(capability):
            pages, fault, last = await _walk(case.conversation, method)
            if fault:  # the list may have changed meanwhile, which does not happen every time
                pages, fault, last = await _walk(case.conversation, method)
            if pages:
                has_pages = True
                case.expect("PG-01", not fault, fault, about=last)
    if not has_pages:
        case.give_up("the server has no lists")


async def _walk(conversation: LiveConversation, method: str) -> tuple[int, str, Response]:
    """Return the number of pages, what is wrong with their cursors, and the last response."""
    seen: set[str] = set()
    response = await conversation.request(method)
    while response.is_result and len(seen) < _PAGES:
        cursor = response.result.get("nextCursor")
        if cursor is None:
            return len(seen) + 1, "", response
        if not isinstance(cursor, str):
            return len(seen) + 1, f"nextCursor of {method} is not a string: {str(cursor)[:60]}", response
        if cursor in seen:
            return len(seen), f"{method} returns the same cursor again, so the list is endless", response
        seen.add(cursor)
        response = await conversation.request(method, {"cursor": cursor})
    fault = "" if response.is_result else f"{method} with a cursor of the server got {response.summary}"
    return len(seen), fault, response


@probe("PG-05")
async def unknown_cursors_are_rejected(case: Case) -> None:
    """Each list is requested with an unknown cursor, and several times with a cursor of the server."""
    conversation = case.conversation
    reason: str | None = "the server has no lists"
    for method, (member, capability) in _LISTS.items():
        first = await conversation.request(method) if case.features.has(capability) else None
        if first is None or not first.is_result:
            continue
        rejected = await conversation.request(method, {"cursor": _UNKNOWN_CURSOR})
        cursor = first.result.get("nextCursor")
        if not isinstance(cursor, str) and rejected.is_result:
            reason = reason and "the lists of the server have one page each, without cursors"
            continue
        reason = None
        case.expect_code("PG-05", rejected, INVALID_PARAMS, f"{method} with an unknown cursor")
        if isinstance(cursor, str):
            pages = [await conversation.request(method, {"cursor": cursor}) for _ in range(_REPEATED)]
            # A list may change at any time, but not between every two requests.
            is_same = any(one == other for one, other in pairwise(_names(page, member) for page in pages))
            case.expect("PG-05", is_same, f"{method} returned a different page each time for the same cursor", about=pages[-1])
    if reason:
        case.give_up(reason)


def _names(page: Response, member: str) -> list[Any]:
    return [each.get("uri") or each.get("uriTemplate") or each.get("name") for each in page.items(member)]
