"""Pagination."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/utilities/pagination")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "PG-01": _rule(
        must="Lists are paged with cursors, which are strings; the last page has none",
        partly_client="Tried with tools/list only, and only for clients that follow cursors",
        fix="Make nextCursor a string that leads to the next page, and leave it out on the last page; send it back as cursor.",
    ),
    "PG-02": _client(
        must="Cursors are sent back unchanged, and a page may have any length, including 0",
        fix="Send every nextCursor back unchanged, character by character, even after an empty page.",
    ),
    "PG-03": _client(
        should="A page without nextCursor is the last one",
        fix="Stop at the page that has no nextCursor.",
    ),
    "PG-04": _client(
        must="An empty cursor is a cursor like any other, not the end of the list",
        since=MODERN[0],
        fix="Only a missing nextCursor, or null, is the end: compare it with null, and do not test its truth.",
    ),
    "PG-05": _server(
        should="An unknown cursor is rejected with -32602; a cursor leads to the same page each time",
        partly="Only within one conversation; how long a cursor stays valid is not tried",
        fix="Respond to an unknown cursor with -32602, and return the same page for the same cursor.",
    ),
    "PG-06": _client(
        should="A list whose cursors repeat is not followed endlessly",
        basis="inference",
        lenient="No sentence limits the length of a list",
        fix="Stop if a cursor repeats, or after a limit of pages, and report that the list is endless.",
    ),
}
