"""Pagination, from the side of a server."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
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

    def response(message: ClientMessage) -> Any:
        cursor = message.params.get("cursor")
        if cursor not in cursors:
            return Fault(_INVALID_PARAMS, "that is none of my cursors")
        at = cursors.index(cursor)
        first = sum(size for size, _ in pages[:at])
        size, following = pages[at]
        last = None if following is None else first + size
        return {"tools": fake.healthy.tools[first:last], **({} if following is None else {"nextCursor": following})}

    fake.on[_LIST] = response


def _with_cursor(fake: FakeServer) -> list[ClientMessage]:
    """The requests for further pages.

    Raises:
        Skip: The client did not send any, which is its own business.
    """
    found = [message for message in fake.requests(_LIST) if message.params.get("cursor") is not None]
    if not found:
        raise Skip("the client does not follow cursors")
    return found


@scenario("PG-01", "PG-02", "PG-03")
async def lists_on_pages(fake: FakeServer) -> None:
    """The tools come on pages of one, seven and the rest, with cursors that look odd."""
    _serve_pages(fake, [(1, _CURSORS[0]), (7, _CURSORS[1]), (0, None)])
    await fake.wait_for(_LIST)
    await fake.client_exited()
    asked = fake.requests(_LIST)
    untyped = next((message for message in asked if not isinstance(message.params.get("cursor", ""), str)), None)
    fix = "Send the string that came as nextCursor as cursor; leave cursor out for the first page."
    if untyped is None:
        _with_cursor(fake)  # whoever follows none is skipped
    fake.expect("PG-01", untyped is None, "the client sent a cursor that is no string", fix=fix, about=untyped)
    followed = _with_cursor(fake)
    changed = next((message for message in followed if message.params["cursor"] not in _CURSORS), None)
    fake.expect(
        "PG-02",
        changed is None,
        "the client sent a cursor that the server had not given: it was changed on the way",
        fix="Keep cursors as they come, and send them back the same, character by character.",
        about=changed,
    )
    if not any(message.params["cursor"] == _CURSORS[-1] for message in followed):
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
        fix="Stop at the page that has no nextCursor.",
        about=too_far,
    )


@scenario("PG-02")
async def lists_an_empty_page(fake: FakeServer) -> None:
    """The second page is empty and has a successor."""
    _serve_pages(fake, [(2, "second"), (0, "third"), (0, None)])
    await fake.wait_for(_LIST)
    await fake.client_exited()
    followed = [message.params["cursor"] for message in _with_cursor(fake)]
    fake.expect(
        "PG-02",
        "third" in followed,
        "the client took an empty page for the last one, though it had a nextCursor",
        fix="Go on for as long as there is a nextCursor; a page may have any number of items.",
        about=exchanges(fake, _LIST),
    )


@scenario("PG-04")
async def gives_an_empty_cursor(fake: FakeServer) -> None:
    """The second page leads to a third one by the empty string."""
    _serve_pages(fake, [(2, "second"), (2, ""), (0, None)])
    await fake.wait_for(_LIST)
    await fake.client_exited()
    followed = [message.params["cursor"] for message in _with_cursor(fake)]
    fake.expect(
        "PG-04",
        "" in followed,
        'the client took "nextCursor":"" for the end of the list',
        fix="Only a missing nextCursor (or null) is the end: compare it with null, and not by its truth.",
        about=exchanges(fake, _LIST),
    )


@scenario("PG-06")
async def lists_in_a_circle(fake: FakeServer) -> None:
    """Every page leads to itself."""
    count = itertools.count()

    def circle(_said: ClientMessage) -> Any:
        page = {"tools": fake.healthy.tools}
        return page if next(count) > _FOR_EVER else {**page, "nextCursor": "again"}

    fake.on[_LIST] = circle
    await fake.wait_for(_LIST)
    await fake.client_exited()
    followed = _with_cursor(fake)
    is_still_walking = fake.left_at is None and len(followed) > _FOR_LONG
    fake.expect(
        "PG-06",
        len(followed) <= _FOR_EVER and not is_still_walking,
        f"the client followed the same cursor {len(followed)} times, and had not stopped by itself then",
        fix="Stop when a cursor comes again, or after so many pages, and say that the list has no end.",
        about=followed[-1],
    )
