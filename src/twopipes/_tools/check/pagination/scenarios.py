"""Pagination, from the side of a server."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from twopipes._tools.check.fake_server import FakeServer, Said, scenario
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.quotes import exchanges
from twopipes._tools.check.verdict import Skip

_LIST = "tools/list"
# Whoever parses, trims, decodes or escapes cursors gives these back changed.
_CURSORS = ('page two: \u00e9\u2028/?&=+%20\\ "it\'s"', "  MDA=  ")
_INVALID_PARAMS = -32602
# Pages that a client may follow in a circle before it counts as for ever.
_FOR_EVER = 1000
# The same for one that has not come to an end when its time is over, however slow it may be.
_FOR_LONG = 100


def _serve_pages(fake: FakeServer, pages: Sequence[tuple[int, str | None]]) -> None:
    """Lists tools on pages, each with so many of them and the cursor of the next."""
    for number in range(1, 10):
        fake.add_tool(f"tool_{number}", text("Done."))
    cursors = [None, *(cursor for _, cursor in pages[:-1])]

    def answer(said: Said) -> Any:
        cursor = said.params.get("cursor")
        if cursor not in cursors:
            return Fault(_INVALID_PARAMS, "that is none of my cursors")
        at = cursors.index(cursor)
        first = sum(size for size, _ in pages[:at])
        size, following = pages[at]
        last = None if following is None else first + size
        return {"tools": fake.healthy.tools[first:last], **({} if following is None else {"nextCursor": following})}

    fake.on[_LIST] = answer


def _with_cursor(fake: FakeServer) -> list[Said]:
    """The requests for further pages.

    Raises:
        Skip: The client did not send any, which is its own business.
    """
    found = [said for said in fake.requests(_LIST) if said.params.get("cursor") is not None]
    if not found:
        raise Skip("the client does not follow cursors")
    return found


@scenario("PG-01", "PG-02", "PG-03")
async def lists_on_pages(fake: FakeServer) -> None:
    """The tools come on pages of one, seven and the rest, with cursors that look odd."""
    _serve_pages(fake, [(1, _CURSORS[0]), (7, _CURSORS[1]), (0, None)])
    await fake.heard(_LIST)
    await fake.left()
    asked = fake.requests(_LIST)
    untyped = next((said for said in asked if not isinstance(said.params.get("cursor", ""), str)), None)
    mend = "Send the string that came as nextCursor as cursor; leave cursor out for the first page."
    if untyped is None:
        _with_cursor(fake)  # whoever follows none is skipped
    fake.expect("PG-01", untyped is None, "the client sent a cursor that is no string", mend=mend, about=untyped)
    followed = _with_cursor(fake)
    changed = next((said for said in followed if said.params["cursor"] not in _CURSORS), None)
    fake.expect(
        "PG-02",
        changed is None,
        "the client sent a cursor that the server had not given: it was changed on the way",
        mend="Keep cursors as they come, and send them back the same, character by character.",
        about=changed,
    )
    if not any(said.params["cursor"] == _CURSORS[-1] for said in followed):
        fake.skip("PG-03", "the client did not ask for the last page")
        return
    too_far = next(
        (
            after
            for before, after in itertools.pairwise(asked)
            if before.params.get("cursor") == _CURSORS[-1] and after.params.get("cursor") is not None
        ),
        None,
    )
    fake.expect(
        "PG-03",
        too_far is None,
        "the client went on with a cursor after the page without nextCursor",
        mend="Stop at the page that has no nextCursor.",
        about=too_far,
    )


@scenario("PG-02")
async def lists_an_empty_page(fake: FakeServer) -> None:
    """The second page is empty and has a successor."""
    _serve_pages(fake, [(2, "second"), (0, "third"), (0, None)])
    await fake.heard(_LIST)
    await fake.left()
    followed = [said.params["cursor"] for said in _with_cursor(fake)]
    fake.expect(
        "PG-02",
        "third" in followed,
        "the client took an empty page for the last one, though it had a nextCursor",
        mend="Go on for as long as there is a nextCursor; a page may have any number of items.",
        about=exchanges(fake, _LIST),
    )


@scenario("PG-04")
async def gives_an_empty_cursor(fake: FakeServer) -> None:
    """The second page leads to a third one by the empty string."""
    _serve_pages(fake, [(2, "second"), (2, ""), (0, None)])
    await fake.heard(_LIST)
    await fake.left()
    followed = [said.params["cursor"] for said in _with_cursor(fake)]
    fake.expect(
        "PG-04",
        "" in followed,
        'the client took "nextCursor":"" for the end of the list',
        mend="Only a missing nextCursor (or null) is the end: compare it with null, and not by its truth.",
        about=exchanges(fake, _LIST),
    )


@scenario("PG-06")
async def lists_in_a_circle(fake: FakeServer) -> None:
    """Every page leads to itself."""
    count = itertools.count()

    def circle(_said: Said) -> Any:
        page = {"tools": fake.healthy.tools}
        return page if next(count) > _FOR_EVER else {**page, "nextCursor": "again"}

    fake.on[_LIST] = circle
    await fake.heard(_LIST)
    await fake.left()
    followed = _with_cursor(fake)
    is_still_walking = fake.left_at is None and len(followed) > _FOR_LONG
    fake.expect(
        "PG-06",
        len(followed) <= _FOR_EVER and not is_still_walking,
        f"the client followed the same cursor {len(followed)} times, and had not stopped by itself then",
        mend="Stop when a cursor comes again, or after so many pages, and say that the list has no end.",
        about=followed[-1],
    )
