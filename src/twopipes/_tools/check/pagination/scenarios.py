"""Pagination of clients."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

from twopipes._codes import INVALID_PARAMS
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

_LIST = "tools/list"
# A client that parses, trims, decodes or escapes cursors changes these.
_CURSORS = ('page two: \u00e9\u2028/?&=+%20\\ "it\'s"', "  MDA=  ")
# Pages in a circle that a client may follow before it counts as endless, and the same for one that the timeout ends.
_ENDLESS = 1000
_ENDLESS_AT_TIMEOUT = 100


async def _serve_pages(fake: FakeServer, *pages: tuple[int, str | None]) -> None:
    """List tools on pages, each with a number of them and the cursor of the next, until the client exits."""
    for number in range(1, 10):
        fake.add_tool(f"tool_{number}", text("Done."))
    cursors = [None, *(cursor for _, cursor in pages[:-1])]

    def response(message: ClientMessage) -> Any:
        cursor = message.params.get("cursor")
        if cursor not in cursors:
            return Fault(INVALID_PARAMS, "unknown cursor")
        at = cursors.index(cursor)
        first = sum(size for size, _ in pages[:at])
        size, following = pages[at]
        last = None if following is None else first + size
        return {"tools": fake.healthy.tools[first:last], **({} if following is None else {"nextCursor": following})}

    fake.on[_LIST] = response
    await fake.exited_after(_LIST)


def _with_cursor(fake: FakeServer) -> list[ClientMessage]:
    """Return the requests for further pages; skip the scenario if there are none, which is the client's choice."""
    found = [message for message in fake.requests(_LIST) if message.params.get("cursor") is not None]
    if not found:
        raise Skip("the client does not follow cursors")
    return found


def _has_followed(fake: FakeServer, cursor: str) -> bool:
    return any(message.params["cursor"] == cursor for message in _with_cursor(fake))


@scenario("PG-01", "PG-02", "PG-03")
async def lists_pages(fake: FakeServer) -> None:
    """The tools are on pages of one, seven and the rest, with unusual cursors."""
    await _serve_pages(fake, (1, _CURSORS[0]), (7, _CURSORS[1]), (0, None))
    untyped = [message for message in fake.requests(_LIST) if not isinstance(message.params.get("cursor", ""), str)]
    if not untyped:
        _with_cursor(fake)  # a client that follows no cursors is skipped
    fake.forbid("PG-01", untyped, "the client sent a cursor that is not a string")
    changed = [message for message in _with_cursor(fake) if message.params["cursor"] not in _CURSORS]
    fake.forbid("PG-02", changed, "the client sent a cursor that it did not get from the server: it was changed on the way")
    if not _has_followed(fake, _CURSORS[-1]):
        fake.skip("PG-03", "the client did not request the last page")
        return
    turns = [(one.params.get("cursor"), other) for one, other in pairwise(fake.requests(_LIST))]
    too_far = [message for cursor, message in turns if cursor == _CURSORS[-1] and message.params.get("cursor") is not None]
    fake.forbid("PG-03", too_far, "the client continued with a cursor after the page without nextCursor")


@scenario("PG-02")
async def lists_an_empty_page(fake: FakeServer) -> None:
    """The second page is empty, and there is a third one."""
    await _serve_pages(fake, (2, "second"), (0, "third"), (0, None))
    why = "the client treated an empty page as the last one, although it has a nextCursor"
    fake.expect("PG-02", _has_followed(fake, "third"), why, about=fake.exchanges(_LIST))


@scenario("PG-04")
async def uses_an_empty_cursor(fake: FakeServer) -> None:
    """The cursor of the third page is the empty string."""
    await _serve_pages(fake, (2, "second"), (2, ""), (0, None))
    fake.expect("PG-04", _has_followed(fake, ""), "the client treated an empty nextCursor as the end", about=fake.exchanges(_LIST))


@scenario("PG-06")
async def lists_in_a_circle(fake: FakeServer) -> None:
    """Every page leads to itself."""
    served = count()

    def circle(_: ClientMessage) -> Any:
        page = {"tools": fake.healthy.tools}
        return page if next(served) > _ENDLESS else {**page, "nextCursor": "again"}

    fake.on[_LIST] = circle
    await fake.exited_after(_LIST)
    followed = _with_cursor(fake)
    most = _ENDLESS_AT_TIMEOUT if fake.left_at is None else _ENDLESS
    why = f"the client followed the same cursor {len(followed)} times, and did not stop by itself"
    fake.expect("PG-06", len(followed) <= most, why, about=followed[-1])
