"""Pagination, from the side of a client."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twopipes._tools.check.conversation import LiveConversation, Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.verdict import Skip

# The method, the member with the items, the capability.
_LISTS = (
    ("tools/list", "tools", "tools"),
    ("resources/list", "resources", "resources"),
    ("resources/templates/list", "resourceTemplates", "resources"),
    ("prompts/list", "prompts", "prompts"),
)
_PAGES = 50
_REPEATED = 3
_INVALID_PARAMS = -32602
_NO_CURSOR = "twopipes-check: no cursor of this server"


@probe("PG-01")
async def lists_are_walked_to_their_end(case: Case) -> None:
    """Every list is walked, page by page, with the cursors that the server gives."""
    walked = False
    for method, _, capability in _LISTS:
        if not case.features.has(capability):
            continue
        pages, wrong, last = await _walk(case.conversation, method)
        if wrong:  # it may have changed under the walk; that does not happen every time
            pages, wrong, last = await _walk(case.conversation, method)
        if pages:
            walked = True
            fix = "Let each nextCursor be a string that leads to the following page, and leave it out on the last one."
            case.expect("PG-01", not wrong, wrong, fix=fix, about=last)
    if not walked:
        raise Skip("the server has no lists")


async def _walk(conversation: LiveConversation, method: str) -> tuple[int, str, Response]:
    """The number of pages, what is wrong with the way they are linked, and the last answer."""
    seen: set[str] = set()
    response = await conversation.request(method)
    while response.is_result and len(seen) < _PAGES:
        cursor = response.result.get("nextCursor")
        if cursor is None:
            return len(seen) + 1, "", response
        if not isinstance(cursor, str):
            return len(seen) + 1, f"nextCursor of {method} is no string: {str(cursor)[:60]}", response
        if cursor in seen:
            return len(seen), f"{method} gives a cursor that was followed already, so that the list has no end", response
        seen.add(cursor)
        response = await conversation.request(method, {"cursor": cursor})
    wrong = "" if response.is_result else f"{method} with a cursor that the server itself had given got {response.summary}"
    return len(seen), wrong, response


@probe("PG-05")
async def cursors_of_others_are_refused(case: Case) -> None:
    """Each list is asked for a cursor that is none, and twice for one that it gave."""
    conversation = case.conversation
    why_skipped = "the server has no lists"
    judged = False
    for method, member, capability in _LISTS:
        if not case.features.has(capability):
            continue
        first = await conversation.request(method)
        if not first.is_result:
            continue
        refused = await conversation.request(method, {"cursor": _NO_CURSOR})
        cursor = first.result.get("nextCursor")
        if not isinstance(cursor, str) and refused.is_result:
            why_skipped = "the lists of the server have one page each, and it gives no cursors"
            continue
        judged = True
        case.expect(
            "PG-05",
            refused.code == _INVALID_PARAMS,
            f"{method} with a cursor that is none of the server's got {refused.summary}",
            fix="Answer with the error -32602, so that the client begins again.",
            about=refused,
        )
        if isinstance(cursor, str):
            pages = [await conversation.request(method, {"cursor": cursor}) for _ in range(_REPEATED)]
            names = [_names(page, member) for page in pages]
            case.expect(
                "PG-05",
                # A list may change at any time, though not between every two requests.
                any(one == other for one, other in pairwise(names)),
                f"{method} gave a different page each time for the same cursor",
                fix="Let a cursor lead to the same place each time.",
                about=pages[-1],
            )
    if not judged:
        raise Skip(why_skipped)


def _names(page: Response, member: str) -> list[Any]:
    items = page.result.get(member)
    items = items if isinstance(items, list) else []
    return [each.get("uri") or each.get("uriTemplate") or each.get("name") if isinstance(each, dict) else each for each in items]
