"""Pagination."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="server/utilities/pagination")

RULES = (
    _rule(
        id="PG-01",
        level="MUST",
        title="Lists are walked by cursors, which are strings: each leads on, until there is none",
        partly_client="Tried with tools/list alone, and only with clients that follow cursors",
        fix="Make nextCursor a text, and leave it out on the last page.",
    ),
    _rule(
        id="PG-02",
        level="MUST",
        side="client",
        title="Cursors go back exactly as they came, and a page may have any length, also none",
    ),
    _rule(id="PG-03", level="SHOULD", side="client", title="A page without nextCursor is the last one"),
    _rule(
        id="PG-04",
        level="MUST",
        side="client",
        title="An empty cursor is a cursor like any other, and not the end",
        since=MODERN[0],
    ),
    _rule(
        id="PG-05",
        level="SHOULD",
        side="server",
        title="A cursor that is none of the server's is refused with -32602; its own lead to the same page each time",
        partly="Only within one conversation; how long a cursor stays good is not tried",
    ),
    _rule(
        id="PG-06",
        level="SHOULD",
        basis="inference",
        side="client",
        title="A list that goes round in circles is not followed for ever",
        lenient="No sentence bounds a list",
    ),
)
